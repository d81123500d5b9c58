"""Specs with a wrong form: keys, values, edges, types, expressions, params."""

from __future__ import annotations

from tests.compiler.bad.cases_yaml import C, P, card, program
from tests.compiler.mutation import FRAMES, IMAGE, SPEECH, Bad

PROGRAM = "omniflow: 1\nkind: program\nid: x\ncard: null-speech\noutputs: {y: t.tokens}\n"


def whole(name: str, code: str, text: str, help: str = "") -> Bad:
    base = {"card.yaml": "card.yaml"}
    return Bad(name=name, codes=[code], change={"w.yaml": [("", text)]}, base=base, check="w.yaml", help=help)


FORM = [
    # keys
    program("an unknown key of a program", "OF1101", "card: null-speech", "card: null-speech\n«owner»: me"),
    program("a misspelt key of a program", "OF1101", "outputs:\n", "«ouputs»:\n", help="`outputs`"),
    program("misspelt edges", "OF1101", "edges:\n", "«edgs»:\n", help="`edges`"),
    program("misspelt nodes", "OF1101", "nodes:\n", "«node»:\n", help="`nodes`"),
    program("a misspelt version key", "OF1101", "omniflow: 1", "«omnflow»: 1", help="`omniflow`"),
    card("an unknown key of a card", "OF1101", "id: null-speech", "id: null-speech\n«license»: mit"),
    card("an unknown key of a component", "OF1101", "{use: null.thinker}", "{use: null.thinker, «quantize»: int4}"),
    card(
        "a misspelt key of a component",
        "OF1101",
        "{use: null.thinker}",
        "{use: null.thinker, «dtyp»: float32}",
        "`dtype`",
    ),
    card("an unknown key of a loop", "OF1101", "max_tokens: 12}", "max_tokens: 12, «beams»: 4}"),
    card("a misspelt key of a loop", "OF1101", "stop: [2], max_tokens: 12", "«stp»: [2], max_tokens: 12", "`stop`"),
    card(
        "a misspelt required key of a loop",
        "OF1101",
        "stop: [2], max_tokens: 12",
        "stop: [2], «max_token»: 12",
        "`max_tokens`",
    ),
    card("a misspelt kind of a loop", "OF1101", "{kind: encode,", "{«knd»: encode,", "`kind`"),
    card("an unknown key of a cache", "OF1101", "block_tokens: 16", "«block_size»: 16"),
    card("an unknown key of a param", "OF1101", "min: 1,", "«minimum»: 1,", "`min`"),
    card("an unknown key of parity", "OF1101", "interleave: required", "«interleaved»: required", "`interleave`"),
    program("an unknown key of an op", "OF1101", "gap: 4800", "«gaps»: 4800", "`gap`"),
    program(
        "a misspelt with",
        "OF1101",
        "{op: chat_tokenize, with: tokenizer}",
        "{op: chat_tokenize, «wth»: tokenizer}",
        "`with`",
    ),
    program("a misspelt each", "OF1101", "{loop: speak, each: true}", "{loop: speak, «eech»: true}", "`each`"),
    program("a loop's attribute on a node", "OF1101", "{loop: think}", "{loop: think, «max_tokens»: 3}", "card"),
    program("an unknown key of an edge", "OF1101", "right_context: 27}", "«right»: 27}", "`right_context`"),
    program("an unknown key of an input", "OF1101", "{type: text, help:", "{type: text, «hlp»:", "`help`"),
    program(
        "a comma in plain text", "OF1101", "help: what the user says", "help: what the user says, «or asks»", "quote"
    ),
    card("a component with no use", "OF1102", "  lexicon:   {use: null.lexicon} ", "  «lexicon»:   {dtype: float32} "),
    card("a loop with no kind", "OF1102", "{kind: encode, binds: acoustic}", "{binds: acoustic}"),
    card("a loop that binds nothing", "OF1102", "{kind: encode, binds: acoustic}", "{kind: encode}"),
    card(
        "a loop with no bound",
        "OF1102",
        "  speak: {kind: ar_decode, binds: talker, stop: [2], max_tokens: 12}",
        "  «speak»: {kind: ar_decode, binds: talker, stop: [2]}",
    ),
    card("a cache with no size", "OF1102", "{kind: paged_kv, max_bytes: 4 MiB, block_tokens: 16}", "{kind: paged_kv}"),
    card("a card with no id", "OF1102", "id: null-speech\n", ""),
    whole("a card with no components", "OF1102", "omniflow: 1\nkind: «card»\nid: c\n"),
    program("a program with no card", "OF1102", "card: null-speech\n", ""),
    program("a program with no outputs", "OF1102", "outputs:\n  text: reply.text\n  audio: join.samples\n", ""),
    program("a node without op or loop", "OF1102", "{loop: think}", "{each: true}"),
    program(
        "an op without its component",
        "OF1102",
        "  phrase:   {op: gather, with: lexicon} ",
        "  «phrase»:   {op: gather} ",
        "`lexicon`",
    ),
    program("an empty node", "OF1103", "{loop: think}", ""),
    # types of values
    program(
        "a title that is a number", "OF1103", "title: The speech cascade on tiny random experts", "title: «12»", "'12'"
    ),
    program("an output that is a list", "OF1103", "text: reply.text", "text: «[reply.text]»"),
    whole("nodes as a list", "OF1103", PROGRAM + "nodes: «[x]»\nedges: []\n"),
    whole(
        "no edges at all",
        "OF1104",
        PROGRAM + "nodes: {t: {op: tokenize, with: tokenizer}, d: {op: detokenize, with: tokenizer}}\n«edges»: []\n",
    ),
    whole("edges as a mapping", "OF1103", PROGRAM + "nodes: {t: {op: tokenize, with: tokenizer}}\nedges: «{a: b}»\n"),
    program("each as a word", "OF1103", "{loop: speak, each: true}", "{loop: speak, each: «on»}", "`true`"),
    program("each as a number", "OF1103", "{loop: speak, each: true}", "{loop: speak, each: «1»}"),
    program("a number as text", "OF1103", "gap: 4800", 'gap: «"4800"»'),
    program("a fraction for a whole number", "OF1103", "gap: 4800", "gap: «0.5»"),
    program(
        "text for a chunk",
        "OF1103",
        "  - voice.f0 ~> wave.f0: {chunk: 32}",
        '  - voice.f0 ~> wave.f0: {chunk: «"32"»}',
        "quotes",
    ),
    program(
        "a float for a chunk",
        "OF1103",
        "  - voice.f0 ~> wave.f0: {chunk: 32}",
        "  - voice.f0 ~> wave.f0: {chunk: «32.0»}",
    ),
    program(
        "a boolean for a chunk",
        "OF1103",
        "  - voice.f0 ~> wave.f0: {chunk: 32}",
        "  - voice.f0 ~> wave.f0: {chunk: «true»}",
    ),
    card("stop ids as one number", "OF1103", "stop: [2], max_tokens: 12", "stop: «2», max_tokens: 12"),
    card("a negative stop id", "OF1103", "stop: [2], max_tokens: 12", "stop: «[-2]», max_tokens: 12"),
    card("a stop id as text", "OF1103", "stop: [2], max_tokens: 12", "stop: «[</s>]», max_tokens: 12"),
    whole("components as a list", "OF1103", "omniflow: 1\nkind: card\nid: c\ncomponents: «[x]»\n"),
    card("a component as text", "OF1103", "  talker:    {use: null.talker}", "  talker:    «null.talker»"),
    card("a use that is a number", "OF1103", "{use: null.talker}", "{use: «7»}"),
    card("capabilities as text", "OF1103", "[reasoning_text, text_to_speech]", "«text_to_speech»"),
    card("a param as a bare value", "OF1103", "params:\n", "params:\n  seed: «7»\n"),
    # values
    card("an unknown capability", "OF1313", "text_to_speech]", "«text_to_speach»]", "`text_to_speech`"),
    card("a capability twice", "OF1104", "text_to_speech]", "text_to_speech, «reasoning_text»]"),
    card("an unknown kind of loop", "OF1104", "kind: encode", "kind: «encod»", "`encode`"),
    card("an unknown kind of cache", "OF1104", "kind: paged_kv", "kind: «paged_vk»", "`paged_kv`"),
    program("an output outside the folder", "OF1104", "  text: reply.text", '  «"../text"»: reply.text', "no spaces"),
    program(
        "an output that every run has", "OF1109", "  text: reply.text", "  «trace»: reply.text", "for what it holds"
    ),
    program("a compiled schedule", "OF1008", "kind: program", "kind: «schedule»", "omniflow run"),
    card("an unknown dtype", "OF1104", "{use: null.thinker}", "{use: null.thinker, dtype: «fp16»}", "`float16`"),
    card(
        "a dtype that the expert lacks",
        "OF2015",
        "{use: null.thinker}",
        "{use: null.thinker, dtype: «bfloat16»}",
        "`float32`",
    ),
    card(
        "a device that the expert lacks",
        "OF2015",
        "{use: null.thinker}",
        "{use: null.thinker, device: «cuda»}",
        "on cpu",
    ),
    card(
        "a checkpoint that nobody reads",
        "OF1101",
        "{use: null.thinker}",
        "{use: null.thinker, «from»: weights}",
        "leave `from` out",
    ),
    card("an unknown device", "OF1104", "{use: null.thinker}", "{use: null.thinker, device: «gpu»}", "`cuda`"),
    card("an unknown parity level", "OF1104", "[C0, C1, C3]", "[C0, C1, «C9»]"),
    card("an unknown param type", "OF1104", "{type: int, default: 48", "{type: «integer», default: 48", "`int`"),
    card("a size that is none", "OF1104", "4 MiB", "«4 MibiB»", "MiB"),
    card("a size of zero", "OF1104", "4 MiB", "«0»"),
    card("no tokens per block", "OF1104", "block_tokens: 16", "block_tokens: «0»"),
    card("a bad id", "OF1104", "id: null-speech", "id: «null speech»", "letters"),
    card("a temperature below zero", "OF1104", "max_tokens: 12}", "max_tokens: 12, temperature: «-1»}"),
    card("a mass above one", "OF1104", "max_tokens: 12}", "max_tokens: 12, top_p: «1.5»}"),
    program("an unknown way to cut", "OF1104", "by: sentence", "by: «sentences»", "`sentence`"),
    program(
        "a chunk of zero", "OF1104", "  - voice.f0 ~> wave.f0: {chunk: 32}", "  - voice.f0 ~> wave.f0: {chunk: «0»}"
    ),
    program("a negative context", "OF1104", "left_context: 27", "left_context: «-27»"),
    program("both op and loop", "OF1104", "{loop: think}", "{loop: think, «op»: join}"),
    program("an output without a port", "OF1104", "text: reply.text", "text: «reply»", "`node.port`"),
    program("a node id with a dot", "OF1104", "  reply:    {op: detok", "  «re.ply»:    {op: detok"),
    program(
        "an empty outputs section", "OF1103", "outputs:\n  text: reply.text\n  audio: join.samples\n", "«outputs»:\n"
    ),
    # edges
    program(
        "a fat arrow",
        "OF1105",
        "think.tokens ~> reply.tokens",
        "«think.tokens => reply.tokens»",
        "`think.tokens -> reply.tokens`",
    ),
    program(
        "an arrow backwards",
        "OF1105",
        "prompt -> tokenize.messages",
        "«tokenize.messages <- prompt»",
        "`prompt -> tokenize.messages`",
    ),
    program("an edge without an arrow", "OF1105", "prompt -> tokenize.messages", "«prompt tokenize.messages»"),
    program(
        "an edge of three ends",
        "OF1105",
        "prompt -> tokenize.messages",
        "«prompt -> tokenize.messages -> reply.tokens»",
    ),
    program("an edge to a node", "OF1105", "reply.text ~> segment.text", "reply.text ~> «segment»", "`segment.text`"),
    program("an edge with a bare colon", "OF1105", "prompt -> tokenize.messages", "«prompt -> tokenize.messages»:"),
    program(
        "attributes that are not indented",
        "OF1105",
        "  - voice.f0 ~> wave.f0: {chunk: 32}",
        "  - «v»oice.f0 ~> wave.f0:\n    chunk: 32",
    ),
    program("a number as an edge", "OF1105", "  - wave.audio ~> join.items", "  - wave.audio ~> join.items\n  - «7»"),
    program(
        "a list as an edge", "OF1105", "  - wave.audio ~> join.items", "  - wave.audio ~> join.items\n  - «[a, b]»"
    ),
    program("too many dots", "OF1105", "reply.text ~> segment.text", "«reply.text.x ~> segment.text»"),
    # types of inputs
    program("an unknown base", "OF1106", "{type: text,", "{type: «txt»,", "`text`"),
    program("an unclosed axis", "OF1106", "{type: text,", '{type: «"f32[T"»,'),
    program("an unknown rate", "OF1106", "{type: text,", '{type: «"f32[T] @ fast"»,'),
    program("a size that is not affine", "OF1106", "{type: text,", '{type: «"f32[T*T]"»,'),
    program("an unknown dtype of a type", "OF1106", "{type: text,", '{type: «"audio:f8[S]"»,'),
    program("a default of another type", "OF1103", "{type: text, help", "{type: text, default: «7», help"),
    # expressions
    card("a bound that is no expression", "OF1107", "max_tokens: 12}", "max_tokens: «12 *»}"),
    card("a bound that calls", "OF1107", "max_tokens: 12}", "max_tokens: «len(think)»}"),
    card(
        "a bound over nothing known", "OF1107", "max_tokens: 12}", "max_tokens: 12 * «thnk.tokens»}", "`think.tokens`"
    ),
    program("a condition that is no expression", "OF1107", "{loop: think}", "{loop: think, when: «inputs.prompt ==»}"),
    program("a condition that runs code", "OF1107", "{loop: think}", "{loop: think, when: «__import__('os')»}"),
    program(
        "a condition over an unknown input",
        "OF1107",
        "{loop: think}",
        "{loop: think, when: «inputs.promt» != ''}",
        "`inputs.prompt`",
    ),
    program(
        "an input without `inputs.`", "OF1107", "{loop: think}", "{loop: think, when: «prompt» != ''}", "`inputs.pro"
    ),
    program("an empty condition", "OF1107", "{loop: think}", '{loop: think, when: «""»}', "leave `when` out"),
    card(
        "a param inside an expression", "OF1107", "max_tokens: 12}", "max_tokens: «1 + $max_tokens»}", "upstream loops"
    ),
    program(
        "an output that shows an input", "OF1104", "text: reply.text", "text: «prompt»", "passed on through a node"
    ),
    program(
        "an id written twice where another was meant",
        "OF1004",
        "  think:    {loop: think}",
        "  «tokenize»:    {loop: think}",
    ),
    card("a loop written twice where another was meant", "OF1004", "  speak: {kind", "  «think»: {kind"),
    # params
    card("an unknown param", "OF1201", "$max_tokens", "«$max_token»", "`max_tokens`"),
    program("a param of nowhere", "OF1201", "gap: 4800", "gap: «$gap»"),
    card("a default outside its bounds", "OF1202", "default: 48", "default: «4800»"),
    card("a default of another type", "OF1202", "default: 48", 'default: «"48"»'),
    card(
        "a default that is not among the values",
        "OF1202",
        "{type: int, default: 48, min: 1, max: 1024,",
        "{type: enum, of: [a, b], default: «c»,",
    ),
    card(
        "a param without a value",
        "OF1203",
        "  max_tokens: {type: int, default: 48,",
        "  «max_tokens»: {type: int,",
        "--set",
    ),
    card("bounds the wrong way round", "OF1104", "min: 1, max: 1024", "min: 100, max: «1»"),
    # lints
    program("an unknown lint", "OF1401", "card: null-speech", "card: null-speech\nlints: {«OF9999»: allow}"),
    program("a level of an error", "OF1402", "card: null-speech", "card: null-speech\nlints: {«OF2103»: allow}"),
    program(
        "an unknown level", "OF1104", "card: null-speech", "card: null-speech\nlints: {OF2006: «ignore»}", "`allow`"
    ),
    program("a comment with an unknown code", "OF1401", "{loop: think}", "{loop: think}  # omniflow: allow «OF2999»"),
    program("a comment with an error's code", "OF1402", "{loop: think}", "{loop: think}  # omniflow: allow «OF2103»"),
    program("a comment that silences nothing", "OF1403", "{loop: think}", "{loop: think}  # omniflow: allow «OF2006»"),
    program("a comment of another word", "OF1404", "{loop: think}", "{loop: think}  «# omniflow: ignore OF2006»"),
    # inner loops
    Bad(
        name="an inner loop with no feed",
        codes=["OF1102"],
        change={
            C: [
                (
                    "inner: {loop: deepen, feed: {hidden: hidden, first: token}, back: tokens}",
                    "«inner»: {loop: deepen, back: tokens}",
                )
            ]
        },
        base=FRAMES,
    ),
    Bad(
        name="an inner loop fed with an unknown value",
        codes=["OF1104"],
        change={C: [("hidden: hidden", "hidden: «hiden»")]},
        base=FRAMES,
        help="`hidden`",
    ),
    Bad(
        name="a guidance below zero", codes=["OF1104"], change={C: [("guidance: 3.0", "guidance: «-3.0»")]}, base=IMAGE
    ),
    Bad(
        name="an unknown solver",
        codes=["OF1104"],
        change={C: [("solver: heun", "solver: «huen»")]},
        base=IMAGE,
        help="`heun`",
    ),
    Bad(name="no denoise steps", codes=["OF1104"], change={C: [("steps: $steps", "steps: «0»")]}, base=IMAGE),
]
__all__ = ["FORM", "SPEECH", "P"]
