"""Specs that name what is not there, each once."""

from __future__ import annotations

from tests.compiler.bad.cases_yaml import C, P, card, program
from tests.compiler.mutation import FRAMES, IMAGE, SPEECH, Bad

WORKFLOW = """omniflow: 1
kind: workflow
id: two
inputs: {prompt: text}
outputs: {text: first.text}
stages:
  first: {program: p.program.yaml}
edges:
  - prompt -> first.prompt
"""
GRAPH = """omniflow: 1
kind: graph
id: part
inputs: {text: text}
outputs: {tokens: cut.tokens}
nodes:
  cut: {op: tokenize, with: tokenizer}
edges:
  - text -> cut.text
"""


def workflow(name: str, code: str, old: str, new: str, help: str = "") -> Bad:
    change = {"w.workflow.yaml": [("", WORKFLOW), (old, new)]}
    return Bad(name=name, codes=[code], change=change, base=SPEECH, check="w.workflow.yaml", help=help)


def with_graph(name: str, code: str, old: str, new: str, help: str = "", *, in_program: bool = False) -> Bad:
    """The program tokenizes by a graph of its own."""
    used = [
        ("  tokenize: {op: chat_tokenize, with: tokenizer}", "  tokenize: {graph: part.graph.yaml}"),
        ("prompt -> tokenize.messages", "prompt -> tokenize.text"),
    ]
    own = (old, new)
    change = {P: [*used, own] if in_program else used, "part.graph.yaml": [("", GRAPH), *([] if in_program else [own])]}
    return Bad(name=name, codes=[code], change=change, base=SPEECH, help=help)


