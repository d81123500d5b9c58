"""Schedules built by hand for the drawing tests: the speech cascade, a chain of diamonds, hostile names."""

from __future__ import annotations

from dataclasses import replace

from omniflow_compiler.schedule import (
    Buffer,
    Cache,
    Channel,
    Expert,
    Holder,
    Inner,
    Input,
    Json,
    Memory,
    Node,
    Output,
    Place,
    Port,
    PortType,
    Schedule,
    Stage,
    UnitTemplate,
)

PROGRAM = "specs/smol_speech/speech.program.yaml"
CARD = "specs/smol_speech/card.yaml"
NASTY = (
    "</script><script>alert(1)</script>",
    "quote\"'`",
    "話す 声",
    "end",
    "graph",
    "a[b]{c}|<d>",
    "two\nlines",
    "#&amp;",
)


def place(line: int, file: str = PROGRAM) -> Place:
    return Place(file=file, line=line, column=3)


def kind(text: str, rate: float | None = None) -> PortType:
    return PortType(text=text, base=text.partition("[")[0], dtype=None, axes=(), rate_hz=rate, vocabulary=None)


def expert(name: str, role: str, line: int, weights: int = 0) -> Expert:
    return Expert(
        name=name,
        use=f"smol.{name}",
        role=role,
        source=None,
        dtype="float32",
        device="cpu",
        attributes={},
        sizes={},
        weight_bytes=weights,
        digest="",
        place=place(line, CARD),
    )


def node(
    node_id: str,
    name: str,
    line: int,
    *,
    reads: dict[str, str],
    writes: dict[str, str],
    with_expert: str | None = None,
    units: tuple[tuple[str, int, float], ...] = (),
    each: bool = False,
    when: str | None = None,
    cache: str | None = None,
    attributes: dict[str, Json] | None = None,
    inner: Inner | None = None,
    depth: int = 0,
) -> Node:
    loop = any(unit[0] != "op" for unit in units)
    return Node(
        id=node_id,
        kind="loop" if loop else "op",
        name=name,
        loop=node_id if loop else None,
        expert=with_expert,
        cache=cache,
        inner=inner,
        attributes=attributes or {},
        each=each,
        when=when,
        inputs=tuple(Port(name=key, type=kind(value), streams=False) for key, value in reads.items()),
        outputs=tuple(Port(name=key, type=kind(value), streams=True) for key, value in writes.items()),
        units=tuple(UnitTemplate(kind=unit, expected=count, seconds=each_one) for unit, count, each_one in units),
        depth=depth,
        place=place(line),
    )


def channel(
    source: str,
    target: str,
    type_text: str,
    line: int,
    *,
    streams: bool = True,
    chunk: int = 0,
    context: tuple[int, int] = (0, 0),
    rate: float | None = None,
    back_edge: Json = None,
) -> Channel:
    to, _, port = target.rpartition(".")
    return Channel(
        id=f"{source} -> {target}",
        source=source,
        node=to,
        port=port,
        order=0,
        streams=streams,
        capacity=64 if streams else 0,
        chunk=chunk,
        first_chunk=chunk,
        left_context=context[0],
        right_context=context[1],
        start=0,
        when_empty=None,
        back_edge=back_edge,
        type=kind(type_text, rate),
        place=place(line),
    )


def schedule(
    nodes: tuple[Node, ...],
    channels: tuple[Channel, ...],
    *,
    experts: tuple[Expert, ...] = (),
    outputs: tuple[Output, ...] = (),
    inputs: tuple[str, ...] = ("prompt",),
    buffers: tuple[Buffer, ...] = (),
    memory: tuple[Memory, ...] = (),
    caches: tuple[Cache, ...] = (),
    critical_path: tuple[str, ...] = (),
    program: str = "smol-speech.speech",
    stages: tuple[Stage, ...] = (),
) -> Schedule:
    return Schedule(
        program=program,
        card="smol-speech",
        stages=stages,
        compiler="0.1.0",
        params={"max_tokens": 160},
        capabilities=("reasoning_text", "text_to_speech"),
        parity={},
        inputs=tuple(
            Input(name=name, type=kind("text"), required=True, default=None, place=place(8)) for name in inputs
        ),
        outputs=outputs,
        experts=experts,
        caches=caches,
        nodes=nodes,
        channels=channels,
        buffers=buffers,
        memory=memory,
        critical_path=critical_path,
        critical_seconds=3.25,
        content_hash="sha256:" + "0f" * 32,
    )


