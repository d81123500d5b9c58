"""The specs and templates that come with OmniFlow are laid out as `omniflow fmt` lays them out."""

from __future__ import annotations

from pathlib import Path

import pytest

from omniflow.commands.fmt import format_files
from tests.house.process import ROOT


@pytest.mark.parametrize("folder", ["specs", "omniflow/templates"])
def test_what_comes_with_omniflow_is_laid_out(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = format_files([ROOT / folder], check=True)
    assert code == 0, f"{capsys.readouterr().out}\nrun `omniflow fmt {folder}`"


def test_what_is_not_laid_out_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "card.yaml").write_text("kind: card\nomniflow: 1\nid: c\n")
    assert format_files([tmp_path], check=True) == 1
    assert "card.yaml: not laid out" in capsys.readouterr().out
