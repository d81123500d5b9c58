from __future__ import annotations

from pathlib import Path

from tests.house.process import ROOT, run_python

WITHOUT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "numpy", "omniflow"):
            raise ModuleNotFoundError(f"the compiler imported {name}", name=name)

sys.meta_path.insert(0, Absent())
"""
IMPORT_ALL = """
import importlib, pkgutil, omniflow_compiler

names = [module.name for module in pkgutil.walk_packages(omniflow_compiler.__path__, "omniflow_compiler.")]
for name in names:
    importlib.import_module(name)
print(len(names))
"""
COMPILE = """
import omniflow_compiler

print(omniflow_compiler.compile(sys.argv[1]).to_json(), end="")
"""


def test_every_module_of_the_compiler_imports_with_torch_absent(tmp_path: Path) -> None:
    done = run_python("-c", WITHOUT + IMPORT_ALL, folder=tmp_path, path=[ROOT / "compiler"])
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0


def test_a_program_compiles_with_torch_absent(tmp_path: Path) -> None:
    program = str(ROOT / "specs" / "null" / "speech.program.yaml")
    done = run_python("-c", WITHOUT + COMPILE, program, folder=tmp_path, path=[ROOT / "compiler"])
    assert done.returncode == 0, done.stderr
    assert '"kind": "schedule"' in done.stdout


def test_the_hook_that_hides_torch_works(tmp_path: Path) -> None:
    done = run_python("-c", WITHOUT + "import torch", folder=tmp_path)
    assert "the compiler imported torch" in done.stderr
