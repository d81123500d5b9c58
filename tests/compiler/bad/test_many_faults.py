from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from omniflow_compiler.pipeline import Options, compile_file
from omniflow_compiler.render import render_report
from tests.compiler.mutation import SPECS

# Each breaks the speech family in one place of its own: file, what stands there, what stands instead, what is found.
FAULTS = [
    ("speech.program.yaml", "title: The", "titel: The", "OF1101"),
    ("speech.program.yaml", "{op: segment, by: sentence}", "{op: segment, by: sentences}", "OF1104"),
    ("speech.program.yaml", "gap: 4800", 'gap: "4800"', "OF1103"),
    ("speech.program.yaml", "think.tokens ~> reply.tokens", "thnik.tokens ~> reply.tokens", "OF1305"),
    ("speech.program.yaml", "spell.forced ~> speak.forced", "spell.forcd ~> speak.forced", "OF1306"),
    ("speech.program.yaml", "{op: spell, with: lexicon}", "{op: spell, with: lexikon}", "OF1307"),
    ("speech.program.yaml", "  prompt: {type: text", "  voice: text\n  prompt: {type: text", "OF2010"),
    ("speech.program.yaml", "nodes:\n", "nodes:\n  dead: {op: concat}\n", "OF2006"),
    ("speech.program.yaml", "left_context: 27", "left_context: 3", "OF2202"),
    ("speech.program.yaml", "prompt -> tokenize.messages", "prompt -> tokenize.messages: {chunk: 3}", "OF2206"),
    ("card.yaml", "default: 48", "default: 4800", "OF1202"),
    ("card.yaml", "{use: null.acoustic}", "{use: null.acoustik}", "OF1302"),
    ("card.yaml", "text_to_speech]", "text_to_speech, text_to_sound]", "OF1313"),
    ("card.yaml", "stop: [2], max_tokens: 12", "stop: [2, 900000], max_tokens: 12", "OF2106"),
    ("card.yaml", "cache: kv", "cache: vk", "OF1308"),
    ("card.yaml", "block_tokens: 16", "block_tokens: none", "OF1103"),
    ("card.yaml", "interleave: required", "interleave: always", "OF1104"),
]  # fmt: skip


@pytest.mark.parametrize("seed", range(30))
def test_two_or_three_faults_are_all_found_and_nothing_else(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    chosen = random.sample(FAULTS, random.choice((2, 3)))
    for name in ("card.yaml", "speech.program.yaml"):
        text = (SPECS / name).read_text()
        for file, old, new, _ in chosen:
            if file == name:
                assert text.count(old) == 1, old
                text = text.replace(old, new)
        (tmp_path / name).write_text(text)
    compilation = compile_file(tmp_path / "speech.program.yaml", Options())
    expected = sorted(code for *_, code in chosen)
    found = sorted(found.code for found in compilation.report)
    shown = render_report(compilation.report, compilation.sources)
    assert found == expected, shown


def test_all_faults_at_once_are_found_in_one_run(tmp_path: Path) -> None:
    for name in ("card.yaml", "speech.program.yaml"):
        text = (SPECS / name).read_text()
        for file, old, new, _ in FAULTS:
            text = text.replace(old, new) if file == name else text
        (tmp_path / name).write_text(text)
    compilation = compile_file(tmp_path / "speech.program.yaml", Options())
    found = sorted(found.code for found in compilation.report)
    shown = render_report(compilation.report, compilation.sources)
    assert found == sorted(code for *_, code in FAULTS), shown
