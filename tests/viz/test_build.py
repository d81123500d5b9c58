"""The graph model: what is drawn, how it is named, and what tooltips tell."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from omniflow.viz.board import link_name
from omniflow.viz.build import build_graph
from omniflow.viz.data import draw_json
from omniflow.viz.facts import short_type
from omniflow.viz.measure import measure_card
from omniflow.viz.model import DrawError, Graph, InnerLoop
from omniflow.viz.run import read_run
from tests.viz.schedules import NASTY, code_predictor, kind, nasty, smol_speech, workflow


def facts_of(graph: Graph, vertex_id: str) -> dict[str, str]:
    vertex = next(vertex for vertex in graph.vertices if vertex.id == vertex_id)
    return {fact.name: fact.value for fact in vertex.facts}


def link_facts(graph: Graph, link_id: str) -> dict[str, str]:
    return {fact.name: fact.value for link in graph.links if link.id == link_id for fact in link.facts}


def test_the_speech_cascade_has_its_cards_in_order() -> None:
    graph = build_graph(smol_speech())
    shown = [(v.id, v.kind, v.detail, v.units, v.each) for v in graph.vertices]
    assert shown == [
        ("input:prompt", "input", "text", (), False),
        ("node:tokenize", "op", "chat_tokenize · tokenizer", (), False),
        ("node:think", "loop", "ar_decode · thinker", ("ar_prefill", "ar_token"), False),
        ("node:reply", "op", "detokenize · tokenizer", (), False),
        ("node:segment", "op", "segment", (), False),
        ("node:spell", "op", "spell · lexicon", (), False),
        ("node:speak", "loop", "ar_decode · talker", ("ar_token",), True),
        ("node:phrase", "op", "gather · lexicon", (), False),
        ("node:voice", "loop", "encode · acoustic", ("encoder_chunk",), True),
        ("node:wave", "loop", "audio_decode · vocoder", ("audio_chunk",), True),
        ("node:join", "op", "join", (), False),
        ("output:text", "output", "text", (), False),
        ("output:audio", "output", "audio[S] @ 24 kHz", (), False),
    ]


def test_the_speech_cascade_has_its_edges_as_written() -> None:
    graph = build_graph(smol_speech())
    assert [link_name(link) for link in graph.links] == [
        "prompt -> tokenize.messages",
        "tokenize.tokens -> think.prompt",
        "think.tokens ~> reply.tokens",
        "reply.text ~> segment.text",
        "segment.segments ~> spell.text",
        "spell.characters ~> speak.source",
        "spell.forced ~> speak.forced",
        "speak.tokens ~> phrase.words",
        "phrase.phonemes ~> voice.phonemes",
        "voice.cond ~> wave.cond",
        "voice.f0 ~> wave.f0",
        "wave.audio ~> join.items",
        "reply.text ~> text",
        "join.samples ~> audio",
    ]
    cut = next(link for link in graph.links if link.source_port == "cond")
    assert (cut.type, cut.policy) == ("f32[N*, F, 128] @ 80 Hz", "chunk 32 · ctx 27+27")


def test_an_input_an_output_and_a_node_of_one_name_are_three_cards() -> None:
    ids = [vertex.id for vertex in build_graph(nasty()).vertices]
    assert len(set(ids)) == len(ids) == len(NASTY) + 2


def test_experts_take_colours_in_the_order_of_their_first_use() -> None:
    families = build_graph(smol_speech()).families
    assert [family.name for family in families] == ["tokenizer", "thinker", "lexicon", "talker", "acoustic", "vocoder"]
    assert [family.colour for family in families] == list(range(6))


def test_a_port_without_an_edge_is_listed_but_not_drawn() -> None:
    think = next(vertex for vertex in build_graph(smol_speech()).vertices if vertex.id == "node:think")
    assert [(socket.name, socket.linked) for socket in think.outputs] == [("tokens", True), ("hidden", False)]


def test_tooltips_tell_costs_caches_buffers_and_capacities() -> None:
    graph = build_graph(smol_speech())
    think = facts_of(graph, "node:think")
    assert think["ar_token"] == "160 × 10.4 ms = 1.66 s predicted"
    assert think["cache"] == "kv: paged_kv, 256 MiB, blocks of 16 tokens"
    assert think["expert"] == "thinker (smol.thinker), float32 on cpu, weights 513 MiB"
    assert think["max_tokens"] == "160"
    assert facts_of(graph, "node:tokenize")["buffer tokens"] == "1.25 KiB, held until think"
    assert "peak of 1.06 GiB on cpu" in facts_of(graph, "node:wave")["memory"]
    cut = link_facts(graph, "voice.cond -> wave.cond")
    assert (cut["capacity"], cut["context"]) == ("64 elements", "27 left, 27 right")
    assert link_facts(graph, "tokenize.tokens -> think.prompt")["buffer"] == "1.25 KiB, held until think"


def test_the_critical_path_marks_its_nodes_and_the_edges_between_them() -> None:
    graph = build_graph(smol_speech())
    assert all(vertex.critical == vertex.id.startswith("node:") for vertex in graph.vertices)
    assert not any(link.critical for link in graph.links if link.target.startswith("output:"))
    assert all(link.critical for link in graph.links if link.source == "node:voice")


@pytest.mark.parametrize(
    ("text", "rate", "short"),
    [
        ("tokens[P=tokenize.P] < 49152", None, "tokens[P]"),
        ("audio[N*=phrase.N, 300*F=300*voice.F] @ 24 kHz", 24000.0, "audio[N*, 300*F] @ 24 kHz"),
        ("f32[T, D]", 12.5, "f32[T, D] @ 12.5 Hz"),
        ("text", None, "text"),
    ],
)
def test_a_type_is_shortened_to_what_an_edge_can_show(text: str, rate: float | None, short: str) -> None:
    assert short_type(kind(text, rate)) == short


def test_json_has_the_documented_shape() -> None:
    document = json.loads(draw_json(build_graph(smol_speech())))
    assert set(document) == {
        *(
            "omniflow",
            "kind",
            "format",
            "program",
            "card",
            "schedule",
            "facts",
            "experts",
            "groups",
            "vertices",
            "links",
        )
    }
    assert (document["kind"], document["format"]) == ("graph", 1)
    assert set(document["vertices"][0]) == {
        *("id", "kind", "stage", "name", "detail", "expert", "units", "inner", "each", "when", "inputs", "outputs"),
        *("critical", "measured", "facts", "place"),
    }
    assert set(document["links"][0]) == {
        *("id", "source", "source_port", "target", "target_port", "streams", "back", "type", "policy"),
        *("critical", "measured", "facts", "place"),
    }
    known = {vertex["id"] for vertex in document["vertices"]}
    assert all({link["source"], link["target"]} <= known for link in document["links"])


def record(**changes: object) -> dict[str, object]:
    node = {"place": "", "items": 1, "reasons": {}, "first": 0.5, "last": 2.0}
    body = {
        "omniflow": 1,
        "kind": "run",
        "format": 1,
        "program": "smol-speech.speech",
        "schedule": smol_speech().content_hash,
        "state": "done",
        "seconds": 2.5,
        "outputs": {"audio": {"elements": 48000}, "text": {"elements": 120}},
        "nodes": {
            "think": {**node, "units": {"ar_prefill": 1, "ar_token": 30}, "seconds": 1.5, "emitted": {"tokens": 30}},
            "wave": {**node, "units": {"audio_chunk": 6}, "seconds": 0.5, "emitted": {"audio": 48000}},
        },
    }
    return {**body, **changes}


def written(tmp_path, body: object):
    path = tmp_path / "run.json"
    path.write_text(json.dumps(body), encoding="utf-8")
    return path


def test_a_run_paints_time_shares_on_nodes_and_volumes_on_edges(tmp_path) -> None:
    graph = build_graph(smol_speech(), read_run(written(tmp_path, record())))
    shares = {vertex.name: vertex.measured.share for vertex in graph.vertices if vertex.measured}
    assert shares == {"think": 0.75, "wave": 0.25}
    assert facts_of(graph, "node:think")["measured"] == (
        "1.5 s, 75 % of the busy time, 31 units; first after 500 ms, last after 2 s"
    )
    volumes = {link.id: link.measured.elements for link in graph.links if link.measured}
    assert volumes == {
        "think.tokens -> reply.tokens": 30,
        "wave.audio -> join.items": 48000,
        "output:text": 120,
        "output:audio": 48000,
    }
    assert "of another version" not in str(graph.facts)


def test_a_run_of_an_edited_program_says_so(tmp_path) -> None:
    graph = build_graph(smol_speech(), read_run(written(tmp_path, record(schedule="f" * 64))))
    assert "2.5 s, done, of another version of the program" in str(graph.facts)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (record(program="other"), "a run of `other`, not of `smol-speech.speech`"),
        (record(nodes={"ghost": record()["nodes"]["think"]}), "node `ghost` that this graph has not"),
        (record(kind="schedule"), "not a run record; `omniflow run` writes one"),
        (record(format=9), "of format 9"),
        (record(nodes={"think": {}}), "not a whole run record"),
        (record(nodes=[]), "not a whole run record"),
        ([], "not a run record"),
    ],
)
def test_a_record_that_does_not_fit_is_refused_in_one_line(tmp_path, body: object, says: str) -> None:
    with pytest.raises(DrawError) as refusal:
        build_graph(smol_speech(), read_run(written(tmp_path, body)))
    assert says in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_missing_or_broken_record_is_refused_in_one_line(tmp_path) -> None:
    with pytest.raises(DrawError, match="cannot be read: no such file"):
        read_run(tmp_path / "none.json")
    broken = tmp_path / "broken.json"
    broken.write_bytes(b"\xff{")
    with pytest.raises(DrawError, match="not valid JSON"):
        read_run(broken)


def test_a_loop_inside_a_loop_is_shown_on_the_outer_card() -> None:
    graph = build_graph(code_predictor())
    talk = next(vertex for vertex in graph.vertices if vertex.name == "talk")
    assert talk.inner == InnerLoop(name="predict", expert="predictor", length=15)
    assert talk.units == ("ar_prefill", "ar_token")
    assert facts_of(graph, "node:talk")["inner reads"] == "prompt from hidden; gives back embeds"
    assert measure_card(talk).height == measure_card(replace(talk, inner=None)).height + 20


def test_nodes_of_a_workflow_stand_on_the_ground_of_their_stage() -> None:
    graph = build_graph(workflow())
    assert [(group.path, group.program) for group in graph.groups] == [
        ("draw", "draw.program"),
        ("tell", "tell.program"),
    ]
    assert [(v.stage, v.name) for v in graph.vertices if v.stage] == [
        ("draw", "encode"),
        ("draw", "denoise"),
        ("tell", "see"),
        ("tell", "think"),
    ]
    assert facts_of(graph, "node:tell/see")["stage"] == "tell: tell.program on tell-card"


def test_tooltips_tell_predicted_times_state_and_bytes_in_flight() -> None:
    base = smol_speech()
    think = replace(base.nodes[1], starts_at=0.5, ends_at=2.25, state_bytes=4096)
    edge = replace(base.channels[2], bytes=2048)
    known = replace(base, nodes=(base.nodes[0], think, *base.nodes[2:]), channels=(*base.channels[:2], edge))
    facts = facts_of(build_graph(known), "node:think")
    assert (facts["runs"], facts["state"]) == ("500 ms to 2.25 s predicted", "4 KiB a request")
    assert link_facts(build_graph(known), edge.id)["capacity"] == "64 elements, 2 KiB when full"
