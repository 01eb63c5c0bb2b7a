"""CRAG-MM-Diagnostics, as files in the layout that its authors' code reads: asked in every form, and stages measured by it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
import pytest
from PIL import Image, ImageDraw

import local_evaluation
from agents.base_agent import BaseAgent
from agents.crag_agent import CragAgent
from agents.record import BoxFound, EvidenceFound, PictureFound, StageRecord, TurnRecord
from agents.search.pipelines import open_pipeline
from agents.search.provided_context import parse_provided
from agents.settings.run_config import RunConfig
from evaluation.data.diagnostics import FORMS, Annotation, is_same_name, load_diagnostics
from evaluation.files.manifest import read_manifest
from evaluation.files.outputs import write_outputs
from evaluation.files.responses import read_responses
from evaluation.records import EvaluationError, JudgedTurn
from evaluation.run.options import parse
from evaluation.run.provided_evidence import look_up_gold_entries
from evaluation.studies import stage_truth
from evaluation.studies.stage_truth import compare_turn, iou, is_named, sum_up
from tests.evaluation.worlds import judged, run_command, stay_offline, write_records
from tests.search.conftest import IMAGE_ID, write_sources

BOX = [480, 320, 1440, 1920]  # of a photo of 1920 x 2560: a quarter, an eighth, three quarters and three quarters
RED, GREY = (220, 20, 20), (90, 90, 90)


def photo() -> Image.Image:
    """Draw a grey photo with a red field in the box."""
    image = Image.new("RGB", (1920, 2560), GREY)
    ImageDraw.Draw(image).rectangle([BOX[0], BOX[1], BOX[2] - 1, BOX[3] - 1], fill=RED)
    return image


def question(name: str, entity: str = "Red Tower", **metadata: Any) -> dict[str, Any]:
    return {
        "id": name,
        "image": photo(),
        "question": "How tall is this?",
        "answer": "It is 300 metres tall.",
        "metadata": {
            "image_size": [1920, 2560],
            "target_roi_bbox": BOX,
            "target_object_name": entity,
            "textual_only_question": f"How tall is the {entity}?",
            "referring_expression_category": "pronoun",
            "disambiguated_question": None,
            **metadata,
        },
    }


def save(folder: Path, *rows: dict[str, Any], split: str = "test") -> Path:
    """Write the rows as a clone of a hub's data set has them."""
    (folder / "data").mkdir(parents=True, exist_ok=True)
    table = datasets.Dataset.from_list(list(rows)).cast_column("image", datasets.Image())
    table.to_parquet(str(folder / "data" / f"{split}-00000-of-00001.parquet"))
    return folder


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    ambiguous = {
        "referring_expression_category": "not enough cue (ambiguous)",
        "disambiguated_question": "How tall is the red one?",
    }
    return save(tmp_path_factory.mktemp("diagnostics"), question("q0"), question("q1", "Nothing Known", **ambiguous))


class Listening(BaseAgent):
    """Agent that remembers its questions."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: dict[str, tuple[Any, Image.Image | None]] = {}
        self.more: dict[str, Any] = {}

    def get_batch_size(self) -> int:
        return 4

    def batch_generate_response(self, queries: Sequence[str], images: Any, _: Any, **more: Any) -> list[str]:
        self.asked |= dict(zip(queries, images, strict=True))
        self.more = more
        return ["It is 300 metres tall."] * len(queries)


@pytest.fixture
def ask(copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, Listening, Path]]:
    """Run local_evaluation.py over the copy; ``pipeline`` is what the profile's indices are opened as."""
    stay_offline(monkeypatch)

    def run(*arguments: str, pipeline: Any = None) -> tuple[int, Listening, Path]:
        agent, out = Listening(), tmp_path / "out"
        monkeypatch.setattr(RunConfig, "pipeline", lambda *_, **__: pipeline)
        monkeypatch.setattr(RunConfig, "unreachable", lambda *_, **__: None)
        monkeypatch.setattr(CragAgent, "from_config", lambda *_, **__: agent)
        places = ["--dataset", str(copy), "--cache", str(tmp_path / "cache"), "--output-dir", str(out), "--no_progress"]
        return local_evaluation.main([*places, "--eval-model", "rule", *arguments]), agent, out

    return run


