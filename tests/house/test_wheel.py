from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.house.process import ROOT, run_python


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    done = run_python("-c", build, str(folder), folder=ROOT)
    assert done.returncode == 0, done.stderr
    return folder / done.stdout.split()[-1]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts of a new environment that has the wheel, and borrows the dependencies of this one."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=False)
    scripts = home / "bin"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(scripts / "python"),
        "install",
        "--quiet",
        "--no-deps",
        str(wheel),
    ]
    subprocess.run(pip, check=True, timeout=120)
    site = sysconfig.get_path("purelib", vars={"base": str(home)})
    # A .pth file brings this environment's packages, but not the checkout: .pth files there are not read.
    (Path(site) / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return scripts


def test_the_wheel_holds_both_packages_their_types_and_the_specs(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"omniflow/py.typed", "omniflow_compiler/py.typed"} <= names
    specs = {f"omniflow/_specs/{path.relative_to(ROOT / 'specs')}" for path in (ROOT / "specs").rglob("*.yaml")}
    assert specs
    assert specs <= names
    data = {
        str(path.relative_to(ROOT / "compiler"))
        for path in (ROOT / "compiler").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert data <= names
    assert not any(name.startswith(("tests/", "compiler/", "specs/")) for name in names)


def test_the_installed_packages_are_the_wheels_own(installed: Path, tmp_path: Path) -> None:
    show = "import omniflow, omniflow_compiler; print(omniflow.__file__, omniflow_compiler.__file__, sep='\\n')"
    done = run_python("-c", show, folder=tmp_path, python=str(installed / "python"))
    assert done.returncode == 0, done.stderr
    assert all(Path(line).is_relative_to(installed.parent) for line in done.stdout.splitlines())


def test_the_installed_command_prints_its_help(installed: Path, tmp_path: Path) -> None:
    done = run_python(str(installed / "omniflow"), "--help", folder=tmp_path, python=str(installed / "python"))
    assert done.returncode == 0, done.stderr
    assert "check" in done.stdout


@pytest.mark.parametrize("name", ["smol_speech.speech", "null.speech"])
def test_a_catalogue_name_is_checked_from_any_folder(name: str, installed: Path, tmp_path: Path) -> None:
    done = run_python(str(installed / "omniflow"), "check", name, folder=tmp_path, python=str(installed / "python"))
    assert done.returncode == 0, done.stdout + done.stderr
