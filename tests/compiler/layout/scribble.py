"""Writes YAML in every way a hand might: styles, odd indents, comments and blank lines anywhere."""

from __future__ import annotations

import random

WORDS = (
    "", "a", "b1", "x-y", "null", "on", "12", "1.5", "true", "$p", "a.b", "16:9", "don't", "~", "012",
    "a.x -> b.y", "a.x  ~>b.y", "hello world", "x, y", "[T]", "f32[T, 80]",
)  # fmt: skip
SECTIONS = "nodes edges inputs outputs params id title components loops parity weird".split()
KEYS = [
    "op",
    "with",
    "k1",
    "k2",
    "each",
    "a.x ~> b.y",
    "'quoted'",
    "use",
    "from",
    "a_key_that_is_far_longer_than_the_others",
]
FLOW_KEYS = ["op", "with", "k1", "k2", "each", "kind", "type", "'q k'"]


class Scribbler:
    """One document's worth of choices."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.comments = 0
        self.lines: list[str] = []

    def document(self) -> str:
        pick = self.random
        if pick.random() < 0.3:
            self.lines.append("# top")
        if pick.random() < 0.1:
            self.lines.append("---")
        kind = pick.choice(["card", "program", "workflow", "config"])
        self.lines += ["omniflow: 1" + self.trail(), f"kind: {kind}"]
        self.mapping(0, 3, pick.sample(SECTIONS, pick.randint(1, 5)))
        return "\n".join(self.lines) + pick.choice(["\n", "", "\n\n"])

    def comment(self) -> str:
        self.comments += 1
        return f"# c{self.comments} " + self.random.choice(["", "a: b", "{x, y}", "- z", "'q'"])

    def trail(self) -> str:
        return " " * self.random.randint(1, 3) + self.comment() if self.random.random() < 0.2 else ""

    def noise(self, indent: int) -> None:
        """Blank lines and comments between entries."""
        while self.random.random() < 0.15:
            shift = self.random.choice([0, 0, 0, 2, -2, 5]) if indent else 0
            self.lines.append("" if self.random.random() < 0.5 else " " * (indent + shift) + self.comment())

    def scalar(self, *, in_flow: bool) -> str:
        word, chance = self.random.choice(WORDS), self.random.random()
        if chance < 0.15 or word.startswith("["):
            return f'"{word}"'
        if chance < 0.3 or not word or (in_flow and any(sign in word for sign in ",[]{}")):
            return "'" + word.replace("'", "''") + "'"
        return word

    def flow(self, depth: int) -> str:
        pick = self.random
        if depth <= 0 or pick.random() < 0.4:
            return self.scalar(in_flow=True)
        if pick.random() < 0.5:
            items = (f",{self.space()} ").join(self.flow(depth - 1) for _ in range(pick.randint(0, 3)))
            return f"[{self.space()}{items}{self.space()}]"
        keys = pick.sample(FLOW_KEYS, pick.randint(0, 4))
        return (
            "{"
            + self.space()
            + f",{self.space()} ".join(f"{k}: {self.flow(depth - 1)}" for k in keys)
            + self.space()
            + "}"
        )

    def space(self) -> str:
        """What may stand between two tokens in braces."""
        chance, line = self.random.random(), "\n" + " " * self.random.randint(20, 24)
        if chance < 0.1:
            return f" {self.comment()}{line}"
        if chance < 0.15:
            return f"{line}{self.comment()}{line}"
        return line if chance < 0.3 else " " if chance < 0.6 else ""

    def block_scalar(self, indent: int, head: str) -> None:
        header = self.random.choice(["|", ">", "|-", ">+", "|+", "|2", "|2-"])
        margin = " " * (indent + (2 if "2" in header else self.random.randint(1, 4)))
        self.lines.append(f"{head} {header}{self.trail()}")
        for number in range(self.random.randint(1, 4)):
            text = self.random.choice(["text # no comment", "  more", "x", "- a: b", ""])
            text = "first" if not number and "2" not in header else text
            self.lines.append(margin + text if text else "")
        if "+" in header and self.random.random() < 0.5:
            self.lines.append("")

    def value(self, indent: int, head: str, depth: int, *, in_mapping: bool) -> None:
        pick, chance = self.random, self.random.random()
        if chance < 0.08:
            self.block_scalar(indent, head)
        elif chance < 0.13:
            quote = pick.choice(["'", '"'])
            self.lines += [f"{head} {quote}one", " " * (indent + 3) + "two"]
            self.lines += [""] if pick.random() < 0.4 else []
            self.lines.append(" " * (indent + 1) + f"three{quote}{self.trail()}")
        elif chance < 0.16:
            self.lines += [f"{head} one two", " " * (indent + 2) + "three four" + self.trail()]
        elif chance < 0.2:
            self.lines.append(head + self.trail())
        elif chance < 0.5 or depth <= 0:
            self.lines.append(f"{head} {self.scalar(in_flow=False)}{self.trail()}")
        elif chance < 0.7:
            self.lines.append(f"{head} {self.flow(2)}{self.trail()}")
        elif chance < 0.85:
            self.lines.append(head + self.trail())
            self.mapping(indent + pick.randint(1, 3), depth - 1)
        else:
            self.lines.append(head + self.trail())
            self.sequence(indent + pick.randint(0 if in_mapping else 1, 3), depth - 1)

    def mapping(self, indent: int, depth: int, keys: list[str] | None = None) -> None:
        for key in keys or self.random.sample(KEYS, self.random.randint(1, 4)):
            self.noise(indent)
            self.value(indent, f"{' ' * indent}{key}:", depth, in_mapping=True)
        self.noise(indent)

    def sequence(self, indent: int, depth: int) -> None:
        for _ in range(self.random.randint(1, 3)):
            self.noise(indent)
            if self.random.random() < 0.2:
                self.lines.append(f"{' ' * indent}- k: 1{self.trail()}")
                if self.random.random() < 0.7:
                    self.value(indent + 2, f"{' ' * (indent + 2)}j:", depth - 1, in_mapping=True)
            else:
                self.value(indent, f"{' ' * indent}-", depth, in_mapping=False)
        self.noise(indent)