@pytest.mark.parametrize(
    ("form", "questions", "size", "colour"),
    [
        ("original", ["How tall is this?"], (960, 1280), GREY),
        ("disambiguated", ["How tall is this?", "How tall is the red one?"], (960, 1280), GREY),
        ("cropped", ["How tall is this?"], (768, 1280), RED),  # 960 x 1600 pixels, shrunk to fit
        ("named", ["How tall is the Red Tower?", "How tall is the Nothing Known?"], (960, 1280), GREY),
        ("text-only", ["How tall is the Red Tower?", "How tall is the Nothing Known?"], None, None),
    ],
)
def test_each_form_asks_its_question_about_its_photo(
    ask: Callable[..., tuple[int, Listening, Path]], form: str, questions: list[str], size: Any, colour: Any
) -> None:
    status, agent, out = ask("--diagnostics", form)
    assert status == 0
    assert list(agent.asked) == questions
    for image in agent.asked.values():
        assert (image is None) == (size is None)
        if image is not None:
            assert image.size == size and image.convert("RGB").getpixel((3, 3)) == pytest.approx(colour, abs=3)
    answers = read_responses(out / "response.jsonl")
    assert [(turn.interaction_id, turn.query_category) for turn in answers] == [
        ("q0", "pronoun"),
        ("q1", "not enough cue (ambiguous)"),
    ]
    assert read_manifest(out)["dataset"] == f"crag-mm-diagnostics-{form}@local/test"
    assert len(FORMS) == 5


def test_the_true_entity_is_handed_in_alone_and_from_a_real_graph(
    ask: Callable[..., tuple[int, Listening, Path]], tmp_path: Path
) -> None:
    sources = write_sources(tmp_path / "sources")
    assert sources.build() == 0
    pipeline = open_pipeline(image_index=IMAGE_ID, cache=sources.cache)
    arguments = "--diagnostics original --calls research-release --gold-entity --preset core_mmrag_oracle"
    status, agent, out = ask(*arguments.split(), pipeline=pipeline)
    assert status == 0 and read_manifest(out)["gold_entity"] is True
    first, second = map(parse_provided, agent.more["rag_context_list"])
    assert [hit.entities[0].name for hit in first.pictures] == ["Red Tower"] and not first.pages
    assert first.pictures[0].entities[0].attributes["height"] == "{{convert|300|m}}"
    assert agent.more["rag_context_list"][1] == "" and not second.pictures  # the index knows nothing of it


def test_names_that_the_graph_spells_otherwise_are_found(caplog: pytest.LogCaptureFixture) -> None:
    graph = {"Nissan GT-R": {"doors": "2"}, "Toyota Prius": {}}
    entries = look_up_gold_entries({"a": "nissan GTR", "b": "Toyota Prius", "c": "Honda Civic"}, graph)
    assert {key: entry["entity_name"] for key, entry in entries.items()} == {"a": "Nissan GT-R", "b": "Toyota Prius"}
    assert "1 of 3 questions" in caplog.text
    assert is_same_name("Red Tower", "red tower") and not is_same_name("Red Tower", "Red Lake")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--diagnostics", "original", "--dataset-type", "both"], "leave --dataset-type out"),
        (["--gold-entity", "--calls", "research-release"], "--gold-entity goes with --diagnostics"),
        (["--gold-entity", "--diagnostics", "original"], "--gold-entity goes with"),
    ],
)
def test_options_that_do_not_go_together_are_told(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse(arguments)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda row: row["metadata"].pop("target_roi_bbox"), "metadata has no 'target_roi_bbox'"),
        (lambda row: row["metadata"].update(target_roi_bbox=[9, 9, 4, 20]), "is no region of 1920 x 2560"),
        (lambda row: row["metadata"].update(image_size=[0, 0]), "is no region"),
        (lambda row: row.pop("answer"), "has no column answer"),
    ],
)
def test_a_malformed_row_is_told(tmp_path: Path, spoil: Callable[[dict[str, Any]], object], message: str) -> None:
    row = question("q7")
    spoil(row)
    with pytest.raises(EvaluationError, match=message):
        load_diagnostics("original", "public_test", save(tmp_path, row), tmp_path / "cache")


