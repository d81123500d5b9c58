"""Every format: well formed, complete, the same every time, and hostile names stay text in all of them."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from omniflow.commands.graph import draw, render
from omniflow.viz.board import link_name
from omniflow.viz.build import build_graph
from omniflow.viz.data import graph_document
from omniflow.viz.dot import draw_dot
from omniflow.viz.mermaid import draw_mermaid, mermaid_id, quote_mermaid
from omniflow.viz.model import DrawError
from omniflow.viz.sources import MAX_BYTES, read_sources, spans
from tests.viz.schedules import NASTY, nasty, smol_speech, workflow

pygraphviz = pytest.importorskip("pygraphviz")

SVG = "{http://www.w3.org/2000/svg}"
ROOT = Path(__file__).parents[2]


def svg_of(schedule) -> ElementTree.Element:
    return ElementTree.fromstring(render(build_graph(schedule), "svg").decode())


def classed(root: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [element for element in root.iter() if name in element.get("class", "").split()]


def words(element: ElementTree.Element) -> list[str]:
    return ["".join(text.itertext()) for text in element.iter(f"{SVG}text")]


@pytest.mark.parametrize("suffix", ["svg", "png", "html", "mmd", "dot", "json"])
def test_every_suffix_writes_a_whole_file(suffix: str, tmp_path, capsys) -> None:
    path = tmp_path / f"graph.{suffix}"
    assert draw(smol_speech(), output=path, format=suffix, run=None) == 0
    starts = {"svg": b"<svg", "png": b"\x89PNG", "html": b"<!doctype", "mmd": b"flowchart LR", "dot": b"digraph {"}
    assert path.read_bytes().startswith(starts.get(suffix, b"{"))
    assert capsys.readouterr().out == f"{path}: 13 cards, 14 edges\n"
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_a_dash_writes_to_standard_output(capfdbinary) -> None:
    assert draw(smol_speech(), output=None, format="mmd", run=None) == 0
    assert capfdbinary.readouterr().out.startswith(b"flowchart LR\n")


def test_an_unknown_format_and_an_unwritable_folder_are_one_line(tmp_path, capsys) -> None:
    assert draw(smol_speech(), output=None, format="gif", run=None) == 1
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert draw(smol_speech(), output=tmp_path / "file" / "x.mmd", format="mmd", run=None) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert "known formats are svg, png, html, mmd, dot and json" in lines[0]
    assert "cannot write" in lines[1]


def test_without_graphviz_the_error_names_the_extra_and_the_rest_works(monkeypatch, capsys, tmp_path) -> None:
    monkeypatch.setitem(sys.modules, "pygraphviz", None)
    for suffix in ("svg", "png", "html"):
        assert draw(smol_speech(), output=tmp_path / "x", format=suffix, run=None) == 1
        assert "pip install 'omniflow[graph]'" in capsys.readouterr().err
    for suffix in ("mmd", "dot", "json"):
        assert draw(smol_speech(), output=tmp_path / "x", format=suffix, run=None) == 0


def test_graphviz_s_own_errors_are_told_and_its_warnings_are_not(capfd) -> None:
    from omniflow.viz.graphviz import run_graphviz

    with pytest.raises(DrawError, match="Graphviz could not draw"):
        run_graphviz("digraph { a [label=<<TABLE>>] }", engine="dot", form="json0")
    render(build_graph(smol_speech()), "png")
    assert capfd.readouterr().err == ""


def test_the_svg_shows_cards_ports_units_and_labels() -> None:
    root = svg_of(smol_speech())
    think = classed(root, "vertex")[2]
    assert "c1" in think.get("class")
    assert words(think) == ["think", "ar_decode · thinker", "ar_prefill", "ar_token", "prompt", "tokens"]
    assert len(classed(root, "vertex")) == 13
    assert len(classed(root, "link")) == 14 + 2  # and two samples in the legend
    labels = classed(root, "label")
    assert ["f32[N*, F, 128] @ 80 Hz", "chunk 32 · ctx 27+27"] in [words(label) for label in labels]
    assert [len(classed(card, "sheet")) for card in classed(root, "vertex")][6] == 2  # speak: once per item


def test_the_svg_dashes_streams_and_only_streams() -> None:
    root = svg_of(smol_speech())
    links = [element for element in classed(root, "link") if element.get("data-link")]
    assert [("stream" in link.get("class").split()) for link in links] == [False, False] + [True] * 12
    style = root.find(f"{SVG}style").text
    assert re.search(r"^\.stream \.line\{[^}]*stroke-dasharray", style, re.MULTILINE)


def test_the_svg_needs_no_variables_and_has_a_dark_form() -> None:
    style = svg_of(smol_speech()).find(f"{SVG}style").text
    assert "var(" not in style
    light, _, dark = style.partition("@media (prefers-color-scheme:dark)")
    assert ".vertex.c1 .bar{fill:#c63f00}" in light
    assert ".vertex.c1 .bar{fill:#f1722a}" in dark


def test_svg_tooltips_hold_facts_and_the_place() -> None:
    think = classed(svg_of(smol_speech()), "vertex")[2]
    lines = think.find(f"{SVG}title").text.splitlines()
    assert lines[0] == "loop think"
    assert "ar_token: 160 × 10.4 ms = 1.66 s predicted" in lines
    assert lines[-1] == "specs/smol_speech/speech.program.yaml:14:3"


def test_hostile_names_are_text_in_the_svg() -> None:
    root = svg_of(nasty())
    names = [words(card)[0] for card in classed(root, "vertex")]
    assert names[2:-1] == ["quote\"'`", "話す 声", "end", "graph", "a[b]{c}|<d>", "two↵lines", "#&amp;"]
    assert classed(root, "vertex")[1].find(f"{SVG}title").text.startswith(f"loop {NASTY[0]}\n")
    assert not list(root.iter(f"{SVG}script"))


def test_dot_is_read_back_with_every_node_and_edge() -> None:
    for schedule in (smol_speech(), nasty(), workflow()):
        graph = build_graph(schedule)
        back = pygraphviz.AGraph(string=draw_dot(graph))
        assert len(back.nodes()) == len(graph.vertices)
        assert len(back.edges()) == len(graph.links)
        render(graph, "png")  # Graphviz takes every label, or this raises


def test_dot_dashes_streams() -> None:
    lines = [line for line in draw_dot(build_graph(smol_speech())).splitlines() if " -> n" in line]
    assert [("style=dashed" in line) for line in lines] == [False, False] + [True] * 12


def test_mermaid_ids_are_unique_and_never_keywords() -> None:
    graph = build_graph(nasty())
    ids = [mermaid_id(number, vertex) for number, vertex in enumerate(graph.vertices)]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"n\d+(_[A-Za-z0-9_]+)?", one) for one in ids)


def test_mermaid_has_one_line_for_each_vertex_and_edge() -> None:
    graph = build_graph(nasty())
    lines = draw_mermaid(graph).splitlines()
    boxes = [line for line in lines if re.fullmatch(r'  n\w+(\(\[|\[\[|\[)"[^"]+"(\]\)|\]\]|\])', line)]
    edges = [line for line in lines if re.fullmatch(r'  n\w+ (-->|-\.->)\|"[^"]+"\| n\w+', line)]
    assert (len(boxes), len(edges)) == (len(graph.vertices), len(graph.links))
    rest = [line for line in lines[1:] if line not in boxes and line not in edges]
    assert all(re.fullmatch(r"  (classDef|class) [\w,]+ [\w:#,]+", line) for line in rest)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ('say "hi"', "say #34;hi#34;"),
        ("話す", "話す"),
        ("<b>", "#60;b#62;"),
        ("a#b;c", "a#35;b#59;c"),
        ("`x`", "#96;x#96;"),
        ("N*", "N#42;"),
        ("1. one", "1#46; one"),
        ("- one", "#45; one"),
        ("two\nlines", "two↵lines"),
    ],
)
def test_mermaid_labels_hold_no_syntax(text: str, label: str) -> None:
    assert quote_mermaid(text) == label


class Page(HTMLParser):
    """What a browser would see: scripts and styles by content, addresses, event attributes, source lines."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts: list[tuple[str | None, str]] = []
        self.styles: list[str] = []
        self.odd: list[tuple[str, str]] = []
        self.lines = 0
        self.policy = ""
        self._in: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = dict(attributes)
        self._in = tag
        if tag == "script":
            self.scripts.append((found.get("type"), ""))
        if tag == "style":
            self.styles.append("")
        if tag == "li" and self.styles:
            self.lines += 1
        if found.get("http-equiv") == "Content-Security-Policy":
            self.policy = found["content"] or ""
        self.odd += [(tag, name) for name in found if name.startswith("on") or name in ("src", "href", "style")]

    def handle_data(self, data: str) -> None:
        if self._in == "script":
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + data)
        elif self._in == "style":
            self.styles[-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._in = None


def digest(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


@pytest.mark.parametrize("schedule", [smol_speech(), nasty()], ids=["smol", "nasty"])
def test_the_page_is_closed_to_everything_but_its_own_script(schedule) -> None:
    page = Page(render(build_graph(schedule), "html").decode())
    assert [kind for kind, _ in page.scripts] == ["application/json", None]
    assert page.odd == []
    assert page.policy == (
        f"default-src 'none'; style-src {digest(page.styles[0])}; script-src {digest(page.scripts[1][1])}; "
        "base-uri 'none'; form-action 'none'"
    )
    assert "http:" not in page.scripts[1][1] + page.styles[0]


@pytest.mark.parametrize("schedule", [smol_speech(), nasty()], ids=["smol", "nasty"])
def test_the_page_holds_the_graph_as_data(schedule) -> None:
    graph = build_graph(schedule)
    page = Page(render(graph, "html").decode())
    held = json.loads(page.scripts[0][1])
    names = held.pop("names")
    assert held == json.loads(json.dumps(graph_document(graph)))
    assert names == [link_name(link) for link in graph.links]


def test_the_page_shows_every_line_of_its_specs(monkeypatch) -> None:
    monkeypatch.chdir(ROOT)
    page = Page(render(build_graph(smol_speech()), "html").decode())
    files = ("specs/smol_speech/speech.program.yaml", "specs/smol_speech/card.yaml")
    legend = 4
    assert page.lines == legend + sum(len(Path(file).read_text("utf-8").splitlines()) for file in files)


def test_sources_are_yaml_only_capped_and_say_what_is_missing(monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    graph = build_graph(smol_speech())
    assert [source.note for source in read_sources(graph)] == ["the file was not there when this page was drawn"] * 2
    program = tmp_path / "specs/smol_speech/speech.program.yaml"
    program.parent.mkdir(parents=True)
    program.write_bytes(b"a: b\n" * (MAX_BYTES // 4))
    first = read_sources(graph)[0]
    assert "only the first" in first.note
    assert len(first.lines) == MAX_BYTES // 5


def test_a_schedule_cannot_have_other_files_shown(tmp_path, monkeypatch) -> None:
    from dataclasses import replace

    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
    base = smol_speech()
    node = base.nodes[0]
    stolen = replace(base, nodes=(replace(node, place=replace(node.place, file="secret.txt")), *base.nodes[1:]))
    source = next(source for source in read_sources(build_graph(stolen)) if source.name == "secret.txt")
    assert source.lines == ()


@pytest.mark.parametrize(
    ("line", "kinds"),
    [
        ("  - a.x ~> b.y: {chunk: 3}  # cut", ["", "arrow", "", "key", "", "key", "", "comment"]),
        ("title: 'a # b'", ["key", "", "string"]),
        ("max: 12 * think.tokens", ["key", ""]),
    ],
)
def test_spec_lines_are_coloured_and_add_up(line: str, kinds: list[str]) -> None:
    pieces = spans(line)
    assert "".join(piece.text for piece in pieces) == line
    assert [piece.kind for piece in pieces] == kinds


SCRIPT = """
import hashlib, sys
from omniflow.commands.graph import render
from omniflow.viz.build import build_graph
from tests.viz.schedules import nasty, smol_speech
for schedule in (smol_speech(), nasty()):
    for suffix in ("svg", "html", "mmd", "dot", "json", "png"):
        print(suffix, hashlib.sha256(render(build_graph(schedule), suffix)).hexdigest())
print("torch" in sys.modules, "numpy" in sys.modules)
"""


def test_drawing_is_the_same_for_every_hash_seed_and_imports_no_torch() -> None:
    answers = []
    for seed in ("0", "12345"):
        paths = os.pathsep.join([str(ROOT), str(ROOT / "compiler")])
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": paths}
        answers.append(subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, cwd=ROOT))
    assert answers[0].stderr == b""
    assert answers[0].stdout == answers[1].stdout
    assert answers[0].stdout.endswith(b"False False\n")


def test_stages_are_grounds_clusters_and_subgraphs() -> None:
    graph = build_graph(workflow())
    stages = classed(svg_of(workflow()), "stage")
    assert {words(stage)[0] for stage in stages} == {"draw · draw.program", "tell · tell.program"}
    assert len(pygraphviz.AGraph(string=draw_dot(graph)).subgraphs()) == 2
    assert re.findall(r"subgraph (s\d)\[\"(\w+)\"\]", draw_mermaid(graph)) == [("s0", "draw"), ("s1", "tell")]