def output(name: str, node_id: str, port: str, type_text: str, line: int, rate: float | None = None) -> Output:
    return Output(name=name, node=node_id, port=port, type=kind(type_text, rate), streams=True, place=place(line))


def smol_speech() -> Schedule:
    nodes = (
        node(
            "tokenize",
            "chat_tokenize",
            13,
            reads={"messages": "text"},
            writes={"tokens": "tokens[P]"},
            with_expert="tokenizer",
            units=(("op", 1, 2e-4),),
        ),
        node(
            "think",
            "ar_decode",
            14,
            reads={"prompt": "tokens[P]"},
            depth=1,
            cache="kv",
            writes={"tokens": "tokens[T]", "hidden": "f32[T, 576]"},
            with_expert="thinker",
            units=(("ar_prefill", 1, 0.02), ("ar_token", 160, 0.0104)),
            attributes={"stop": [2], "max_tokens": 160},
        ),
        node(
            "reply",
            "detokenize",
            15,
            reads={"tokens": "tokens[T]"},
            writes={"text": "text"},
            depth=2,
            with_expert="tokenizer",
            units=(("op", 160, 1e-5),),
        ),
        node(
            "segment",
            "segment",
            16,
            reads={"text": "text"},
            writes={"segments": "text[N*]"},
            depth=3,
            units=(("op", 160, 1e-5),),
            attributes={"by": "sentence"},
        ),
        node(
            "spell",
            "spell",
            17,
            reads={"text": "text[N*]"},
            depth=4,
            with_expert="lexicon",
            writes={"characters": "tokens[W*, C]", "forced": "tokens[W*, K]"},
            units=(("op", 8, 1e-4),),
        ),
        node(
            "speak",
            "ar_decode",
            18,
            reads={"source": "tokens[W*, C]", "forced": "tokens[W*, K]"},
            depth=5,
            writes={"tokens": "tokens[W*, Q]"},
            with_expert="talker",
            each=True,
            units=(("ar_token", 640, 4e-4),),
            attributes={"stop": [2], "max_tokens": 62},
        ),
        node(
            "phrase",
            "gather",
            19,
            reads={"words": "tokens[W*, Q]"},
            writes={"phonemes": "tokens[N*, P]"},
            depth=6,
            with_expert="lexicon",
            units=(("op", 8, 1e-4),),
        ),
        node(
            "voice",
            "encode",
            20,
            reads={"phonemes": "tokens[N*, P]"},
            depth=7,
            with_expert="acoustic",
            writes={"cond": "f32[N*, F, 128]", "f0": "f32[N*, F]"},
            each=True,
            units=(("encoder_chunk", 8, 0.05),),
        ),
        node(
            "wave",
            "audio_decode",
            21,
            reads={"cond": "f32[N*, F, 128]", "f0": "f32[N*, F]"},
            depth=8,
            writes={"audio": "audio[N*, S]"},
            with_expert="vocoder",
            each=True,
            units=(("audio_chunk", 60, 0.06),),
        ),
        node(
            "join",
            "join",
            22,
            reads={"items": "audio[N*, S]"},
            writes={"samples": "audio[S]"},
            depth=9,
            units=(("op", 60, 1e-5),),
            attributes={"gap": 4800},
        ),
    )
    channels = (
        channel("prompt", "tokenize.messages", "text", 24, streams=False),
        channel("tokenize.tokens", "think.prompt", "tokens[P]", 25, streams=False),
        channel("think.tokens", "reply.tokens", "tokens[T]", 26),
        channel("reply.text", "segment.text", "text", 27),
        channel("segment.segments", "spell.text", "text[N*]", 28),
        channel("spell.characters", "speak.source", "tokens[W*, C]", 29),
        channel("spell.forced", "speak.forced", "tokens[W*, K]", 30),
        channel("speak.tokens", "phrase.words", "tokens[W*, Q]", 31),
        channel("phrase.phonemes", "voice.phonemes", "tokens[N*, P]", 32),
        channel("voice.cond", "wave.cond", "f32[N*, F, 128]", 33, chunk=32, context=(27, 27), rate=80.0),
        channel("voice.f0", "wave.f0", "f32[N*, F]", 34, chunk=32, rate=80.0),
        channel("wave.audio", "join.items", "audio[N*, S]", 35, rate=24000.0),
    )
    return schedule(
        nodes,
        channels,
        experts=(
            expert("tokenizer", "tokenizer", 9),
            expert("thinker", "autoregressor", 10, 538_060_032),
            expert("lexicon", "lexicon", 11),
            expert("talker", "autoregressor", 12, 3_010_000),
            expert("acoustic", "encoder", 13, 218_000_000),
            expert("vocoder", "stream_decoder", 14, 110_000_000),
        ),
        outputs=(
            output("text", "reply", "text", "text", 10),
            output("audio", "join", "samples", "audio[S]", 11, 24000.0),
        ),
        caches=(Cache(name="kv", kind="paged_kv", max_bytes=256 << 20, block_tokens=16, place=place(21, CARD)),),
        buffers=(Buffer(port="tokenize.tokens", bytes=1280, first_use=0, last_use=1),),
        memory=(
            Memory(
                device="cpu",
                peak_bytes=1_137_000_000,
                budget_bytes=4 << 30,
                at=8,
                holders=(
                    Holder(name="thinker", kind="weights", bytes=538_060_032),
                    Holder(name="kv", kind="pool", bytes=256 << 20),
                ),
            ),
        ),
        critical_path=("tokenize", "think", "reply", "segment", "spell", "speak", "phrase", "voice", "wave", "join"),
    )


