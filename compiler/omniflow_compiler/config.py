"""The run configuration: how this machine runs a program. Its values stand between a spec's and the command line's."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, field, replace
from pathlib import Path

from omniflow_compiler import codes
from omniflow_compiler.diagnostics import Report
from omniflow_compiler.faults import FaultSpec, parse_faults
from omniflow_compiler.load.document import read_document
from omniflow_compiler.load.tree import Mapping, Scalar
from omniflow_compiler.names import unknown
from omniflow_compiler.params import COMMAND_LINE
from omniflow_compiler.parse.kind import kind_of
from omniflow_compiler.quantities import parse_bytes
from omniflow_compiler.source import SourceSet
from omniflow_compiler.spec import CardSpec, Name
from omniflow_compiler.validate import validate

PROFILES = ("serve", "rollout", "test")  # what a run is for


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Values by name, each with the place it was written at."""

    params: MappingOf[str, Scalar] = field(default_factory=dict)
    devices: MappingOf[str, Name] = field(default_factory=dict)
    dtypes: MappingOf[str, Name] = field(default_factory=dict)
    budgets: MappingOf[str, int] = field(default_factory=dict)
    profile: str | None = None
    unit_seconds: float | None = None
    faults: tuple[FaultSpec, ...] = ()


def read_config(path: Path, sources: SourceSet, report: Report) -> Config:
    """The configuration in a file; what is wrong with it is in the report."""
    document = read_document(path, sources, report)
    if document is None:
        return Config()
    source, tree = document
    kind = kind_of(tree, report)
    if kind not in (None, "config"):
        report.add(codes.KIND, tree.entries["kind"].value.span, f"`{source.name}` is a {kind}, a config is needed")
    return parse_config(tree, report) if kind == "config" else Config()


def parse_config(tree: Mapping, report: Report) -> Config:
    """The configuration a document describes."""
    if not validate(tree, "config", "", report, "the configuration"):
        return Config()
    budgets = {}
    for device, value in _scalars(tree, "budgets").items():
        size = parse_bytes(value.value) if isinstance(value.value, str | int) else None
        if size is None:
            help = ["write a number of bytes, or a size such as `24 GiB`"]
            report.add(codes.BAD_VALUE, value.span, f"`{value.written}` is no size in bytes", help=help)
        else:
            budgets[device] = size
    return Config(
        params=_scalars(tree, "params"),
        devices=_names(tree, "devices"),
        dtypes=_names(tree, "dtypes"),
        budgets=budgets,
        profile=_text(tree, "profile"),
        unit_seconds=_number(tree, "unit_seconds"),
        faults=parse_faults(tree, report),
    )


def _text(tree: Mapping, key: str) -> str | None:
    value = tree.get(key)
    return str(value.value) if isinstance(value, Scalar) else None


def _number(tree: Mapping, key: str) -> float | None:
    value = tree.get(key)
    return float(value.value) if isinstance(value, Scalar) and isinstance(value.value, int | float) else None


def _scalars(tree: Mapping, key: str) -> dict[str, Scalar]:
    section = tree.get(key)
    entries = section.entries if isinstance(section, Mapping) else {}
    return {name: entry.value for name, entry in entries.items() if isinstance(entry.value, Scalar)}


def _names(tree: Mapping, key: str) -> dict[str, Name]:
    return {name: Name(text=str(v.value), span=v.span) for name, v in _scalars(tree, key).items()}


def command_line(params: MappingOf[str, str]) -> dict[str, Scalar]:
    """`--set` values as scalars that were written on the command line."""
    return {name: Scalar(text, COMMAND_LINE, text) for name, text in params.items()}


def place_components(card: CardSpec, config: Config, devices: MappingOf[str, str], report: Report) -> CardSpec:
    """The card with devices and dtypes of its components set: card < configuration < command line."""
    chosen = {**config.devices, **{name: Name(text=text, span=COMMAND_LINE) for name, text in devices.items()}}
    for name, value in {**chosen, **config.dtypes}.items():
        if name != "default" and not card.has("components", name):
            unknown(report, codes.UNKNOWN_COMPONENT, Name(text=name, span=value.span), card.components, "component")
    components = {}
    for name, spec in card.components.items():
        device = chosen.get(name) or chosen.get("default")
        dtype = config.dtypes.get(name) or config.dtypes.get("default")
        if device is not None:
            spec = replace(spec, device=device.text, device_span=device.span)
        if dtype is not None:
            spec = replace(spec, dtype=dtype.text, dtype_span=dtype.span)
        components[name] = spec
    return replace(card, components=components)
