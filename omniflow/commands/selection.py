"""What a person selects on the command line: a spec, the outputs to keep, values, devices, memory, plugins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from omniflow.catalog import find_spec
from omniflow.commands.arguments import parse_budgets, parse_deny, parse_devices, parse_names, parse_pairs

if TYPE_CHECKING:
    from omniflow_compiler.pipeline import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The options that every command which compiles has in common, as they were written."""

    spec: str
    outputs: str | None = None
    settings: Sequence[str] = ()
    budgets: Sequence[str] = ()
    devices: Sequence[str] = ()
    config: Path | None = None
    plugins: Sequence[Path] = ()
    deny: Sequence[str] = ()

    @property
    def path(self) -> Path:
        """The file meant. Errors: UnknownSpec."""
        return find_spec(self.spec)

    @property
    def is_plain(self) -> bool:
        """Whether nothing was selected besides the spec and plugins."""
        return self.outputs is None and not (self.settings or self.budgets or self.devices or self.config)

    def options(self) -> Options:
        """The compiler's options. Errors: BadArgument."""
        from omniflow.plugins import load_plugins
        from omniflow_compiler.library.library import BUILT_IN
        from omniflow_compiler.pipeline import Options

        return Options(
            outputs=parse_names(self.outputs, "--outputs"),
            params=parse_pairs(self.settings, "--set"),
            devices=parse_devices(self.devices),
            budgets=parse_budgets(self.budgets),
            config=self.config,
            deny=parse_deny(self.deny),
            library=BUILT_IN.with_experts(load_plugins(self.plugins)),
        )