def large(stages: int) -> Schedule:
    """`stages` diamonds one after another: four nodes each, two experts in turn."""
    nodes, channels, before = [], [], "prompt"
    for stage in range(stages):
        names = [f"s{stage:03}_{part}" for part in ("split", "left", "right", "merge")]
        line = 10 + 4 * stage
        nodes += [
            node(names[0], "split", line, reads={"value": "f32[T, D]"}, writes={"a": "f32[T, D]", "b": "f32[T, D]"}),
            node(
                names[1],
                "encode",
                line + 1,
                reads={"x": "f32[T, D]"},
                writes={"y": "f32[T, D]"},
                with_expert="left",
                units=(("encoder_chunk", 4, 0.01),),
            ),
            node(
                names[2],
                "diffusion_denoise",
                line + 2,
                reads={"x": "f32[T, D]"},
                writes={"y": "f32[T, D]"},
                with_expert="right",
                units=(("diffusion_step", 30, 0.02),),
            ),
            node(names[3], "add", line + 3, reads={"a": "f32[T, D]", "b": "f32[T, D]"}, writes={"sum": "f32[T, D]"}),
        ]
        channels += [
            channel(before, f"{names[0]}.value", "f32[T, D]", line, streams=False),
            channel(f"{names[0]}.a", f"{names[1]}.x", "f32[T, D]", line),
            channel(f"{names[0]}.b", f"{names[2]}.x", "f32[T, D]", line, streams=False),
            channel(f"{names[1]}.y", f"{names[3]}.a", "f32[T, D]", line),
            channel(f"{names[2]}.y", f"{names[3]}.b", "f32[T, D]", line, streams=False),
        ]
        before = f"{names[3]}.sum"
    return schedule(
        tuple(nodes),
        tuple(channels),
        experts=(expert("left", "encoder", 3), expert("right", "denoiser", 4)),
        outputs=(output("out", nodes[-1].id, "sum", "f32[T, D]", 5),),
        program="large",
    )


