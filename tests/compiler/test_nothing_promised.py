"""What the schemas let an author write is there: loop kinds, capabilities, units."""

from __future__ import annotations

import re

from omniflow.bind import LOOPS, NEEDS
from omniflow_compiler.library.library import BUILT_IN
from omniflow_compiler.passes.capabilities import REACH
from omniflow_compiler.types import parse_type
from omniflow_compiler.validate import schema


def test_every_kind_of_loop_that_may_be_written_can_be_run() -> None:
    written = set(schema("card")["$defs"]["loop"]["properties"]["kind"]["enum"])
    assert written == set(BUILT_IN.loops) == set(NEEDS)
    assert set(LOOPS) <= written


def test_every_capability_that_may_be_declared_can_be_reached() -> None:
    assert set(schema("card")["$defs"]["capability"]["enum"]) == set(REACH)
    assert {reach.loop for reach in REACH.values() if reach.loop} <= set(BUILT_IN.loops)
    experts = [ports for expert in BUILT_IN.every_expert().values() for ports in expert.serves.values()]
    outputs = [port for ports in (*experts, *(op.ports for op in BUILT_IN.ops.values())) for port in ports.outputs]
    names = {re.split(r"\W", port.type)[0] for port in outputs} - {""}
    bases = {parse_type(name).base for name in names}
    for capability, reach in REACH.items():
        assert bases & {*reach.output}, capability
