"""The JSON Schema of a kind of spec for editors: the base schema completed with what a library has.

Each node is told apart by its op, each loop by its kind, each component by its expert (`if`/`then`, never `oneOf`), so
an editor completes the attributes that really are there. Wherever a value may stand, a param `$name` may stand too.
It keeps to what draft-07 and 2020-12 have in common.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from omniflow_compiler.library.library import Library
from omniflow_compiler.library.signature import Attribute, ExpertSignature, LoopSignature, OpSignature, Port
from omniflow_compiler.schema_examples import EXAMPLES, FIELD_EXAMPLES
from omniflow_compiler.validate import schema

Json = dict[str, Any]

SUBSTITUTED = ("component", "loop", "cache", "node", "parity", "stage", "edge", "inner")  # entries that params reach
PARAM = {"type": "string", "pattern": "^\\$[^$]", "description": "A param."}
EDGE = r"^\s*[^\s.:>~-][^\s:>~]*\s*(->|~>)\s*[^\s.:>~-][^\s.:>~]*\.[^\s.:>~]+\s*$"
_TYPES: Mapping[str, Json] = {
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "text": {"type": "string"},
    "ids": {"type": "array", "items": {"type": "integer", "minimum": 0}},
    "bytes": {"type": ["integer", "string"], "examples": ["256 MiB"]},
    "expression": {"type": ["integer", "string"], "examples": [256, "12 * think.tokens + 64"]},
    "texts": {"type": "array", "items": {"type": "string"}},
    "numbers": {"type": "array", "items": {"type": "number"}},
}


def full_schema(kind: str, library: Library) -> Json:
    """The schema of `card`, `program`, `graph`, `workflow` or `config`, complete with ops, loop kinds and experts."""
    whole = deepcopy(schema(kind))
    parts: Json = whole.setdefault("$defs", {})
    whole["examples"] = [EXAMPLES[kind]]
    for key, examples in FIELD_EXAMPLES.get(kind, {}).items():
        whole["properties"][key].setdefault("examples", examples)
    if kind == "card":
        experts = library.every_expert()
        keys = {name: _keys(parts["component"], expert) for name, expert in experts.items()}
        parts["component"] = _dispatch(parts["component"], "use", _experts(experts), keys)
        parts["loop"] = _dispatch(parts["loop"], "kind", _loops(library.loops))
    if kind in ("program", "graph"):
        program = deepcopy(schema("program"))
        for name in ("node", "edge", "when_empty", "back_edge", "param", "input"):
            parts[name] = program["$defs"][name]
        parts["node"] = _nodes(parts["node"], library.ops)
        whole["properties"]["nodes"]["additionalProperties"] = {"$ref": "#/$defs/node"}
    for name in SUBSTITUTED:
        if name in parts:
            _allow_params(parts[name])
    if kind in ("program", "graph", "workflow"):
        parts.setdefault("edge", deepcopy(schema("program")["$defs"]["edge"]))
        for name in ("when_empty", "back_edge"):
            parts.setdefault(name, deepcopy(schema("program")["$defs"][name]))
        whole["properties"]["edges"]["items"] = _edge_item()
    return whole


def _edge_item() -> Json:
    described = "`a.x -> b.y` carries a finished value, `a.x ~> b.y` carries chunks; attributes behind a colon."
    return {
        "type": ["string", "object"],
        "description": described,
        "pattern": EDGE,
        "minProperties": 1,
        "maxProperties": 1,
        "propertyNames": {"pattern": EDGE},
        "additionalProperties": {"$ref": "#/$defs/edge"},
        "examples": ["tokenize.tokens -> think.prompt", {"mel.frames ~> wave.frames": {"chunk": 32}}],
    }


def _nodes(base: Json, ops: Mapping[str, OpSignature]) -> Json:
    own = base["properties"]
    with_key, params = own["with"], {"type": "object", "description": "Values of the graph's params."}
    cases = []
    for name, op in sorted(ops.items()):
        keys = {"op": {}, "each": own["each"], "when": own["when"]} | ({"with": with_key} if op.needs else {})
        cases.append(_case("op", name, keys, op.attributes, ["with"] if op.needs else []))
    cases.append(_closed("loop", {"loop": {}, "each": own["each"], "when": own["when"]}))
    cases.append(_closed("graph", {"graph": {}, "when": own["when"], "params": params}))
    described = {name: _described(op.doc, op.ports.inputs, op.ports.outputs) for name, op in sorted(ops.items())}
    properties = {**own, "op": _names(own["op"], described)}
    return {**base, "properties": properties, "minProperties": 1, "allOf": cases}


def _loops(loops: Mapping[str, LoopSignature]) -> Mapping[str, tuple[str, Sequence[Attribute], list[str]]]:
    return {name: (loop.doc, loop.attributes, []) for name, loop in sorted(loops.items())}


def _experts(experts: Mapping[str, ExpertSignature]) -> Mapping[str, tuple[str, Sequence[Attribute], list[str]]]:
    found = {}
    for name, expert in sorted(experts.items()):
        served = f" Bound by {', '.join(f'`{kind}`' for kind in sorted(expert.serves))}." if expert.serves else ""
        needed = ["from"] if expert.needs_source else []
        found[name] = (f"{expert.doc} Role: {expert.role}.{served}", expert.attributes, needed)
    return found


def _keys(base: Json, expert: ExpertSignature) -> Json:
    """The keys that every component has, but for what this expert cannot be."""
    keys: Json = {key: {} for key in base["properties"] if key != "from" or expert.takes_source}
    if expert.dtypes:
        keys["dtype"] = {"enum": list(expert.dtypes), "description": base["properties"]["dtype"]["description"]}
    return keys


def _dispatch(
    base: Json,
    key: str,
    cases: Mapping[str, tuple[str, Sequence[Attribute], list[str]]],
    keys: Mapping[str, Json] | None = None,
) -> Json:
    """The base with its `key` completed, and per value of it the attributes that come with that value.

    keys: by that value the keys of the base that go with it, where those are not all.
    """
    own = base["properties"]
    properties = {**own, key: _names(own[key], {name: doc for name, (doc, _, _) in cases.items()})}
    every: Json = {name: {} for name in own}
    rules = [
        _case(key, name, every if keys is None else keys[name], attributes, needed)
        for name, (_, attributes, needed) in cases.items()
    ]
    return {**base, "properties": properties, "allOf": rules}


def _names(base: Json, described: Mapping[str, str]) -> Json:
    known = {key: value for key, value in base.items() if key not in ("type", "enum")}
    return {**known, "enum": list(described), "markdownEnumDescriptions": list(described.values())}


def _case(key: str, value: str, keys: Json, attributes: Sequence[Attribute], needed: list[str]) -> Json:
    required = [*needed, *(attribute.name for attribute in attributes if attribute.required)]
    then: Json = {
        "properties": {**keys, **{attribute.name: _attribute(attribute) for attribute in attributes}},
        "additionalProperties": False,
    }
    return {
        "if": {"required": [key], "properties": {key: {"const": value}}},
        "then": then | ({"required": required} if required else {}),
    }


def _closed(key: str, keys: Json) -> Json:
    return {"if": {"required": [key]}, "then": {"properties": keys, "additionalProperties": False}}


def _attribute(attribute: Attribute) -> Json:
    body: Json = {**_TYPES[attribute.type], "description": attribute.doc}
    if attribute.choices:
        body["enum"] = list(attribute.choices)
    numbers = body["items"] if attribute.type == "numbers" else body
    if attribute.minimum is not None:
        numbers["minimum"] = attribute.minimum
    if attribute.maximum is not None:
        numbers["maximum"] = attribute.maximum
    default = list(attribute.default) if isinstance(attribute.default, tuple) else attribute.default
    if default is not None and not attribute.required:
        body["default"] = default
    return body


def _described(doc: str, inputs: Iterable[Port], outputs: Iterable[Port]) -> str:
    """An op in Markdown: what it does, what goes in and out."""
    ports = [
        f"- {side} `{port.name}`: `{port.type}` {port.doc}".rstrip()
        for side, group in (("in", inputs), ("out", outputs))
        for port in group
    ]
    return "\n".join([doc, "", *ports])


def _allow_params(part: Json) -> None:
    """Lets `$name` stand for every value below: `anyOf` the value's own schema and a param."""
    stack: list[Json] = [part]
    while stack:
        current = stack.pop()
        stack += [case["then"] for case in current.get("allOf", ())]
        properties: Json = current.get("properties", {})
        for name, value in properties.items():
            if not value or "$ref" in value or "markdownEnumDescriptions" in value:
                continue
            if value.get("type") == "object":
                stack.append(value)
            elif value.get("type") != "string" or "pattern" in value or "enum" in value:
                properties[name] = _or_param(value)


def _or_param(value: Json) -> Json:
    notes: Json = {key: value[key] for key in ("description", "default", "examples") if key in value}
    bare: Json = {key: item for key, item in value.items() if key not in notes}
    if "items" in bare:
        bare["items"] = {"anyOf": [bare["items"], PARAM]}
    return {**notes, "anyOf": [bare, PARAM]}