def nasty() -> Schedule:
    """A chain whose node ids, ports, experts and attributes are hostile to SVG, HTML, DOT, Mermaid and JavaScript."""
    nodes, channels, before = [], [], "prompt"
    for number, name in enumerate(NASTY):
        nodes.append(
            node(
                name,
                name,
                10 + number,
                reads={name: f"text[{name}]", "again": "text"},
                writes={name: "text"},
                with_expert=name,
                units=((name, 1, 0.1),),
                attributes={name: name},
                when=f"inputs.x != {name}",
            )
        )
        channels.append(channel(before, f"{name}.{name}", f"text[{name}]", 30 + number))
        before = f"{name}.{name}"
    channels.append(channel(before, f"{NASTY[0]}.again", "text", 60, back_edge={"initial": "</style>", "bound": 3}))
    return schedule(
        tuple(nodes),
        tuple(channels),
        experts=tuple(expert(name, name, 3) for name in NASTY),
        outputs=(output("</title>", NASTY[-1], NASTY[-1], "text", 5),),
        program='<b>&"nasty"</b>',
    )


def code_predictor() -> Schedule:
    """A talker whose every token is refined by a small loop of its own."""
    inner = Inner(
        loop="predict",
        kind="ar_decode",
        expert="predictor",
        cache=None,
        attributes={},
        feed={"prompt": "hidden"},
        back="embeds",
        length=15,
        place=place(9, CARD),
    )
    talk = node(
        "talk",
        "ar_decode",
        5,
        reads={"prompt": "text"},
        writes={"codes": "codes[F, 16]"},
        with_expert="talker",
        units=(("ar_prefill", 1, 0.01), ("ar_token", 80, 0.02)),
        inner=inner,
    )
    inside = UnitTemplate(kind="ar_token", expected=1200, seconds=0.001, expert="predictor")
    talk = replace(talk, units=(*talk.units, inside))
    return schedule(
        (talk,),
        (channel("prompt", "talk.prompt", "text", 6, streams=False),),
        experts=(expert("predictor", "autoregressor", 3), expert("talker", "autoregressor", 4)),
        outputs=(output("codes", "talk", "codes", "codes[F, 16]", 7, 12.5),),
        program="talker",
    )


def workflow() -> Schedule:
    """Two stages: text that is drawn and described, and the description spoken."""
    nodes = (
        node(
            "draw/encode",
            "encode",
            3,
            reads={"text": "text"},
            writes={"cond": "f32[T, D]"},
            with_expert="draw/clip",
            units=(("encoder_chunk", 1, 0.01),),
        ),
        node(
            "draw/denoise",
            "diffusion_denoise",
            4,
            reads={"cond": "f32[T, D]"},
            writes={"image": "image[H, W, 3]"},
            with_expert="draw/dit",
            units=(("diffusion_step", 20, 0.1),),
        ),
        node(
            "tell/see",
            "encode",
            5,
            reads={"image": "image[H, W, 3]"},
            writes={"embeds": "f32[P, D]"},
            with_expert="tell/eye",
            units=(("encoder_chunk", 1, 0.02),),
        ),
        node(
            "tell/think",
            "ar_decode",
            6,
            reads={"prompt": "f32[P, D]"},
            writes={"tokens": "tokens[T]"},
            with_expert="tell/mind",
            units=(("ar_prefill", 1, 0.1), ("ar_token", 60, 0.03)),
        ),
    )
    channels = (
        channel("prompt", "draw/encode.text", "text", 8, streams=False),
        channel("draw/encode.cond", "draw/denoise.cond", "f32[T, D]", 9, streams=False),
        channel("draw/denoise.image", "tell/see.image", "image[H, W, 3]", 10, streams=False),
        channel("tell/see.embeds", "tell/think.prompt", "f32[P, D]", 11, streams=False),
    )
    names = ("draw/clip", "draw/dit", "tell/eye", "tell/mind")
    stages = tuple(
        Stage(path=path, program=f"{path}.program", card=f"{path}-card", card_digest="", place=place(line))
        for path, line in (("draw", 3), ("tell", 5))
    )
    return schedule(
        nodes,
        channels,
        experts=tuple(expert(name, "encoder", 3) for name in names),
        outputs=(
            output("image", "draw/denoise", "image", "image[H, W, 3]", 7),
            output("text", "tell/think", "tokens", "tokens[T]", 7),
        ),
        program="draw-and-tell",
        stages=stages,
    )
