"""Graphs of a wrong shape, ports that do not fit, streams that cannot run: one fault each."""

from __future__ import annotations

from tests.compiler.bad.cases_yaml import P, card, program
from tests.compiler.mutation import FRAMES, IMAGE, SPEECH, Bad


def image(name: str, code: str, file: str, old: str, new: str, help: str = "") -> Bad:
    return Bad(name=name, codes=[code], change={file: [(old, new)]}, base=IMAGE, help=help)


def frames(name: str, code: str, file: str, old: str, new: str, help: str = "") -> Bad:
    return Bad(name=name, codes=[code], change={file: [(old, new)]}, base=FRAMES, help=help)


def add(name: str, code: str, nodes: str, edges: str, help: str = "", text: str = "text: reply.text") -> Bad:
    """Further nodes and edges, and perhaps another output."""
    change = {
        P: [
            ("edges:\n", f"{nodes}edges:\n"),
            ("  - wave.audio ~> join.items\n", f"  - wave.audio ~> join.items\n{edges}"),
            ("text: reply.text", text),
        ]
    }
    return Bad(name=name, codes=[code], change=change, base=SPEECH, help=help)


GRAPH = [
    # shape
    program(
        "two producers of one port",
        "OF2001",
        "  - segment.segments ~>",
        "  - prompt -> «segment.text»\n  - segment.segments ~>",
    ),
    program(
        "an edge written twice",
        "OF2001",
        "  - think.tokens ~> reply.tokens",
        "  - think.tokens ~> reply.tokens\n  - think.tokens ~> «reply.tokens»",
    ),
    program(
        "a node without any edge",
        "OF2006",
        "  think:    {loop: think}",
        "  think:    {loop: think}\n  «again»:  {loop: think}",
    ),
    program("a missing hand-off", "OF2002", "  - voice.f0 ~> wave.f0: {chunk: 32}\n", ""),
    program(
        "a node that feeds nothing",
        "OF2006",
        "  think:    {loop: think}",
        "  think:    {loop: think}\n  «spare»: {op: tokenize, with: tokenizer}",
    ),
    program("an input that nobody reads", "OF2010", "inputs:\n", "inputs:\n  «voice»: text\n"),
    card("a loop over an expert of another role", "OF2008", "binds: acoustic", "binds: «tokenizer»", "`encode`"),
    program(
        "an op with a component of another role",
        "OF2008",
        "{op: chat_tokenize, with: tokenizer}",
        "{op: chat_tokenize, with: «lexicon»}",
        "`tokenizer`",
    ),
    card("a capability that no program reaches", "OF2009", "text_to_speech]", "text_to_speech, «text_to_image»]"),
    card(
        "a stop id outside the vocabulary", "OF2106", "stop: [2], max_tokens: 12", "stop: «[2, 99999]», max_tokens: 12"
    ),
    card("a stop id below nothing", "OF1103", "stop: [2], max_tokens: 12", "stop: «[-1]», max_tokens: 12", "`stop`"),
    card(
        "a suppressed id outside the vocabulary", "OF2106", "max_tokens: 12}", "max_tokens: 12, suppress: «[50000000]»}"
    ),
    add(
        "a cycle of two",
        "OF2004",
        "  a: {op: add}\n  b: {op: add}\n",
        "  - think.hidden ~> a.a\n  - b.sum ~> a.b\n  - think.hidden ~> b.a\n  - «a.sum ~> b.b»\n",
        "back_edge",
    ),
    add(
        "a node that reads itself",
        "OF2003",
        "  a: {op: add}\n",
        "  - think.hidden ~> a.a\n  - «a.sum ~> a.b»\n",
        "back_edge",
    ),
    add(
        "a node that reads itself where something else is read",
        "OF2003",
        "  a: {op: add}\n",
        "  - think.hidden ~> a.a\n  - think.hidden ~> a.b\n  - «a.sum ~> a.b»\n",
        "`- a.sum ~> a.b: {back_edge",
    ),
    program(
        "text that goes back to its own beginning",
        "OF2003",
        "reply.text ~> segment.text",
        "«segment.segments ~> segment.text»",
        "back_edge",
    ),
    add(
        "a back edge of a finished value",
        "OF2005",
        "  a: {op: add}\n  b: {op: add}\n",
        "  - think.hidden ~> a.a\n  - «b.sum -> a.b»: {back_edge: {initial: 0, bound: 3}}\n"
        "  - think.hidden ~> b.a\n  - a.sum ~> b.b\n",
        "write `b.sum ~> a.b`",
        text="text: reply.text\n  more: b.sum",
    ),
    add(
        "a back edge with a bound of nothing",
        "OF1104",
        "  a: {op: add}\n  b: {op: add}\n",
        "  - think.hidden ~> a.a\n  - b.sum ~> a.b: {back_edge: {initial: 0, bound: «0»}}\n"
        "  - think.hidden ~> b.a\n  - a.sum ~> b.b\n",
        text="text: reply.text\n  more: b.sum",
    ),
    program(
        "a back edge that closes no ring",
        "OF2005",
        "think.tokens ~> reply.tokens",
        "think.tokens ~> reply.tokens: {«back_edge»: {initial: 0, bound: 3}}",
        "leave `back_edge` out",
    ),
    add(
        "a back edge without a bound",
        "OF2005",
        "  a: {op: add}\n  b: {op: add}\n",
        "  - think.hidden ~> a.a\n  - b.sum ~> a.b: {back_edge: «{initial: 0}»}\n"
        "  - think.hidden ~> b.a\n  - a.sum ~> b.b\n",
        text="text: reply.text\n  more: b.sum",
    ),
    add(
        "a back edge without an initial value",
        "OF2005",
        "  a: {op: add}\n  b: {op: add}\n",
        "  - think.hidden ~> a.a\n  - b.sum ~> a.b: {back_edge: «{bound: 3}»}\n"
        "  - think.hidden ~> b.a\n  - a.sum ~> b.b\n",
        text="text: reply.text\n  more: b.sum",
    ),
    # items
    Bad(
        name="items at two ports of a loop that takes one",
        codes=["OF2108"],
        change={
            P: [
                ("{loop: speak, each: true}", "{loop: speak}"),
                ("- spell.characters ~> speak.source", "- «spell.characters» ~> speak.source"),
            ]
        },
        base=SPEECH,
        help="each: true",
    ),
    program(
        "a node for each item where nothing has items",
        "OF2108",
        "  think:    {loop: think}",
        "  «think»:    {loop: think, each: true}",
        "remove `each: true`",
    ),
    program(
        "an edge that runs backwards",
        "OF1105",
        "tokenize.tokens -> think.prompt",
        "«think.prompt -> tokenize.tokens»",
        "`tokenize.tokens -> think.prompt`",
    ),
    program(
        "an edge that runs back to an input",
        "OF1105",
        "prompt -> tokenize.messages",
        "«tokenize.messages -> prompt»",
        "`prompt -> tokenize.messages`",
    ),
    program(
        "an edge to a program output",
        "OF1105",
        "  - wave.audio ~> join.items",
        "  - wave.audio ~> join.items\n  - reply.text -> «text»",
        "outputs:",
    ),
    # types
    program("text where tokens are needed", "OF2101", "tokenize.tokens -> think.prompt", "«prompt» -> think.prompt"),
    program("tokens where text is needed", "OF2101", "reply.text ~> segment.text", "«think.tokens» ~> segment.text"),
    program(
        "hidden states where tokens are needed",
        "OF2101",
        "think.tokens ~> reply.tokens",
        "«think.hidden» ~> reply.tokens",
    ),
    program(
        "one item where a stream of items is needed",
        "OF2108",
        "segment.segments ~> spell.text",
        "«reply.text» ~> spell.text",
    ),
    add(
        "tokens of a larger vocabulary",
        "OF2106",
        "  again: {loop: think}\n  out: {op: detokenize, with: tokenizer}\n  low: {op: clamp, limit: 60000}\n",
        "  - think.tokens ~> low.tokens\n  - «low.tokens» -> again.prompt\n  - again.tokens ~> out.tokens\n",
        text="text: reply.text\n  more: out.text",
    ),
    program("another number of channels", "OF2104", "voice.cond ~> wave.cond", "«voice.f0» ~> wave.cond"),
    # streams
    program(
        "context for an op that hands on what it gets",
        "OF2206",
        "think.tokens ~> reply.tokens",
        "think.tokens ~> reply.tokens: {chunk: 5, «left_context»: 2}",
        "both times",
    ),
    program("too little left context", "OF2202", "left_context: 27", "left_context: 20", "left_context: 27"),
    program("no right context", "OF2202", ", right_context: 27", ""),
    program(
        "streams cut differently",
        "OF2203",
        "  - voice.f0 ~> wave.f0: {chunk: 32}",
        "  - «voice.f0 ~> wave.f0»: {chunk: 16}",
    ),
    program(
        "a stream into a finished value",
        "OF2201",
        "tokenize.tokens -> think.prompt",
        "«tokenize.tokens ~> think.prompt»",
    ),
    program(
        "a chunk on a finished value",
        "OF2206",
        "prompt -> tokenize.messages",
        "prompt -> tokenize.messages: {«chunk»: 3}",
    ),
    frames("frames with too little context", "OF2202", P, "left_context: 2", "left_context: 1", "left_context: 2"),
    image("guidance without its other branch", "OF2301", P, "  - read_negative.embeds -> paint.unconditional\n", ""),
    image(
        "embeddings where latents are needed",
        "OF2101",
        P,
        "paint.latents -> show.latents",
        "«read_prompt.embeds» -> show.latents",
    ),
    # branches
    program("a condition over a word", "OF1107", "{loop: think}", "{loop: think, when: «maybe»}"),
]
