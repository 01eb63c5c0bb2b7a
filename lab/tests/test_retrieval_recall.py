"""The measures of retrieval by hand, and the table over a recorded run."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from agents.record import EvidenceFound, PictureFound, StageRecord, TurnRecord
from lab.benchmarks.rankings import ndcg_at, recall_at
from lab.benchmarks.retrieval_recall import Truth, Truths, compute_recall, main
from mini_crag_mm.content_models import load_content
from mini_crag_mm.loader import SET
from tests.evaluation.worlds import picture, row, write_dataset, write_records

YAK = "https://images.mini-crag-mm.example/ani_yak.webp"


def test_recall_and_gain_by_hand() -> None:
    """Of a and b the second and fourth are found: 1/log2(3) + 1/log2(5), of at best 1 + 1/log2(3)."""
    ranking = ["x", "a", "x", "y", "b"]
    assert [recall_at(k, ranking, {"a", "b"}) for k in (1, 2, 3, 4)] == [0.0, 0.5, 0.5, 1.0]
    assert ndcg_at(10, ranking, {"a", "b"}) == pytest.approx(
        (1 / math.log2(3) + 1 / math.log2(5)) / (1 + 1 / math.log2(3))
    )
    assert ndcg_at(1, ranking, {"a", "b"}) == 0.0
    assert ndcg_at(10, ["a", "b"], {"a", "b"}) == 1.0


@pytest.fixture(scope="module")
def truths() -> Truths:
    return Truths(load_content(SET.content), "validation")


@pytest.mark.parametrize(
    ("entity", "source", "pages", "documents"),
    [
        ("ani_giraffe", "kg", [], ["images.mini-crag-mm.example/ani_giraffe.webp"]),
        ("ani_giraffe", "web", ["wiki:Abraham Lincoln"], ["en.wikipedia.org/wiki/Abraham_Lincoln"]),
        ("ani_giraffe", "image", [], []),
        (None, "web", ["wiki:Abraham Lincoln"], ["en.wikipedia.org/wiki/Abraham_Lincoln"]),
    ],
)
def test_what_answers_is_named_by_its_address(
    truths: Truths, entity: str | None, source: str, pages: list[str], documents: list[str]
) -> None:
    truth = truths.get({"entity": entity, "source": source, "pages": pages})
    assert truth.documents == {f"https://{address}" for address in documents}
    assert (truth.entry is not None, truth.name) == (entity is not None, "Giraffe" if entity else None)


def record(*stages: StageRecord) -> TurnRecord:
    return TurnRecord("q", "q", "a", stages, session_id="s", interaction_id="i")


def test_turns_without_truth_are_left_out_and_a_ranking_wins_over_kept_chunks() -> None:
    pictures = tuple(PictureFound(name, 0.5, name) for name in ("elk", YAK))
    search_record = StageRecord("image_search", pictures=pictures, entity="Elk")
    documents_record = StageRecord(
        "documents", evidence=(EvidenceFound("t", url="page"),), notes={"ranking": ["other", YAK, "page"]}
    )
    entry = Truth(YAK, "Yak", frozenset({"page"}))
    rates = compute_recall(
        [(record(search_record, documents_record), entry), (record(search_record), Truth(None, None, frozenset()))]
    )
    assert [rates[f"entry R@{k}"] for k in (1, 2, 5)] == [0.0, 1.0, 1.0]
    assert (rates["settled"], rates["NDCG@10"], rates["R@5"]) == (0.0, 0.5, 1.0)
    [(_, bare)] = [(record(documents_record), entry)]
    assert compute_recall([(record(StageRecord("rerank", evidence=documents_record.evidence)), bare)])["NDCG@10"] == 1.0
    assert set(compute_recall([]).values()) == {None}
    assert compute_recall([(record(search_record), entry)])["R@100"] is None  # a run without documents


def write_run(cache: Path, query: str = "q", session: str = "s") -> Path:
    """Write a run that found the giraffe, and a set that asks one question in each split."""
    facts = {"split": "validation", "entity": "ani_giraffe", "source": "kg", "pages": []}
    for split, name in (("validation", session), ("public_test", "other")):
        rows = [row(name, 1, "v0.1.2", picture(), None)]
        rows[0]["turns"][0] |= {"interaction_id": "i", "query": query}
        rows[0]["answers"][0]["interaction_id"] = "i"
        write_dataset(cache / "datasets", rows, "v0.1.2", split, "crag-mm-single-turn-public")
    (cache / "datasets" / "content_ids.json").write_text(json.dumps({"i": facts}), encoding="utf-8")
    run = cache / "run"
    run.mkdir()
    photo = PictureFound("Giraffe", 0.5, "https://images.mini-crag-mm.example/ani_giraffe.webp")
    write_records(run / "trace.jsonl", [record(StageRecord("image_search", pictures=(photo,), entity="Giraffe"))])
    return run


@pytest.mark.parametrize(
    ("query", "session"), [("who?", "s"), ("q", "another")], ids=["another question", "another split"]
)
def test_a_run_with_other_questions_is_refused(tmp_path: Path, capsys: Any, query: str, session: str) -> None:
    """Keep the id of a question that is reworded, as the set does."""
    assert main(["--runs", str(write_run(tmp_path, query, session)), "--cache", str(tmp_path)]) == 2
    assert "answers no question of validation as it is now" in capsys.readouterr().err


def test_the_table_of_a_run(tmp_path: Path, capsys: Any) -> None:
    run = write_run(tmp_path)
    assert main(["--runs", str(run), "--cache", str(tmp_path)]) == 0
    assert "100.0" in capsys.readouterr().out
    (run / "trace.jsonl").write_text("broken\n", encoding="utf-8")
    assert main(["--runs", str(run), "--cache", str(tmp_path)]) == 2
