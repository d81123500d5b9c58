"""Reads what stands on the command line: `name=value` pairs, comma lists, sizes."""

from __future__ import annotations

from collections.abc import Sequence


class BadArgument(Exception):
    """A command line that cannot be followed; the message says how it is written."""


def parse_pairs(written: Sequence[str], option: str) -> dict[str, str]:
    """`["a=1"]` as `{"a": "1"}`. Errors: BadArgument."""
    pairs: dict[str, str] = {}
    for text in written:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise BadArgument(f"{option} takes NAME=VALUE, got `{text}`")
        if name in pairs:
            raise BadArgument(f"{option} names `{name}` twice")
        pairs[name] = value
    return pairs


def parse_inputs(written: Sequence[str]) -> dict[str, list[str]]:
    """`["image=@a.png", "image=@b.png"]` as `{"image": ["@a.png", "@b.png"]}`. Errors: BadArgument."""
    found: dict[str, list[str]] = {}
    for text in written:
        for name, value in parse_pairs([text], "--input").items():
            found.setdefault(name, []).append(value)
    return found


def parse_names(written: str | None, option: str) -> list[str] | None:
    """`"text,audio"` as names; None stays None. Errors: BadArgument."""
    if written is None:
        return None
    names = [name.strip() for name in written.split(",")]
    if not all(names):
        raise BadArgument(f"{option} takes names separated by commas, got `{written}`")
    return names


def parse_budgets(written: Sequence[str]) -> dict[str, int]:
    """`["cpu=2GiB"]` as bytes per device. Errors: BadArgument."""
    from omniflow_compiler.quantities import parse_bytes

    budgets = {}
    for device, text in parse_pairs(written, "--budget").items():
        size = parse_bytes(text)
        if size is None:
            raise BadArgument(f"--budget {device}={text}: not a size; write e.g. cpu=2GiB")
        budgets[_device(device, "--budget")] = size
    return budgets


def parse_size(written: str, option: str) -> int:
    """`"64MiB"` in bytes. Errors: BadArgument."""
    from omniflow_compiler.quantities import parse_bytes

    size = parse_bytes(written)
    if size is None:
        raise BadArgument(f"{option} {written}: not a size; write e.g. 64MiB")
    return size


def parse_devices(written: Sequence[str]) -> dict[str, str]:
    """`["cuda", "thinker=cuda:1"]` as devices by component, `default` for all. Errors: BadArgument."""
    pairs = parse_pairs([text if "=" in text else f"default={text}" for text in written], "--device")
    return {name: _device(device, "--device") for name, device in pairs.items()}


def _device(name: str, option: str) -> str:
    from omniflow_compiler.quantities import is_device

    if not is_device(name):
        raise BadArgument(f"{option}: there is no device `{name}`; write cpu, cuda or cuda:1")
    return name


def parse_format(written: str) -> str:
    """A form in which findings are written. Errors: BadArgument."""
    from omniflow_compiler.formats import FORMATS

    if written not in FORMATS:
        raise BadArgument(f"--format {written}: known formats are {', '.join(FORMATS)}")
    return written


def parse_deny(written: Sequence[str]) -> Sequence[str]:
    """What `--deny` names: codes of lints, or all warnings. Errors: BadArgument."""
    from omniflow_compiler.codes import CODES
    from omniflow_compiler.levels import WARNINGS

    lints = [code.id for code in CODES.values() if code.lint]
    for name in written:
        if name != WARNINGS and name not in lints:
            raise BadArgument(f"--deny takes `{WARNINGS}` or the code of a lint ({', '.join(lints)}), got `{name}`")
    return written
