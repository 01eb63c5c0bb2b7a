"""Semantic coherence filtering: its algorithms on numbers worked out by hand, their properties, both presets with scripted models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from agents.evidence.passages import PICTURE_KEY, classify_modality
from agents.models.base import ChatReply, ChatRequest, ModelError
from agents.models.entities import SpacyEntities
from agents.papers.coherence import (
    CoherenceStage,
    Metric,
    ModalityAnswers,
    TitledText,
    all_agree,
    average_similarities,
    build_graph,
    compute_similarities,
    normalise_name,
    prune,
    select_most_trusted,
    select_top,
    sum_degrees,
)
from agents.search.hits import Entity, ImageHit, WebHit
from agents.settings.presets import Settings, load_settings, settings_from
from agents.stages.evidence import EvidenceStage
from agents.turn import IDK, Candidate, Evidence, Turn
from tests.agent.scripted import ScriptedChat, ScriptedPipeline, context, run, run_stages, turn

METRICS: tuple[Metric, ...] = ("l1", "euclidean", "cosine")


def test_algorithm_1_by_hand() -> None:
    """Cosines of (1, 0), (0.6, 0.8), (0, 1): 0.6, 0 and 0.8; so c = (0.6 + 0) / 2, (0.6 + 0.8) / 2, (0 + 0.8) / 2."""
    vectors = [[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]
    scores = average_similarities(compute_similarities(vectors, vectors, "cosine"))
    assert scores == pytest.approx([0.3, 0.7, 0.4])
    assert select_top(scores, 2) == [1, 2]


def test_distances_become_similarities_by_hand() -> None:
    """(0, 0) to (3, 4): L1 distance 7, Euclidean 5."""
    assert compute_similarities([[0.0, 0.0]], [[3.0, 4.0]], "l1")[0, 0] == pytest.approx(1 / 8)
    assert compute_similarities([[0.0, 0.0]], [[3.0, 4.0]], "euclidean")[0, 0] == pytest.approx(1 / 6)
    assert compute_similarities([[0.0, 0.0]], [[3.0, 4.0]], "cosine")[0, 0] == 0.0


def test_an_item_alone_has_no_coherence_and_dimensions_must_agree() -> None:
    assert average_similarities(compute_similarities([[1.0]], [[1.0]], "cosine")) == pytest.approx([0.0])
    assert average_similarities(np.zeros((0, 0))).shape == (0,)
    with pytest.raises(ValueError, match="one dimension"):
        compute_similarities([[1.0]], [[1.0, 2.0]], "l1")


def test_the_best_are_taken_in_order_and_nan_never() -> None:
    assert select_top([0.5, float("nan"), 0.9, 0.5], 3) == [2, 0, 3]


VECTORS = arrays(
    np.float64, st.tuples(st.integers(2, 7), st.just(3)), elements=st.floats(-10, 10, allow_nan=False, width=32)
)


@given(VECTORS, st.sampled_from(METRICS))
def test_coherence_is_the_mean_of_a_loop(vectors: Any, metric: Metric) -> None:
    matrix = compute_similarities(vectors, vectors, metric)
    n = len(vectors)
    loop = [sum(matrix[i, j] for j in range(n) if j != i) / (n - 1) for i in range(n)]
    assert average_similarities(matrix) == pytest.approx(loop, abs=1e-9)


EVIDENCE = [
    TitledText("image", ("Junie Moon", "Liza Minnelli")),
    TitledText("text", ("Liza Minnelli", "Junie Moon", "Otto Preminger")),
    TitledText("table", ("Hanging Tree",)),
    TitledText("text", ("Gary Cooper", "Montana")),
]


def test_algorithm_2_by_hand() -> None:
    """Minnelli, Moon and Preminger form a triangle (degree 2 each). Hanging Tree has degree 0, Cooper and Montana degree 1 in one
    modality with no other beside them: pruned. Items: 2 + 2, 2 + 2 + 2, and two with nothing left."""
    graph = build_graph(EVIDENCE)
    assert dict(graph.degree()) == {
        "junie moon": 2, "liza minnelli": 2, "otto preminger": 2, "hanging tree": 0, "gary cooper": 1, "montana": 1,
    }  # fmt: skip
    assert graph.nodes["liza minnelli"]["modalities"] == {"image", "text"}
    assert sum_degrees(prune(graph), 4) == [4, 6, None, None]


def test_a_leaf_that_is_tied_to_another_modality_stays() -> None:
    """A - B in a text, B alone in a table: A has degree 1 and one modality, but its neighbour B occurs in the table too."""
    graph = build_graph([TitledText("text", ("A", "B")), TitledText("table", ("B",))])
    assert set(prune(graph)) == {"a", "b"}


def test_names_are_found_in_whatever_case_in_the_texts_of_others() -> None:
    graph = build_graph(
        [TitledText("image", ("The Eiffel Tower",)), TitledText("text", (), "painting the eiffel tower anew")]
    )
    assert graph.nodes["eiffel tower"]["items"] == {0, 1}
    assert normalise_name("The Eiffel-Tower!") == "eiffel-tower"
    assert normalise_name("?") == ""


@given(st.lists(st.tuples(st.sampled_from(["image", "text", "table"]), st.sets(st.sampled_from("ABCDEF"))), max_size=7))
def test_pruning_keeps_whatever_two_modalities_name(items: list[tuple[str, set[str]]]) -> None:
    graph = build_graph([TitledText(modality, tuple(sorted(names))) for modality, names in items])
    subgraph = prune(graph)
    for node in graph:
        if len(graph.nodes[node]["modalities"]) > 1:
            assert node in subgraph
    assert set(subgraph) <= set(graph)


def test_names_by_rule() -> None:
    texts = [
        "The Eiffel Tower was designed by Gustave Eiffel's company near the Champ de Mars, beside USS Constitution.",
        "Repainting takes months. In Rome it rains; Rome is old. The BMW M4 is fast.",
        "nothing here",
        "",
    ]
    assert SpacyEntities().find(texts) == [
        ("Eiffel Tower", "Gustave Eiffel", "Champ de Mars", "USS Constitution"),
        ("Rome", "BMW M4"),
        (),
        (),
    ]


def test_a_trained_pipeline_is_used_where_it_is_named_and_a_missing_one_says_so(tmp_path: Any) -> None:
    import spacy

    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns(
        [{"label": "GPE", "pattern": "paris"}, {"label": "CARDINAL", "pattern": "seven"}]
    )
    nlp.to_disk(tmp_path / "pipeline")
    assert SpacyEntities(str(tmp_path / "pipeline")).find(["seven days in paris"]) == [("paris",)]
    with pytest.raises(ModelError, match="no_such_pipeline"):
        SpacyEntities("no_such_pipeline").find(["x"])
    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(ModelError, match="finds no entities"):
        SpacyEntities(str(tmp_path / "blank")).find(["x"])


class Axes:
    """Embeds a text by the first word it knows; counts its calls."""

    name = "axes"

    def __init__(self, **axes: tuple[float, float]) -> None:
        self.axes = axes
        self.calls = 0

    def encode(self, texts: Any) -> Any:
        self.calls += 1
        return np.asarray(
            [
                next((self.axes[word] for word in text.lower().split() if word in self.axes), (0.0, 0.0))
                for text in texts
            ]
        )


def settings(**coherence: Any) -> Settings:
    return settings_from({"stages": ["finalise"], "coherence": coherence})


def page(text: str, score: float = 0.5) -> Evidence:
    return Evidence(text, "web", "", retrieval=score)


def texts(dialog_turn: Turn) -> list[str]:
    assert dialog_turn.evidence is not None
    return [chunk.text for chunk in dialog_turn.evidence]


def test_relevant_evidence_that_disagrees_with_the_rest_is_dropped() -> None:
    """Cosines: heart to hand 0.6, to fingers 0.55, to palm 0.5; the other three to each other about 0.99. So c(heart) = 0.55 and
    c(hand) = 0.86, c(fingers) = 0.85, c(palm) = 0.83, although heart is nearest to the question (1, 0)."""
    encoder = Axes(q=(1.0, 0.0), heart=(1.0, 0.0), hand=(0.6, 0.8), fingers=(0.55, 0.835), palm=(0.5, 0.866))
    table = tuple(Evidence(word, "kg", "t", key="k") for word in ("fingers", "palm"))
    dialog_turn = turn("q", None, evidence=(page("heart"), page("hand"), *table))
    run(CoherenceStage, [dialog_turn], context(settings(k=2), text_encoder=encoder))
    assert texts(dialog_turn) == ["hand", "fingers"]


def test_stage_1_keeps_the_best_of_each_modality_and_one_call_serves_the_batch() -> None:
    encoder = Axes(q=(1.0, 0.0), near=(1.0, 0.1), far=(0.0, 1.0), further=(-1.0, 0.0))
    evidence = (
        page("near a"), page("far b"), page("further c"),
        Evidence("far d", "kg", "t", key="k"), Evidence("near e", "kg", "t", key="k"),
    )  # fmt: skip
    batch = [turn("q", None, evidence=evidence), turn("q", None), turn("q", None, evidence=evidence[:1])]
    run(CoherenceStage, batch, context(settings(k=1, second="none"), text_encoder=encoder))
    assert sorted(texts(batch[0])) == ["near a", "near e"]
    assert (texts(batch[1]), texts(batch[2])) == ([], ["near a"])
    assert encoder.calls == 1


def test_nothing_is_cut_before_relevance_however_much_the_graph_says() -> None:
    """Ten entities of twenty attributes, found with higher scores than the pages, leave the pages their places."""
    encoder = Axes(q=(1.0, 0.0), near=(1.0, 0.1), far=(0.0, 1.0))
    entities = [Entity(f"thing {n}", {f"key{row}": f"far {row}" for row in range(20)}) for n in range(10)]
    dialog_turn = turn(
        "q",
        entity=entities[0],
        image_hits=tuple(ImageHit(n, 0.9, str(n), (entity,)) for n, entity in enumerate(entities)),
    )
    dialog_turn.web_hits = tuple(
        WebHit(f"p{n}", 0.2, f"page {n}", f"near {n}", f"https://p.example/{n}") for n in range(10)
    )
    world = context(load_settings("coherence", "embedded"), text_encoder=encoder)
    run_stages([dialog_turn], world, EvidenceStage)
    assert len(dialog_turn.evidence) == 210
    run_stages([dialog_turn], world, CoherenceStage)
    assert sum(chunk.source == "web" for chunk in dialog_turn.evidence) == 5


def test_the_graph_drops_what_no_other_source_names() -> None:
    encoder = Axes(q=(1.0, 0.0))
    dialog_turn = turn("q", None)
    dialog_turn.evidence = (
        Evidence("It stands in Paris near the Seine.", "web", "Eiffel Tower"),
        Evidence("The city of Eiffel Tower is Paris.", "kg", "Eiffel Tower", key="city"),
        Evidence("in a heart shape", "web", "Album covers"),
    )
    run(
        CoherenceStage,
        [dialog_turn],
        context(settings(k=5, second="graph"), text_encoder=encoder, entity_finder=SpacyEntities()),
    )
    assert [chunk.title for chunk in dialog_turn.evidence] == ["Eiffel Tower", "Eiffel Tower"]


def test_a_modality_that_is_short_is_searched_for_again_and_all_turns_together() -> None:
    pages = {f"p{i}": f"tower fact number {i}" for i in range(9)}
    pipeline = ScriptedPipeline({(64, 48): ("Eiffel Tower", {"height": "330 m", "city": "Paris"})}, pages)
    entity = Entity("Eiffel Tower", {"height": "330 m", "city": "Paris"})
    short = turn("tower", entity=entity, image_hits=(ImageHit(0, 0.9, "u", (entity,)),), queries=("tower",))
    short.evidence = (page("tower fact number 0"),)
    full = turn("tower", None, evidence=tuple(page(f"tower x{i}") for i in range(3)), queries=("tower",))
    encoder = Axes(tower=(1.0, 0.0))
    run_settings = settings_from(
        {"stages": ["web_search", "evidence", "coherence", "finalise"], "web_search": {"k": 1}, "coherence": {"k": 3}}
    )
    run(CoherenceStage, [short, full], context(run_settings, pipeline, text_encoder=encoder))
    assert len([query for query in pipeline.queries if isinstance(query, str)]) == 1  # the full turn is not asked for
    notes = short._notes
    assert notes["searched_again"] == 1
    assert notes["pool"] == {"image": 1, "text": 3, "table": 2}
    assert full._notes["searched_again"] == 0
    assert (short.searches, full.searches) == (("image", "web"), ())


def test_a_picture_taken_to_show_something_else_gives_no_image_evidence() -> None:
    hit = ImageHit(0, 0.9, "u", (Entity("Big Ben"),))
    unknown = turn("q", image_hits=(hit,))
    recognised_turn = turn("q", image_hits=(hit,), entity=hit.entities[0])
    run(CoherenceStage, [unknown, recognised_turn], context(settings(), text_encoder=Axes(q=(1.0, 0.0))))
    assert texts(unknown) == []
    assert texts(recognised_turn) == ["This is Big Ben."]


PICTURE = Evidence("This is Big Ben.", "kg", "Big Ben", key=PICTURE_KEY)
ROW = Evidence("The height of Big Ben is 96 m.", "kg", "Big Ben", key="height")
PAGE = Evidence("Big Ben is 320 feet high.", "web", "Big Ben")


class Says:
    """Answers by the evidence that a prompt shows; a mapping of modality to answer, ``fused`` for the second call."""

    def __init__(self, **answers: str) -> None:
        self.answers = answers

    def __call__(self, request: ChatRequest) -> str | ChatReply:
        prompt = request.messages[-1].content
        if "Answers:" in prompt:
            return self.answers["fused"]
        kinds = [kind for kind, chunk in (("image", PICTURE), ("table", ROW), ("text", PAGE)) if chunk.text in prompt]
        assert len(kinds) <= 1  # each modality by itself
        reply_text = self.answers[kinds[0] if kinds else "none"]
        return ChatReply(
            reply_text, "error" if reply_text == "broken" else "stop", (-0.1 if kinds == ["table"] else -0.5,)
        )


def make_turn(*evidence: Evidence) -> Turn:
    return turn("How high is it?", evidence=evidence)


@pytest.mark.parametrize(
    ("answers", "answer", "calls"),
    [
        ({"image": IDK, "table": "96 m", "text": "320 feet", "fused": "96 m or 320 feet"}, "96 m or 320 feet", [3, 1]),
        ({"image": IDK, "table": "96 m", "text": "It is 96 m"}, "96 m", [3, 0]),  # the most trusted of those that agree
        ({"image": IDK, "table": "96 m", "text": "316 feet"}, "96 m", [3, 0]),
        ({"image": IDK, "table": IDK, "text": "320 feet"}, "320 feet", [3, 0]),
        ({"image": IDK, "table": IDK, "text": IDK}, IDK, [3, 0]),
        ({"image": "broken", "table": "96 m", "text": "320 feet", "fused": ""}, "96 m", [3, 1]),
    ],
)
def test_answers_that_differ_are_fused_and_refusals_count_nothing(
    answers: dict[str, str], answer: str, calls: list[int]
) -> None:
    chat = ScriptedChat(Says(**answers))
    dialog_turn = make_turn(PAGE, ROW, PICTURE)
    run(ModalityAnswers, [dialog_turn], context(load_settings("moqagpt", "no overlay"), chat=chat))
    assert dialog_turn.candidate is not None and dialog_turn.candidate.text == answer
    assert [size for size in chat.batches if size] == [size for size in calls if size]
    assert ("modality_answers" in (dialog_turn.error or "")) is ("broken" in answers.values())


def test_one_call_serves_the_batch_and_without_evidence_the_model_answers_alone() -> None:
    chat = ScriptedChat(Says(table="96 m", text="320 feet", none="blue", fused="96 m"))
    batch = [make_turn(PAGE, ROW), make_turn(), make_turn(ROW)]
    run(ModalityAnswers, batch, context(load_settings("moqagpt", "no overlay"), chat=chat))
    assert chat.batches == [4, 1]
    assert [dialog_turn.candidate and dialog_turn.candidate.text for dialog_turn in batch] == ["96 m", "blue", "96 m"]
    assert 'From web pages: "320 feet"\nFrom tables: "96 m"' in chat.requests[-1].messages[-1].content


def test_the_modality_of_a_chunk() -> None:
    named = Evidence("The name of Big Ben is Big Ben.", "kg", "Big Ben", key="name")
    assert [classify_modality(chunk) for chunk in (PICTURE, ROW, PAGE, named)] == ["image", "table", "text", "table"]


def test_rules_of_fusion() -> None:
    assert all_agree([]) and all_agree(["96 m"]) and all_agree(["96 m", "It is 96 m"])
    assert not all_agree(["96 m", "It is 96 m", "97 m"])
    low, high, unknown = Candidate("a", 0.2), Candidate("b", 0.9), Candidate("c", None)
    assert select_most_trusted([unknown, low, high]) is high
    assert select_most_trusted([unknown]) is unknown and select_most_trusted([]) is None
