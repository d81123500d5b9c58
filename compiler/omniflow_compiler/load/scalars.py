"""Resolves plain scalars by YAML 1.2; by the rules of 1.1 `on` is a boolean, `16:9` is 969 and `1e-4` a text.

(yaml/pyyaml#376, #395, #173)
"""

from __future__ import annotations

import re

import yaml

from omniflow_compiler.load.tree import ScalarValue

MAX_NUMBER = 1 << 53  # what every reader of JSON holds exactly

_INT = re.compile(r"[-+]?[0-9]+\Z")
_HEX_OR_OCTAL = re.compile(r"0x[0-9a-fA-F]+\Z|0o[0-7]+\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_CONSTANTS: dict[str, bool | None] = {
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
    "null": None, "Null": None, "NULL": None, "~": None, "": None,
}  # fmt: skip


def resolve(node: yaml.ScalarNode) -> ScalarValue:
    """What a scalar is; a text when it is quoted, a block, or looks like nothing else."""
    text = str(node.value)
    if node.style:  # quoted or a block
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    first = text[0]
    if first in "0123456789+-.":
        if _INT.match(text) and len(text) < 300:
            return int(text)
        if _HEX_OR_OCTAL.match(text) and len(text) < 300:
            return int(text, 0)
        if _FLOAT.match(text):
            return float(text)
    return text