def test_what_cannot_be_loaded_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="no parquet files of split validation or test"):
        load_diagnostics("original", "validation", tmp_path)
    with pytest.raises(EvaluationError, match="give --split public_test"):
        load_diagnostics("original", "validation")


@pytest.mark.parametrize(
    ("one", "other", "share"),
    [
        ((0.0, 0.0, 0.5, 1.0), (0.0, 0.0, 0.5, 1.0), 1.0),
        ((0.0, 0.0, 0.5, 1.0), (0.25, 0.0, 0.75, 1.0), 1 / 3),
        ((0.0, 0.0, 0.2, 0.2), (0.5, 0.5, 1.0, 1.0), 0.0),
        ((0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0), 0.0),
    ],
)
def test_intersection_over_union_by_hand(one: Any, other: Any, share: float) -> None:
    assert iou(one, other) == pytest.approx(share)


def test_a_name_is_found_as_words_in_a_row() -> None:
    assert is_named("Red Tower", "When were the red towers built?")
    assert not is_named("Red Tower", "A red brick tower") and not is_named("", "anything")


KNOWN = Annotation("Red Tower", (0.25, 0.125, 0.75, 0.75), "pronoun", "", "")
RIGHT_BOX = BoxFound(240, 160, 720, 960)  # of 960 x 1280
WRONG_BOX = BoxFound(0, 0, 100, 100)


def record(
    turn: JudgedTurn, *, boxes: Any = (), pictures: Any = (), entity: str | None = None, evidence: str = ""
) -> TurnRecord:
    stages = (
        StageRecord("ground", boxes=tuple(boxes)),
        StageRecord("image_search", pictures=tuple(PictureFound(name, 0.9) for name in pictures)),
        StageRecord("select_entity", entity=entity),
        StageRecord("web_search", queries=(f"{entity} height",) if entity else ("height",)),
        StageRecord("evidence", evidence=(EvidenceFound(evidence),) if evidence else ()),
    )
    return TurnRecord(stages=stages, session_id=turn.turn.session_id, interaction_id=turn.turn.interaction_id)


def test_the_first_stage_that_fails_is_named() -> None:
    right, missed, wrong = (judged(verdict)[0] for verdict in "cmh")
    lake, tower = ["Blue Lake"], ["Blue Lake", "Red Tower, Green Hill"]
    cases: list[tuple[JudgedTurn, dict[str, Any], str | None, int | None]] = [
        (wrong, {"pictures": lake, "entity": "Blue Lake"}, "not pictured", None),
        (wrong, {"pictures": tower, "entity": "Blue Lake"}, "not recognised", 2),
        (wrong, {"pictures": tower, "entity": "red tower", "evidence": "The lake is deep."}, "not found", 2),
        (missed, {"pictures": tower, "entity": "Red Tower", "evidence": "The Red Tower is old."}, "withheld", 2),
        (wrong, {"pictures": tower, "entity": "Red Tower", "evidence": "The Red Tower is old."}, "wrong", 2),
        (right, {"pictures": lake}, None, None),
        (wrong, {"entity": "Red Tower"}, "not found", None),  # a model that sees may name it unsearched
        (replace(missed, turn=replace(missed.turn, error_cause="busy")), {"pictures": lake}, "error", None),
        (replace(wrong, judge_failed=True), {"pictures": tower, "entity": "Blue Lake"}, "unjudged", 2),
    ]
    for turn, fields, failure, rank in cases:
        truth = compare_turn(turn, record(turn, **fields), KNOWN, None)
        assert (truth.failure, truth.rank) == (failure, rank), fields
        assert truth.first_box is None


