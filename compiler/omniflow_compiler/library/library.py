"""One place to look names up: the built-in sets and what installed packages or `--plugin` files add."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from omniflow_compiler.library.experts import EXPERTS
from omniflow_compiler.library.loops import LOOPS
from omniflow_compiler.library.ops import OPS
from omniflow_compiler.library.signature import ExpertSignature, LoopSignature, OpSignature

ENTRY_POINTS = "omniflow.signatures"


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """Ops, loop kinds and experts by name."""

    ops: Mapping[str, OpSignature]
    loops: Mapping[str, LoopSignature]
    experts: Mapping[str, ExpertSignature]

    def expert(self, use: str) -> ExpertSignature | None:
        """The expert of that name; installed packages are asked only for names that are not built in."""
        return self.experts.get(use) or _installed().get(use)

    def every_expert(self) -> Mapping[str, ExpertSignature]:
        """All experts by name, those of installed packages too."""
        return {**_installed(), **self.experts}

    def with_experts(self, experts: Iterable[ExpertSignature]) -> Library:
        """This library and the experts of a plugin file."""
        added = {signature.use: signature for signature in experts}
        return Library(ops=self.ops, loops=self.loops, experts={**self.experts, **added})


BUILT_IN = Library(ops=OPS, loops=LOOPS, experts=EXPERTS)


def has_asked_packages() -> bool:
    """Whether a name was looked for among what installed packages announce, in this process."""
    return _installed.cache_info().currsize > 0


@cache
def _installed() -> Mapping[str, ExpertSignature]:
    """Signatures that installed packages announce; an entry point names a sequence of them."""
    from importlib.metadata import entry_points  # 20 ms that few specs need

    found: dict[str, ExpertSignature] = {}
    for entry in entry_points(group=ENTRY_POINTS):
        for signature in entry.load():
            found[signature.use] = signature
    return found
