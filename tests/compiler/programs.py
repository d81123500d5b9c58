"""Compiles small programs over made-up experts, so that each test shows all it is about."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from omniflow_compiler.diagnostics import Diagnostic
from omniflow_compiler.library.library import BUILT_IN
from omniflow_compiler.library.signature import ExpertSignature, FromConfig, Port, Ports
from omniflow_compiler.pipeline import Compilation, Options, compile_file


def ports(inputs: dict[str, str], outputs: dict[str, str]) -> Ports:
    """Ports by name and type. A name with `~` streams, one with `?` is not required."""
    return Ports(inputs=tuple(map(_port, inputs.items())), outputs=tuple(map(_port, outputs.items())))


def _port(item: tuple[str, str]) -> Port:
    name, type = item
    return Port(name=name.strip("~?"), type=type, streams="~" in name, required="?" not in name)


def expert(
    use: str, kind: str, inputs: dict[str, str], outputs: dict[str, str], **sizes: int | FromConfig
) -> ExpertSignature:
    """An expert that one loop kind can bind."""
    return ExpertSignature(use=use, role="test", serves={kind: ports(inputs, outputs)}, sizes=sizes, doc="For tests.")


EXPERTS = (
    expert("t.lm", "ar_decode", {"prompt": "tokens[P] < vocabulary"},
           {"tokens~": "tokens[T] < vocabulary", "hidden~": "act[T, hidden]"}, vocabulary=100, hidden=16),
    expert("t.open_lm", "ar_decode", {"prompt": "tokens[P] < vocabulary"},
           {"tokens~": "tokens[T] < vocabulary", "hidden~": "act[T, hidden]"},
           vocabulary=100, hidden=FromConfig(path="text.hidden_size")),
    expert("t.steered", "ar_decode", {"prompt": "tokens[P] < vocabulary", "condition~": "act[R, hidden]"},
           {"tokens~": "tokens[T] < vocabulary"}, vocabulary=100, hidden=16),
    expert("t.text_lm", "ar_decode", {"prompt": "tokens[P] < vocabulary"},
           {"tokens~": "tokens[T] < vocabulary", "hidden~": "act[T, hidden]"}, vocabulary=317, hidden=16),
    expert("t.map", "encode", {"x": "act[T, width]"}, {"y": "act[T, width]"}, width=16),
    expert("t.wide_map", "encode", {"x": "act[T, width]"}, {"y": "act[T, width]"}, width=32),
    expert("t.half", "encode", {"x": "act[T, D]"}, {"y": "act[T/2, D]"}),
    expert("t.double", "encode", {"x": "act[T, D]"}, {"y": "act[2*T, D]"}),
    expert("t.codes", "encode", {"x": "tokens[T] < codes"}, {"y": "f32[2*T, 8]"}, codes=50),
    expert("t.all_codes", "encode", {"x": "tokens[T] < codes"}, {"y": "f32[2*T, 8]"}, codes=100),
    expert("t.fast", "encode", {"x": "f32[T, D] @ r"}, {"y": "f32[2*T, D] @ 2*r"}),
    expert("t.at_50", "encode", {"x": "f32[T, D] @ 50 Hz"}, {"y": "f32[T, D] @ 50 Hz"}),
    expert("t.at_80", "encode", {"x": "f32[T, D] @ 80 Hz"}, {"y": "f32[T, D] @ 80 Hz"}),
    expert("t.frames", "encode", {"x": "tokens[T] < codes"}, {"y": "f32[F, 8] @ 12.5 Hz"}, codes=100),
    expert("t.piecewise", "audio_decode", {"x~": "f32[T, D] @ r"}, {"y~": "f32[T, D] @ r"}),
    ExpertSignature(
        use="t.causal", role="vocoder", hop=1920, strides=(8, 5, 4, 3), doc="Causal, loses its tail.",
        serves={"audio_decode": ports({"x~": "f32[F, 8] @ 12.5 Hz"}, {"audio~": "audio[1920*F] @ 24 kHz"})},
    ),
    ExpertSignature(
        use="t.reader", role="reader", rows=("pad", "end"), sizes={"vocabulary": 100, "hidden": 16}, doc="Has rows.",
        serves={
            "ar_decode": ports(
                {"prompt?": "tokens[P] < vocabulary", "condition~": "act[R, hidden]"},
                {"tokens~": "tokens[T] < vocabulary"},
            )
        },
    ),
    expert("t.latent", "diffusion_denoise", {"x": "f32[P, D]"}, {"y": "latent[C, H, W]"},
           C=FromConfig(path="channels")),
    expert("t.pixels", "vae_tile", {"x": "latent[4, H, W]"}, {"y": "image[8*H, 8*W, 3]"}),
    expert("t.pixels16", "vae_tile", {"x": "latent[16, H, W]"}, {"y": "image[8*H, 8*W, 3]"}),
)  # fmt: skip
TOKENIZER = "tokenizer: {use: null.tokenizer}"


def check(
    folder: Path, card: str, program: str, experts: Sequence[ExpertSignature] = EXPERTS, **options: object
) -> Compilation:
    """Compiles `program` over `card`; both are given without their heads."""
    (folder / "card.yaml").write_text(f"omniflow: 1\nkind: card\nid: c\n{card}", encoding="utf-8")
    path = folder / "p.program.yaml"
    path.write_text(f"omniflow: 1\nkind: program\nid: p\ncard: c\n{program}", encoding="utf-8")
    return compile_file(path, Options(library=BUILT_IN.with_experts(experts), **options))  # type: ignore[arg-type]


def faults(compilation: Compilation, *ignored: str) -> list[Diagnostic]:
    """What was found, but for some codes."""
    return [found for found in compilation.report if found.code not in ignored]


def codes_of(compilation: Compilation, *ignored: str) -> list[str]:
    """The codes of what was found."""
    return [found.code for found in faults(compilation, *ignored)]


def line_of(compilation: Compilation, found: Diagnostic) -> str:
    """The text that a finding points at."""
    span = found.span
    return compilation.sources.sources[span.file].lines[span.line - 1][span.column - 1 : span.end_column - 1]
