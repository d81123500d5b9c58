from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.editor import Editor
from tests.house.process import ROOT

pytest.importorskip("pygls")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project") / "null"
    shutil.copytree(ROOT / "specs" / "null", folder)
    return folder


@pytest.fixture(scope="module")
def editor(project: Path) -> Iterator[Editor]:
    with Editor(project) as running:
        yield running


@pytest.fixture
def program(editor: Editor, project: Path) -> Path:
    """The program, open and sound."""
    path = project / "speech.program.yaml"
    if path in editor.versions:
        editor.change(path, path.read_text())
    else:
        editor.open(path)
    return path


def spot(path: Path, text: str, inside: str = "") -> tuple[int, int]:
    """Line and column (from 0) of a text in a file, or of a part of it."""
    for number, line in enumerate(path.read_text().splitlines()):
        if text in line:
            return number, line.index(text) + text.index(inside or text) + 1
    raise AssertionError(f"{text} is not in {path}")


def test_a_sound_document_has_no_diagnostics(editor: Editor, program: Path) -> None:
    assert editor.faults(program) == []


def test_faults_are_shown_while_typing_and_go_when_they_are_mended(editor: Editor, program: Path) -> None:
    text = program.read_text()
    (fault,) = editor.change(program, text.replace("op: segment", "op: segmment"))
    assert fault["code"] == "OF1303"
    assert fault["severity"] == 1
    assert "did you mean `segment`?" in fault["message"]
    line, column = spot(program, "op: segment", "segment")
    assert fault["range"] == {
        "start": {"line": line, "character": column - 1},
        "end": {"line": line, "character": column - 1 + len("segmment")},
    }
    (fault,) = editor.change(program, text + "  - [\n")
    assert fault["code"] == "OF1003"
    assert editor.change(program, text) == []


def test_a_fault_in_the_unsaved_card_is_shown_in_the_card(editor: Editor, program: Path, project: Path) -> None:
    card = project / "card.yaml"
    text = card.read_text()
    editor.open(card)
    assert [fault["code"] for fault in editor.change(card, text.replace("binds: thinker", "binds: thinkr"))] == [
        "OF1307"
    ]
    renamed = editor.change(card, text.replace("  think: {", "  ponder: {"))
    assert renamed == []
    assert {fault["code"] for fault in editor.faults(program)} == {"OF1304"}
    editor.change(card, text)
    assert editor.faults(program) == []


def test_hover_tells_types_and_what_things_are_for(editor: Editor, program: Path) -> None:
    port = editor.hover(program, *spot(program, "- think.tokens ~> reply.tokens", "tokens ~>"))
    assert "output `think.tokens`: `tokens[T=think.T] < 317`" in port
    assert "**speak**: loop speak" in editor.hover(program, *spot(program, "  speak:    {", "speak"))
    assert "Cuts a text into segments" in editor.hover(program, *spot(program, "op: segment", "segment"))
    assert "Where to cut" in editor.hover(program, *spot(program, "by: sentence", "by"))
    assert "New elements per chunk" in editor.hover(program, *spot(program, "chunk: 32, left", "chunk"))
    assert "One pass of an encoder" in editor.hover(program, *spot(program, "{loop: voice,", "voice"))
    assert editor.hover(program, *spot(program, "# one word", "word")) == ""


def test_definitions_lead_to_nodes_loops_components_cards_and_params(
    editor: Editor, program: Path, project: Path
) -> None:
    card = project / "card.yaml"

    def goes(text: str, inside: str, where: Path, target: str, name: str) -> None:
        line, column = spot(where, target, name)
        assert editor.definition(program, *spot(program, text, inside)) == (where.name, line, column - 1)

    goes("- think.tokens ~>", "think", program, "  think:    {", "think")
    goes("text: reply.text", "reply", program, "  reply:    {", "reply")
    goes("- prompt ->", "prompt", program, "  prompt: {", "prompt")
    goes("{loop: speak,", "speak", card, "  speak: {", "speak")
    goes("with: lexicon}", "lexicon", card, "  lexicon:   {", "lexicon")
    goes("card: null-speech", "null-speech", card, "id: null-speech", "null-speech")
    if card not in editor.versions:
        editor.open(card)
    line, column = spot(card, "  max_tokens: {", "max_tokens")
    assert editor.definition(card, *spot(card, "$max_tokens}", "max")) == ("card.yaml", line, column - 1)
    line, column = spot(card, "  kv: {", "kv")
    assert editor.definition(card, *spot(card, "cache: kv", "kv")) == ("card.yaml", line, column - 1)


