"""Files that are no YAML of ours, or no specs: one fault each."""

from __future__ import annotations

from tests.compiler.mutation import SPEECH, Bad

P, C = "p.program.yaml", "card.yaml"


def program(name: str, code: str, old: str, new: str, help: str = "") -> Bad:
    return Bad(name=name, codes=[code], change={P: [(old, new)]}, base=SPEECH, help=help)


def card(name: str, code: str, old: str, new: str, help: str = "") -> Bad:
    return Bad(name=name, codes=[code], change={C: [(old, new)]}, base=SPEECH, help=help)


YAML = [
    program("an unclosed brace", "OF1003", "  think:    {loop: think}", "  think:    {loop: think\n  rest«:» x"),
    program("an unclosed bracket", "OF1003", "edges:\n", "edges: [\n"),
    Bad(
        name="a file that ends inside a list",
        codes=["OF1003"],
        change={P: [("  - wave.audio ~> join.items\n", "  - wave.audio ~> join.items\nlints: [«»\n")]},
        base=SPEECH,
    ),
    program("a nesting that the reader of YAML refuses", "OF1005", "card: null-speech", f"card: {'[' * 2000}"),
    program("a tab as indentation", "OF1003", "  think:    {loop: think}", "«\t»think:    {loop: think}"),
    program("an unclosed quote", "OF1003", "card: null-speech", 'card: "null-speech'),
    program("a stray quote", "OF1003", "title: The", "title: 'x' «T»he"),
    program("a wrong indentation", "OF1003", "  think:    {loop: think}", "     «t»hink:    {loop: think}"),
    program("a colon in plain text", "OF1003", "title: The speech", "title: The«:» speech"),
    program("a list item among keys", "OF1003", "card: null-speech", "card: null-speech\n«-» x"),
    program("two documents", "OF1003", "card: null-speech", "card: null-speech\n«-»--\na: b"),
    program("a key written twice", "OF1004", "card: null-speech", "card: null-speech\n«card»: null-speech"),
    program(
        "a node written twice",
        "OF1004",
        "  think:    {loop: think}",
        "  think: {loop: think}\n  «think»: {loop: think}",
    ),
    program("a key of a flow mapping twice", "OF1004", "{loop: think}", "{loop: think, «loop»: think}"),
    program("one key quoted and plain", "OF1004", "card: null-speech", 'card: null-speech\n«"card"»: null-speech'),
    card(
        "a loop written twice", "OF1004", "  voice: {kind", "  «think»: {kind: encode, binds: acoustic}\n  voice: {kind"
    ),
    program("an alias to nothing", "OF1003", "{loop: think}", "«*»think"),
    program("a merge key", "OF1006", "{loop: think}", "{«<<»: {loop: think}}"),
    program("a tag on a scalar", "OF1006", "card: null-speech", "card: «!!str» null-speech"),
    program("a tag that runs code", "OF1006", "card: null-speech", "card: «!!python/object/apply:os.system» [x]"),
    program("a tag of one's own", "OF1006", "{loop: think}", "«!loop» {loop: think}"),
    program("a list as a key", "OF1003", "  think:    {loop: think}", "  ? «[a, b]»\n  : {loop: think}"),
    program("another version", "OF1007", "omniflow: 1", "omniflow: «2»"),
    program("a version as text", "OF1007", "omniflow: 1", 'omniflow: «"1"»'),
    program("no version", "OF1007", "omniflow: 1\n", "«»", help="omniflow: 1"),
    program("an unknown kind", "OF1008", "kind: program", "kind: «progam»", help="`program`"),
    program("no kind", "OF1008", "omniflow: 1\nkind: program", "«»omniflow: 1", help="kind:"),
    program("a misspelt kind key", "OF1008", "kind: program", "«kid»: program", help="`kind:`"),
    program("a kind that is a list", "OF1008", "kind: program", "kind: «[program]»"),
    program("a huge number", "OF1104", "gap: 4800", "gap: «99999999999999999999999999»"),
    program("a number beyond floats", "OF1104", "gap: 4800", "gap: «1e999»"),
]
