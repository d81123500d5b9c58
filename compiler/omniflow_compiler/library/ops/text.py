"""Ops on text and tokens: tokenizing, cutting, spelling."""

from __future__ import annotations

from omniflow_compiler.library.signature import Attribute, OpSignature, Port, Ports


def _ports(inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> Ports:
    return Ports(inputs=inputs, outputs=outputs)


SIGNATURES = (
    OpSignature(
        name="chat_tokenize", needs="tokenizer",
        ports=_ports(
            (
                Port(name="messages", type="text", doc="What the user says."),
                Port(name="pictures", type="?p[N*, ...]", required=False, doc="What stands before it; the template marks a place for each."),
                Port(name="sounds", type="?s[M*, ...]", required=False, doc="What stands before it, behind the pictures."),
            ),
            (Port(name="tokens", type="tokens[P] < vocabulary"),),
        ),
        attributes=(Attribute(name="system", type="text", default="", doc="System message; empty keeps the template's own."),),
        doc="Renders the tokenizer's chat template and tokenizes it.",
    ),
    OpSignature(
        name="conversation_tokenize", needs="tokenizer",
        ports=_ports(
            (Port(name="messages", type="json", doc="A list of {role, content}; the last is the one to be answered."),),
            (Port(name="tokens", type="tokens[P] < vocabulary"),),
        ),
        attributes=(Attribute(name="system", type="text", default="", doc="System message where the list begins with none; empty keeps the template's own."),),
        doc="Renders the tokenizer's chat template of a whole conversation and tokenizes it.",
    ),
    OpSignature(
        name="tokenize", needs="tokenizer",
        ports=_ports((Port(name="text", type="text"),), (Port(name="tokens", type="tokens[P] < vocabulary"),)),
        doc="Tokenizes plain text.",
    ),
    OpSignature(
        name="detokenize", needs="tokenizer", barrier=False,
        ports=_ports(
            (Port(name="tokens", type="tokens[T] < vocabulary", streams=True),),
            (Port(name="text", type="text", streams=True),),
        ),
        doc="Text of tokens as they come, never half a character.",
    ),
    OpSignature(
        name="segment", barrier=False,
        ports=_ports((Port(name="text", type="text", streams=True),), (Port(name="segments", type="text[N*]", streams=True),)),
        attributes=(
            Attribute(name="by", type="text", default="sentence", choices=("sentence", "line", "word"), doc="Where to cut."),
            Attribute(name="max_characters", type="int", default=400, minimum=8, maximum=100_000, doc="Longest segment; longer ones are cut at a space."),
        ),
        doc="Cuts a text into segments as soon as each is complete.",
    ),
    OpSignature(
        name="spell", needs="lexicon", barrier=False,
        ports=_ports(
            (Port(name="text", type="text[N*]", streams=True, items=True, doc="Sentences."),),
            (
                Port(name="characters", type="tokens[W*, C] < characters", streams=True, doc="Words the talker decodes; empty for known ones."),
                Port(name="forced", type="tokens[W*, K] < vocabulary", streams=True, doc="Phonemes of known words; empty for the others."),
            ),
        ),
        doc="Splits sentences into words and looks known ones up; an end mark follows each sentence.",
    ),
    OpSignature(
        name="gather", needs="lexicon", barrier=False,
        ports=_ports(
            (Port(name="words", type="tokens[W*, T] < vocabulary", streams=True, items=True),),
            (Port(name="phonemes", type="tokens[N*, P] < phonemes", streams=True),),
        ),
        doc="Gathers words up to each end mark and maps them to the acoustic model's phonemes.",
    ),
)  # fmt: skip