NAMES = [
    Bad(
        name="stages that feed each other",
        codes=["OF2004"],
        change={
            "w.workflow.yaml": [
                ("", WORKFLOW),
                (
                    "  first: {program: p.program.yaml}\n",
                    "  first: {program: p.program.yaml}\n  last: {program: p.program.yaml}\n",
                ),
                ("  - prompt -> first.prompt\n", "  - last.text -> first.prompt\n  - «first.text -> last.prompt»\n"),
                ("inputs: {prompt: text}\n", ""),
            ]
        },
        base=SPEECH,
        check="w.workflow.yaml",
        help="stages of a workflow run one after another",
    ),
    program("an unknown card", "OF1301", "card: null-speech", "card: «null-speach»", "`null-speech`"),
    program("a card file that is not there", "OF1301", "card: null-speech", "card: «kard.yaml»"),
    program("a card outside the project", "OF1301", "card: null-speech", "card: «../../card.yaml»"),
    program("a card by an absolute path", "OF1301", "card: null-speech", "card: «/etc/passwd.yaml»"),
    Bad(
        name="two cards of one id",
        codes=["OF1108"],
        change={"other.card.yaml": [("", "omniflow: 1\nkind: card\nid: «null-speech»\ncomponents: {}\n")]},
        base=SPEECH,
        help="`card: card.yaml`",
    ),
    Bad(
        name="two programs of one id",
        codes=["OF1108"],
        change={
            P: [("id: null-speech.speech", "id: «null-speech.speech»")],
            "other.program.yaml": [("", "omniflow: 1\nkind: program\nid: null-speech.speech\n")],
        },
        base=SPEECH,
        help="another id",
    ),
    program("a card that is a program", "OF1008", "card: null-speech", "card: ./p.program.yaml"),
    card("an unknown expert", "OF1302", "null.thinker}", "«null.thniker»}", "`null.thinker`"),
    card("an expert by a Python path", "OF1302", "{use: null.thinker}", "{use: «os.system»}"),
    program("an unknown op", "OF1303", "op: chat_tokenize", "op: «chat_tokenise»", "`chat_tokenize`"),
    program("an op by a Python path", "OF1303", "op: segment", "op: «my.module.segment»"),
    program("an unknown loop", "OF1304", "{loop: think}", "{loop: «thnik»}", "`think`"),
    program(
        "an unknown source node", "OF1305", "think.tokens ~> reply.tokens", "«thnik».tokens ~> reply.tokens", "`think`"
    ),
    program(
        "an unknown target node", "OF1305", "think.tokens ~> reply.tokens", "think.tokens ~> «repyl».tokens", "`reply`"
    ),
    program("an unknown node of an output", "OF1305", "audio: join.samples", "audio: «jion».samples", "`join`"),
    program("a node that is renamed", "OF1305", "  think:    {loop: think}", "  thinks:    {loop: think}", "`thinks`"),
    program(
        "an unknown output port", "OF1306", "think.tokens ~> reply.tokens", "think.«token» ~> reply.tokens", "`tokens`"
    ),
    program(
        "an unknown input port", "OF1306", "think.tokens ~> reply.tokens", "think.tokens ~> reply.«token»", "`tokens`"
    ),
    program("an unknown port of an output", "OF1306", "audio: join.samples", "audio: join.«sampels»", "`samples`"),
    program(
        "an input port as a source",
        "OF1306",
        "think.tokens ~> reply.tokens",
        "think.«prompt» ~> reply.tokens",
        "`tokens`",
    ),
    program(
        "an output port as a target",
        "OF1306",
        "tokenize.tokens -> think.prompt",
        "tokenize.tokens -> think.«hidden»",
        "`prompt`",
    ),
    program(
        "ports with nothing alike",
        "OF1306",
        "segment.segments ~> spell.text",
        "segment.segments ~> spell.«zzz»",
        "`text`",
    ),
    card("an unknown component of a loop", "OF1307", "binds: acoustic", "binds: «acustic»", "`acoustic`"),
    program(
        "an unknown component of an op",
        "OF1307",
        "{op: chat_tokenize, with: tokenizer}",
        "{op: chat_tokenize, with: «tokeniser»}",
        "`tokenizer`",
    ),
    card("a component that is renamed", "OF1307", "  talker:    {use", "  talkr:    {use", "`talkr`"),
    card("an unknown cache", "OF1308", "cache: kv", "cache: «vk»"),
    program(
        "an unknown program input", "OF1310", "prompt -> tokenize.messages", "«promt» -> tokenize.messages", "`prompt`"
    ),
    program(
        "a node for a program input",
        "OF1310",
        "tokenize.tokens -> think.prompt",
        "«tokenize» -> think.prompt",
        "`tokenize.tokens`",
    ),
    Bad(
        name="an unknown inner loop",
        codes=["OF1304"],
        change={C: [("loop: deepen", "loop: «depen»")]},
        base=FRAMES,
        help="`deepen`",
    ),
    Bad(name="a loop inside itself", codes=["OF1104"], change={C: [("loop: deepen", "loop: «speak»")]}, base=FRAMES),
    Bad(
        name="an unknown port of an inner loop",
        codes=["OF1306"],
        change={C: [("first: token", "«frist»: token")]},
        base=FRAMES,
    ),
    Bad(
        name="an unknown output of an inner loop",
        codes=["OF1306"],
        change={C: [("back: tokens", "back: «token»")]},
        base=FRAMES,
        help="`tokens`",
    ),
    Bad(
        name="an inner loop of no fixed length",
        codes=["OF1104"],
        change={
            C: [
                (
                    "  deepen: {kind: ar_decode, binds: depth, max_tokens: 3}",
                    "  «deepen»: {kind: ar_decode, binds: depth, max_tokens: 3 * speak.tokens}",
                )
            ]
        },
        base=FRAMES,
    ),
    Bad(
        name="an inner loop that could end early",
        codes=["OF1104"],
        change={
            C: [("  deepen: {kind: ar_decode, binds: depth,", "  «deepen»: {kind: ar_decode, binds: depth, stop: [3],")]
        },
        base=FRAMES,
        help="remove `stop`",
    ),
    Bad(
        name="rows fed to an inner loop that takes ids",
        codes=["OF2101"],
        change={C: [("first: token", "«first»: embeds")]},
        base=FRAMES,
        help="`token`",
    ),
    Bad(
        name="an id fed to an inner loop that takes rows",
        codes=["OF2101"],
        change={C: [("hidden: hidden", "«hidden»: token")]},
        base=FRAMES,
        help="`hidden`",
    ),
    Bad(
        name="an unknown node of an image",
        codes=["OF1305"],
        change={P: [("paint.latents -> show.latents", "paint.latents -> «shwo».latents")]},
        base=IMAGE,
        help="`show`",
    ),
    # graphs and workflows
    with_graph("a graph that is not there", "OF1001", "part.graph.yaml", "«prat.graph.yaml»", in_program=True),
    with_graph("a graph outside the project", "OF1311", "part.graph.yaml", "«../../part.graph.yaml»", in_program=True),
    with_graph("a graph that is a card", "OF1008", "part.graph.yaml", "«card.yaml»", in_program=True),
    with_graph(
        "a graph that includes itself", "OF1312", "{op: tokenize, with: tokenizer}", "{graph: «part.graph.yaml»}"
    ),
    with_graph(
        "an unknown port of a graph",
        "OF1306",
        "prompt -> tokenize.text",
        "prompt -> tokenize.«txt»",
        "`text`",
        in_program=True,
    ),
    with_graph(
        "an unknown output of a graph",
        "OF1306",
        "tokenize.tokens -> think.prompt",
        "tokenize.«token» -> think.prompt",
        "`tokens`",
        in_program=True,
    ),
    with_graph("an unfed port of a graph", "OF2002", "  - prompt -> tokenize.text\n", "", in_program=True),
    with_graph("an unknown node inside a graph", "OF1305", "text -> cut.text", "text -> «cutt».text", "`cut`"),
    with_graph("an unknown component inside a graph", "OF1307", "with: tokenizer", "with: «tokeniser»", "`tokenizer`"),
    with_graph("an unknown key of a graph", "OF1101", "id: part", "id: part\n«card»: null-speech"),
    workflow("a stage that is not there", "OF1001", "p.program.yaml", "«q.program.yaml»"),
    workflow("a stage that is a card", "OF1008", "p.program.yaml", "«card.yaml»"),
    workflow("an unknown stage", "OF1305", "prompt -> first.prompt", "prompt -> «frist».prompt", "`first`"),
    workflow("an unknown input of a stage", "OF1310", "prompt -> first.prompt", "prompt -> first.«promt»", "`prompt`"),
    workflow("an unknown output of a stage", "OF1309", "text: first.text", "text: first.«txt»", "`text`"),
    workflow("an unfed input of a stage", "OF2002", "edges:\n  - prompt -> first.prompt\n", "edges: []\n"),
    workflow(
        "an unknown param of a stage",
        "OF1201",
        "{program: p.program.yaml}",
        "{program: p.program.yaml, params: {«max_token»: 3}}",
        "`max_tokens`",
    ),
    workflow("a workflow that includes itself", "OF1312", "p.program.yaml", "«w.workflow.yaml»"),
    workflow(
        "a param value that does not fit",
        "OF1202",
        "{program: p.program.yaml}",
        "{program: p.program.yaml, params: {max_tokens: «0»}}",
    ),
]