@pytest.mark.parametrize(
    ("typed", "some", "none"),
    [
        ("  - ", ["prompt", "think", "join"], ["tokens"]),
        ("  - think.", ["tokens", "hidden", "embeds"], ["prompt"]),
        ("  - think.tokens ~> reply.", ["tokens"], ["text"]),
        ("  - voice.cond ~> wave.cond: {chunk: 1, ", ["left_context", "capacity"], ["chunk"]),
    ],
)
def test_edges_are_completed_with_what_may_stand_there(
    typed: str, some: list[str], none: list[str], editor: Editor, program: Path
) -> None:
    text = program.read_text() + typed
    editor.change(program, text)
    found = editor.complete(program, text.count("\n"), len(typed))
    assert set(some) <= set(found)
    assert not set(none) & set(found)


def test_nodes_are_completed_with_ops_loops_components_and_attributes(editor: Editor, program: Path) -> None:
    text = program.read_text()
    line, _ = spot(program, "  think:    {loop: think}")

    def complete(typed: str) -> dict[str, dict[str, object]]:
        lines = text.split("\n")
        lines.insert(line, typed)
        editor.change(program, "\n".join(lines))
        return editor.complete(program, line, len(typed))

    assert {"strip", "segment"} <= set(complete("  a: {op: "))
    assert set(complete("  a: {loop: ")) == {"think", "speak", "voice", "wave"}
    assert set(complete("  a: {op: detokenize, with: ")) == {"tokenizer"}
    assert {"drop", "each"} <= set(complete("  a: {op: strip, "))
    assert set(complete("  a: {op: segment, by: ")) == {"sentence", "line", "word"}
    assert complete("  a: {op: strip, ")["drop"]["insertText"] == "drop: "


def test_cards_are_completed_with_experts_kinds_and_params(editor: Editor, project: Path) -> None:
    path = project / "new.card.yaml"
    head = "omniflow: 1\nkind: card\nid: new\nparams:\n  n: {type: int, default: 3}\n"
    head += "components:\n  lm: {use: null.thinker}\nloops:\n"
    editor.open(path, head + "  a: {kind: ar_decode, binds: lm, max_tokens: 4}\n")

    def complete(typed: str) -> set[str]:
        editor.change(path, head + typed)
        return set(editor.complete(path, head.count("\n"), len(typed)))

    assert {"ar_decode", "encode"} <= complete("  a: {kind: ")
    assert complete("  a: {kind: ar_decode, binds: ") == {"lm"}
    assert complete("  a: {kind: ar_decode, max_tokens: $") == {"$n"}
    assert {"max_tokens", "temperature"} <= complete("  a: {kind: ar_decode, ")


def test_the_document_is_laid_out_on_demand(editor: Editor, program: Path) -> None:
    text = program.read_text()
    editor.change(program, text.replace("  think:    {loop: think}", "  think: { loop:   think }"))
    params = {"textDocument": {"uri": program.as_uri()}, "options": {"tabSize": 2, "insertSpaces": True}}
    (edit,) = editor.ask("textDocument/formatting", params)
    assert "  think:    {loop: think}\n" in edit["newText"]
    assert editor.change(program, edit["newText"]) == []
    assert editor.ask("textDocument/formatting", params) == []


