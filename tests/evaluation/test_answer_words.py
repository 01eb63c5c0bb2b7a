"""Metrics over words: by numbers computed by hand, against transformers' copy of SQuAD's script, and printed for saved answers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from evaluation.files.outputs import write_outputs
from evaluation.records import TurnFacts
from evaluation.scores.answer_words import exact_match, overlap, squad_words, vqa, word_f1
from evaluation.scores.metrics import METRICS
from evaluation.studies import answer_metrics
from evaluation.studies.answer_metrics import average_by_modality, is_single_modality, measure
from tests.evaluation.worlds import judged, picture, row, write_dataset


@pytest.mark.parametrize(
    ("answer", "truth", "share"),
    [
        (
            "It weighs 540 kilograms",
            "A wild yak can weigh up to 540 kilograms.",
            3 / 6,
        ),  # of wild, yak, weigh, up, 540, kilogram
        ("A wild yak can weigh up to 540 kilograms, or more", "A wild yak can weigh up to 540 kilograms.", 1.0),
        ("I don't know", "Paris", 0.0),
        ("", "Paris", 0.0),
        ("paris!", "Paris, Paris", 1.0),  # a word counts once
        ("It is.", "It is", 1.0),  # stopwords alone: compared as they stand
    ],
)
def test_overlap_is_the_share_of_the_truths_content_words(answer: str, truth: str, share: float) -> None:
    assert overlap(answer, truth) == pytest.approx(share)


def test_overlap_of_a_run_is_a_mean_over_turns() -> None:
    answers = ("the truth", "I don't know")
    turns = [
        replace(turn, turn=replace(turn.turn, agent_response=answer))
        for turn, answer in zip(judged("cm"), answers, strict=True)
    ]
    assert METRICS["overlap"].average(turns) == 0.5
    assert METRICS["overlap"].average([]) == 0.0


@pytest.mark.parametrize(
    ("answer", "references", "em", "f1"),
    [
        ("The Eiffel Tower!", ["eiffel tower"], 1.0, 1.0),
        ("It is the Eiffel Tower", ["Eiffel Tower"], 0.0, 2 * 2 / (4 + 2)),  # it is eiffel tower
        ("Paris, Paris", ["Paris"], 0.0, 2 * 1 / (2 + 1)),  # a word that stands once is shared once
        ("330 m", ["the height is 330 m", "330 m."], 1.0, 1.0),  # the nearest reference
        ("", ["Paris"], 0.0, 0.0),
        ("the", ["a"], 1.0, 1.0),  # nothing left of either
        ("Lyon", [], 0.0, 0.0),
    ],
)
def test_exact_match_and_f1_by_hand(answer: str, references: list[str], em: float, f1: float) -> None:
    assert exact_match(answer, references) == em
    assert word_f1(answer, references) == pytest.approx(f1)


_TEXTS = st.lists(
    st.sampled_from(["The", "an", "tower", "Tower,", "330", "m.", "it's", "Paris", "-", "well-known"]), max_size=6
).map(" ".join)


@pytest.fixture(scope="module")
def squad() -> Any:
    return pytest.importorskip("transformers.data.metrics.squad_metrics")


@given(answer=_TEXTS, reference=_TEXTS)
def test_both_are_those_of_another_implementation(squad: Any, answer: str, reference: str) -> None:
    assert squad_words(answer) == squad.normalize_answer(answer).split()
    assert exact_match(answer, [reference]) == squad.compute_exact(reference, answer)
    assert word_f1(answer, [reference]) == pytest.approx(squad.compute_f1(reference, answer))


@pytest.mark.parametrize(
    ("answer", "reference", "right"),
    [
        ("The Eiffel Tower.", "Eiffel tower", True),
        ("two", "2", True),
        ("Eiffel", "Eiffel Tower", False),
        ("340", "330", True),  # 3% off
        ("350", "330", False),  # 6% off
        ("It is 330 metres high.", "330 m", True),
        ("1,083 feet", "330 metres", True),
        ("1890", "1889", False),  # years are exact
        ("1889", "1889", True),
        ("between 300 and 340", "330", False),  # two numbers are no answer
        ("345 steps", "Its staircase has 345 steps.", False),  # the truth is more than a number
    ],
)
def test_vqa_is_exact_but_for_numbers(answer: str, reference: str, right: bool) -> None:
    assert vqa(answer, [reference]) == right


@pytest.mark.parametrize(
    ("source", "single"),
    [("kg", True), ("web", True), ("image", True), ("both", False), ("nowhere", None), (None, None)],
)
def test_modalities_by_where_the_answer_is_found(source: str | None, single: bool | None) -> None:
    assert is_single_modality(TurnFacts(source=source)) is single


def test_means_by_modality() -> None:
    turns = [
        replace(
            turn,
            turn=replace(turn.turn, agent_response=response, ground_truth="red tower"),
            facts=TurnFacts(source=source),
        )
        for turn, response, source in zip(
            judged("chmh"),
            ["red tower", "tower", "I don't know", "red"],
            ["kg", "both", "both", "nowhere"],
            strict=True,
        )
    ]
    means = average_by_modality([measure(turn, ["red"] if turn is turns[3] else []) for turn in turns])
    assert [means[name]["turns"] for name in ("single", "multi", "overall")] == [1, 2, 4]
    assert means["single"]["em"] == 1.0 and means["single"]["f1"] == 1.0
    assert means["multi"]["em"] == 0.0 and means["multi"]["f1"] == pytest.approx((2 / 3 + 0) / 2)
    assert means["overall"]["em"] == pytest.approx(2 / 4)  # the accept form makes the last one right
    assert means["overall"]["overlap"] == pytest.approx((1 + 0.5 + 0 + 0.5) / 4)  # against the ground truth alone
    assert average_by_modality([])["single"]["f1"] is None


def _run(tmp_path: Path, *arguments: str) -> tuple[int, str, Any]:
    with (tmp_path / "said.txt").open("w+") as file:
        out, cache = ["--out", str(tmp_path / "out")], ["--no-progress", "--cache", str(tmp_path / "cache")]
        status = answer_metrics.main([*arguments, *out, *cache], Console(file=file, width=160))
        file.seek(0)
        output = file.read()
    path = tmp_path / "out" / "answer_metrics.json"
    return status, output, json.loads(path.read_text()) if path.is_file() else None


def test_answers_that_the_judge_failed_on_are_told_beside_the_metrics(tmp_path: Path) -> None:
    run = tmp_path / "run"
    turns = [replace(turn, judge_failed=not turn.correct) for turn in judged("chh")]
    write_outputs(run, turns, {"judge": "a person"})
    (run / "response.jsonl").write_text("".join(json.dumps(turn.turn.to_dict()) + "\n" for turn in turns))
    status, output, metrics = _run(tmp_path, str(run))
    assert status == 0 and metrics["entries"][0]["not_judged"] == 2
    assert "the judge gave no usable reply and which count as wrong in accuracy: run 2" in output


def test_a_run_is_measured_with_the_verdicts_facts_and_short_answers_that_it_has(tmp_path: Path) -> None:
    run = tmp_path / "run"
    turns = [
        replace(
            turn,
            turn=replace(turn.turn, query=f"What is number {number}?", ground_truth=truth, agent_response="short"),
            facts=TurnFacts(source="kg"),
        )
        for number, (turn, truth) in enumerate(zip(judged("ch"), ("Number 0.", "another truth"), strict=True))
    ]
    write_outputs(run, turns, {"judge": "a person"})
    (run / "response.jsonl").write_text("".join(json.dumps(turn.turn.to_dict()) + "\n" for turn in turns))
    status, output, metrics = _run(tmp_path, str(run))
    assert status == 0 and "judged by a person" in output and "F1 and EM by modality" in output
    (entry,) = metrics["entries"]
    assert entry["accuracy"] == 0.5 and entry["overall"]["em"] == 0.0 and entry["single"]["turns"] == 2

    data = write_dataset(tmp_path / "data", [row("s", 2, "v0.1.2", picture(), None)], "v0.1.2")
    forms = {turn.turn.interaction_id: ["short"] for turn in turns}  # those of the second are of another truth
    (data / "accept.json").write_text(json.dumps(forms))
    _, _, metrics = _run(tmp_path, str(run), "--dataset", str(data))
    assert metrics["entries"][0]["overall"]["em"] == 0.5


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    status, output, _ = _run(tmp_path, str(tmp_path / "nothing"))
    assert status == 2 and "error:" in output and "nothing" in output