def test_boxes_are_compared_as_shares_and_none_is_the_whole_photo() -> None:
    turn = judged("h")[0]
    both = compare_turn(turn, record(turn, boxes=[WRONG_BOX, RIGHT_BOX]), KNOWN, (960, 1280))
    none = compare_turn(turn, record(turn), KNOWN, (960, 1280))
    assert both.first_box == pytest.approx(0.0) and both.best_box == pytest.approx(1.0)
    assert none.first_box == none.best_box == pytest.approx(0.5 * 0.625)
    summary = sum_up([both, none, replace(none, first_box=None, best_box=None)])
    assert (summary["boxes_compared"], summary["first_box"], summary["any_box"]) == (2, 0.0, 0.5)


def run_folder(place: Path, form: str, verdicts: str, records: Callable[[JudgedTurn], TurnRecord] | None) -> Path:
    """A finished run over q0 and q1, with the verdicts of a person."""
    turns = [
        replace(
            turn,
            turn=replace(turn.turn, session_id=name, interaction_id=name, agent_response="said", total_turn_count=1),
        )
        for name, verdict in zip(("q0", "q1"), verdicts, strict=True)
        for turn in judged(verdict)
    ]
    write_outputs(place, turns, {"judge": "a person"})
    (place / "response.jsonl").write_text("".join(json.dumps(turn.turn.to_dict()) + "\n" for turn in turns))
    (place / "run.json").write_text(json.dumps({"dataset": f"{form}@local/test"}))
    if records is not None:
        write_records(place / "trace.jsonl", map(records, turns))
    return place


def call(tmp_path: Path, *arguments: str | Path) -> tuple[int, str]:
    more = ["--no-progress", "--cache", tmp_path / "cache", "--out", tmp_path / "study"]
    return run_command(stage_truth.main, *arguments, *more)


def test_runs_in_two_forms_are_laid_side_by_side(copy: Path, tmp_path: Path) -> None:
    original = run_folder(
        tmp_path / "original", "crag-mm-diagnostics-original", "ch",
        lambda turn: record(turn, boxes=[RIGHT_BOX], pictures=["Red Tower"], entity="Red Tower", evidence="Red Tower: 300 m"),
    )  # fmt: skip
    named = run_folder(tmp_path / "named", "crag-mm-diagnostics-named", "cc", None)
    status, output = call(tmp_path, original, named, "--dataset", copy)
    assert status == 0 and "First stage that fails" in output and "judged by a person" in output
    entries = {
        entry["label"]: entry for entry in json.loads((tmp_path / "study" / "stage_truth.json").read_text())["entries"]
    }
    assert (entries["original"]["form"], entries["original"]["accuracy"], entries["named"]["accuracy"]) == (
        "original",
        0.5,
        1.0,
    )
    stages = entries["original"]["stages"]
    assert stages["first_box"] == 1.0 and stages["search_at_5"] == stages["entity"] == stages["query"] == 0.5
    assert stages["accuracy_if_entity"] == 1.0 and stages["accuracy_if_not"] == 0.0
    assert stages["failures"] == dict.fromkeys(stage_truth._FAILURES, 0) | {"not pictured": 1}
    assert entries["named"]["stages"] is None


def test_other_data_and_other_answers_are_refused(copy: Path, tmp_path: Path) -> None:
    other = run_folder(tmp_path / "other", "crag-mm-single-turn-public", "cc", None)
    status, output = call(tmp_path, other, "--dataset", copy)
    assert status == 2 and "run it with --diagnostics" in output
    foreign = tmp_path / "foreign.jsonl"
    foreign.write_text(json.dumps(judged("c")[0].turn.to_dict()) + "\n")
    status, output = call(tmp_path, foreign, "--dataset", copy)
    assert status == 2 and "answers no question of this data set" in output