def test_fixes_are_offered_where_a_fault_stands(editor: Editor, program: Path) -> None:
    text = program.read_text()
    (fault,) = editor.change(program, text.replace("op: segment", "op: segmment"))
    params = {"textDocument": {"uri": program.as_uri()}, "range": fault["range"], "context": {"diagnostics": [fault]}}
    actions = {action["title"]: action for action in editor.ask("textDocument/codeAction", params)}
    (change,) = actions["Write `segment`"]["edit"]["changes"][program.as_uri()]
    assert change == {"range": fault["range"], "newText": "segment"}
    (whole,) = actions["Make all 1 safe fixes"]["edit"]["changes"][program.as_uri()]
    assert whole["newText"] == text


def test_columns_count_utf16_units_as_the_protocol_says(editor: Editor, program: Path) -> None:
    text = program.read_text().replace("op: segment, by: sentence", 'op: segment, by: "😀x", max_characters: no')
    faults = editor.change(program, text)
    line = next(line for line in text.splitlines() if "😀" in line)
    starts = {
        line.encode("utf-16-le")[: 2 * fault["range"]["start"]["character"]].decode("utf-16-le") for fault in faults
    }
    assert any(start.endswith("max_characters: ") for start in starts)


def test_a_closed_document_counts_as_it_is_on_disk(editor: Editor, project: Path, program: Path) -> None:
    editor.change(program, program.read_text().replace("op: segment", "op: segmment"))
    editor.tell("textDocument/didClose", {"textDocument": {"uri": program.as_uri()}})
    editor.ask("textDocument/hover", editor.at(program, 0, 0))
    assert editor.diagnostics[program.as_uri()] == []
    del editor.versions[program]


UNSAVED = "untitled:Untitled-1"


def unsaved(editor: Editor, text: str, *, method: str = "didOpen") -> list[str]:
    """Opens a document that has no file, or changes its text; the messages of what is wrong in it."""
    item = {"uri": UNSAVED, "languageId": "yaml", "version": 1, "text": text}
    document = {"textDocument": item} if method == "didOpen" else {
        "textDocument": {"uri": UNSAVED, "version": 2}, "contentChanges": [{"text": text}]
    }  # fmt: skip
    editor.tell(f"textDocument/{method}", document)
    editor.ask("textDocument/hover", {"textDocument": {"uri": UNSAVED}, "position": {"line": 0, "character": 0}})
    return [fault["message"] for fault in editor.diagnostics[UNSAVED]]


def test_a_document_that_was_never_saved_is_checked_under_its_own_name(tmp_path: Path) -> None:
    card = (ROOT / "specs" / "null" / "image.card.yaml").read_text().replace("id: null-image", "id: mine")
    with Editor(tmp_path) as editor:
        (message,) = unsaved(editor, card.replace("binds: decoder", "binds: decodr"))
        assert message.startswith("unknown component `decodr`")
        (fault,) = editor.diagnostics[UNSAVED]
        actions = editor.ask(
            "textDocument/codeAction",
            {"textDocument": {"uri": UNSAVED}, "range": fault["range"], "context": {"diagnostics": [fault]}},
        )
        assert list(actions[0]["edit"]["changes"]) == [UNSAVED]
        twice = card + "id: again\n"
        assert len(unsaved(editor, twice, method="didChange")) == 1
        (fault,) = editor.diagnostics[UNSAVED]
        assert [place["location"]["uri"] for place in fault["relatedInformation"]] == [UNSAVED]
        program = (ROOT / "specs" / "null" / "image.program.yaml").read_text().replace("card: null-image", "card: mine")
        assert unsaved(editor, program, method="didChange") == []  # it cannot be told where its card will be
        assert len(unsaved(editor, twice, method="didChange")) == 1
        editor.tell("textDocument/didClose", {"textDocument": {"uri": UNSAVED}})
        editor.ask("textDocument/hover", {"textDocument": {"uri": UNSAVED}, "position": {"line": 0, "character": 0}})
        assert editor.diagnostics == {UNSAVED: []}
