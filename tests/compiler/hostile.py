"""Files of a megabyte that were made to hang or break a compiler, and small ones that hold nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping

MEGABYTE = 1 << 20
HEAD = "omniflow: 1\nkind: program\nid: x\ncard: c\noutputs: {y: a.b}\n"
CARD = "omniflow: 1\nkind: card\nid: c\n"
THINKER = f"{CARD}components: {{t: {{use: null.thinker}}}}\n"
ONE_NODE = "nodes: {a: {op: join}}\n"


def repeated(text: str) -> str:
    """As many copies as a megabyte holds."""
    return text * (MEGABYTE // len(text))


def numbered(text: str) -> str:
    """Copies with numbers in place of `#`, a megabyte of them."""
    copies, size, number = [], 0, 0
    while size < MEGABYTE:
        copies.append(text.replace("#", str(number)))
        size += len(copies[-1])
        number += 1
    return "".join(copies)


def bomb(levels: int, width: int) -> str:
    """Aliases that stand for width ** levels values."""
    lines = [f"a0: &a0 [{', '.join(['x'] * width)}]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * width)}]" for i in range(1, levels)]
    return "\n".join(lines) + "\n"


HOSTILE: Mapping[str, Callable[[], str | bytes]] = {
    "flow lists in flow lists": lambda: "[" * MEGABYTE,
    "flow mappings in flow mappings": lambda: repeated("{a: "),
    "lists in lists": lambda: repeated("- "),
    "closed nesting": lambda: "[" * 500 + "]" * 500 + repeated("\n# x"),
    "deep nesting in a node": lambda: HEAD + "nodes: {a: {op: join, gap: " + "[" * 900 + "]" * 900 + "}}\nedges: []\n",
    "deep block nesting": lambda: "".join(f"{' ' * i}a:\n" for i in range(1400)),
    "an alias bomb": lambda: bomb(9, 9),
    "a wide alias bomb": lambda: bomb(3, 3000),
    "an alias that contains itself": lambda: "a: &a [*a]\n",
    "a mapping that contains itself": lambda: "a: &a {b: *a}\n",
    "one long scalar": lambda: f"a: {'x' * MEGABYTE}\n",
    "one long quoted scalar": lambda: f'a: "{"x" * MEGABYTE}"\n',
    "one long key": lambda: f"? {'x' * MEGABYTE}\n: b\n",
    "one long line of keys": lambda: "{" + numbered("k#: v, ") + "}",
    "100,000 keys": lambda: "".join(f"k{i}: v\n" for i in range(100_000)),
    "100,000 equal keys": lambda: repeated("k: v\n"),
    "many unknown keys": lambda: CARD + numbered("componnt#: {}\n"),
    "many components of no expert": lambda: CARD + "components:\n" + numbered("  c#: {use: null.tokeniser}\n"),
    "many unknown loops": lambda: THINKER + "loops:\n" + numbered("  l#: {kind: ar_decod, binds: t}\n"),
    "many bad nodes": lambda: HEAD + "nodes:\n" + numbered("  n#: {oop: join}\n") + "edges: []\n",
    "many unknown ops": lambda: HEAD + "nodes:\n" + numbered("  n#: {op: jion}\n") + "edges: []\n",
    "many edges to nowhere": lambda: HEAD + ONE_NODE + "edges:\n" + numbered("  - b#.x -> c#.y\n"),
    "many edges to near names": lambda: (
        HEAD
        + "nodes:\n"
        + "".join(f"  node{i}: {{op: join}}\n" for i in range(5000))
        + "edges:\n"
        + numbered("  - nodde#.x -> ndoe#.y\n")
    ),
    "many lines that are no edges": lambda: HEAD + ONE_NODE + "edges:\n" + repeated("  - a => b\n"),
    "one long edge": lambda: HEAD + ONE_NODE + "edges:\n  - a.x -> b." + "y" * MEGABYTE + "\n",
    "an edge of arrows": lambda: HEAD + ONE_NODE + "edges:\n  - '" + repeated("-> ") + "'\n",
    "one long type": lambda: HEAD + "inputs: {x: 'f32[" + repeated("T, ") + "]'}\nnodes: {a: {op: join}}\nedges: []\n",
    "one long bound": lambda: (
        THINKER + "loops: {l: {kind: ar_decode, binds: t, max_tokens: '" + repeated("1 + ") + "1'}}\n"
    ),
    "a deep condition": lambda: (
        HEAD + "nodes: {a: {op: join, when: '" + "(" * 400 + "1" + ")" * 400 + "'}}\nedges: []\n"
    ),
    "many tags": lambda: repeated("- !x y\n"),
    "many comments for the compiler": lambda: HEAD + repeated("# omniflow: allow OF2006\n"),
    "many unknown lints": lambda: HEAD + "lints:\n" + numbered("  OF9#: allow\n"),
    "many unknown params": lambda: HEAD + "title: x\nnodes:\n" + numbered("  n#: {op: $p#}\n") + "edges: []\n",
    "many includes": lambda: THINKER + "include:\n" + numbered("  - f#.yaml\n"),
    "many outputs of nowhere": lambda: (
        HEAD.replace("{y: a.b}", "\n" + numbered("  o#: n#.x\n")) + ONE_NODE + "edges: []\n"
    ),
    "zeroes": lambda: b"\0" * MEGABYTE,
    "random bytes": lambda: bytes((i * 197 + (i >> 8) * 31) % 256 for i in range(MEGABYTE)),
    "UTF-16": lambda: numbered("k#: v\n").encode("utf-16"),
    "UTF-32": lambda: numbered("k#: v\n").encode("utf-32"),
    "Latin-1": lambda: ("é: ü\n" * 1000).encode("latin-1"),
    "half a character at the end": lambda: HEAD.encode() + "é".encode()[:1],
    "only blanks": lambda: " " * MEGABYTE,
    "only line ends": lambda: "\n" * MEGABYTE,
    "only tabs": lambda: "\t" * MEGABYTE,
    "carriage returns alone": lambda: repeated("a: b\r"),
    "only comments": lambda: repeated("# x\n"),
    "directives": lambda: repeated("%YAML 1.2\n"),
    "many documents": lambda: repeated("---\na: b\n"),
    "document ends": lambda: repeated("...\n"),
    "wide characters": lambda: HEAD + f"title: {'声' * 100_000}\nnodes: {{é: {{op: 声}}}}\nedges: []\n",
    "nothing": lambda: "",
    "an empty mapping": lambda: "{}",
    "an empty list": lambda: "[]",
    "null": lambda: "null\n",
    "a number": lambda: "42\n",
    "a text": lambda: "hello\n",
    "a document start": lambda: "---\n",
    "a byte order mark alone": lambda: "\ufeff",
    "one zero": lambda: "a: b\0c\n",
    "a bell": lambda: "a: \x07\n",
    "line separators": lambda: "a: b\u2028c: d\u2029\n",
    "a lone surrogate": lambda: b"a: \xed\xa0\x80\n",
}
