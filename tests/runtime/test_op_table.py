"""What the compiler promises of ops, loops and experts is what the runtime has."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import omniflow
from omniflow import bind, loaders
from omniflow.loops.base import Loop
from omniflow.ops.table import OPS
from omniflow_compiler.library.experts import EXPERTS
from omniflow_compiler.library.loops import LOOPS
from omniflow_compiler.library.ops import OPS as SIGNATURES


def test_every_op_of_the_language_runs_and_no_other() -> None:
    assert set(OPS) == set(SIGNATURES)


def test_ops_take_their_ports_as_their_signatures_say() -> None:
    for name, signature in SIGNATURES.items():
        op = OPS[name]
        ports = {port.name: port for port in signature.ports.inputs}
        taken = op.pieces | op.items
        assert taken | op.variadic | op.optional <= set(ports), name
        assert {port for port in taken if not ports[port].streams} == set(), name
        assert {port for port, found in ports.items() if found.variadic} == set(op.variadic), name


def test_every_loop_kind_of_the_language_runs_and_no_other() -> None:
    assert set(LOOPS) == set(bind.NEEDS)


def test_every_built_in_expert_can_be_loaded() -> None:
    assert set(EXPERTS) == set(loaders.BUILT_IN)
    for use, path in loaders.BUILT_IN.items():
        module, _, name = path.partition(":")
        file = Path(omniflow.__file__).parents[1] / f"{module.replace('.', '/')}.py"
        assert f"def {name}(" in file.read_text(encoding="utf-8"), use


def test_a_loop_has_nothing_but_what_the_protocol_names() -> None:
    names = {name for name in vars(Loop) if not name.startswith("_")}
    assert names == {
        "streams", "items", "variadic", "optional", "lanes", "is_asked", "check", "init", "next", "execute", "advance",
        "finalize", "behaviour", "release", "remember", "set_aside", "takes_room",
    }  # fmt: skip
    assert not [field for field in fields(bind.Bound) if field.name.startswith("_")]
