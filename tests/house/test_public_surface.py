from __future__ import annotations

import inspect
from pathlib import Path

import omniflow
from tests.house.process import run_python


def test_every_public_name_is_there_and_says_what_it_is() -> None:
    for name in omniflow.__all__:
        thing = getattr(omniflow, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert inspect.getdoc(thing), f"omniflow.{name} has no docstring"


def test_the_public_names_are_sorted_and_hold_what_the_tour_uses() -> None:
    assert sorted(omniflow.__all__) == list(omniflow.__all__)
    assert {"compile", "load", "Engine", "Result", "Schedule"} <= set(omniflow.__all__)


def test_no_public_function_takes_arguments_it_does_not_name() -> None:
    for name in omniflow.__all__:
        thing = getattr(omniflow, name)
        if inspect.isfunction(thing):
            kinds = [parameter.kind for parameter in inspect.signature(thing).parameters.values()]
            assert inspect.Parameter.VAR_KEYWORD not in kinds, f"omniflow.{name} takes **arguments"


def test_importing_omniflow_does_not_import_torch(tmp_path: Path) -> None:
    done = run_python("-c", "import sys, omniflow; print('torch' in sys.modules)", folder=tmp_path)
    assert done.stdout == "False\n", done.stderr
