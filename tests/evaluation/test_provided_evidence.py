"""What the evaluation passes with a call when it takes the place of the research release's evaluator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from agents.base_agent import BaseAgent
from agents.search.provided_context import parse_provided
from evaluation.data.dataset_images import LoadedImage
from evaluation.records import EvaluationError, QuestionTurn, Session
from evaluation.run.generate import generate
from evaluation.run.options import parse
from evaluation.run.provided_evidence import ProvidedEvidence, format_evidence, read_full_queries
from tests.evaluation.worlds import PLAIN

Hit = dict[str, Any]
WORDS = st.text("abc d", min_size=1, max_size=12).map(str.strip).filter(bool)


def picture(name: str, score: float, **attributes: Any) -> Hit:
    return {"index": 0, "score": score, "url": "", "entities": [{"entity_name": name, "entity_attributes": attributes}]}


def page(title: str, snippet: str) -> Hit:
    return {"index": "u_chunk_0", "score": 0.5, "page_name": title, "page_snippet": snippet, "page_url": "u"}


def test_what_is_alike_enough_is_listed_once_best_first() -> None:
    pictures = [picture("Lion", 0.9, diet="meat"), picture("Lion", 0.8), picture("Tiger", 0.76), picture("Cat", 0.75)]
    evidence = parse_provided(
        format_evidence("What?", pictures, [page("Lions", "They sleep."), page("Tigers", "They swim.")])
    )
    assert [hit.entities[0].name for hit in evidence.pictures] == ["Lion", "Tiger"]
    assert evidence.pictures[0].entities[0].attributes == {"diet": "meat"}
    assert [(hit.page_name, hit.page_snippet) for hit in evidence.pages] == [
        ("Lions", "They sleep."),
        ("Tigers", "They swim."),
    ]


@given(st.lists(st.tuples(WORDS, WORDS), max_size=6))
def test_the_agent_reads_the_pages_that_were_written(pages: list[tuple[str, str]]) -> None:
    evidence = parse_provided(format_evidence("What?", [], [page(title, text) for title, text in pages]))
    assert [(hit.page_name, hit.page_snippet) for hit in evidence.pages] == pages


def test_no_more_is_passed_than_the_release_passes() -> None:
    pictures = [picture(f"Thing {number}", 0.9, text="x" * 3000) for number in range(30)]
    evidence = parse_provided(format_evidence("What?", pictures, [page("Page", "y" * 15_000)] * 5))
    assert len(evidence.pictures) == 30  # the names of all
    assert sum(bool(hit.entities[0].attributes) for hit in evidence.pictures) == 2  # of 8,000 characters
    assert len(evidence.pages) == 2  # of 32,000


class Listening(BaseAgent):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[dict[str, Any]] = []

    def get_batch_size(self) -> int:
        return 2

    def batch_generate_response(self, queries: Sequence[str], *rest: Any, **more: Any) -> list[str]:
        self.calls.append(more)
        return ["I don't know"] * len(queries)


class Photo:
    def image(self, session: Session) -> LoadedImage:
        return LoadedImage(None if session.session_id == "s1" else Image.new("RGB", (8, 8)))


def search(query: Any, k: int) -> list[Hit]:
    return [page("Answer", query)][:k] if isinstance(query, str) else [picture("Lion", 0.8)][:k]


@pytest.mark.parametrize(
    ("evidence", "first", "second"),
    [
        (ProvidedEvidence(search), (1, 1), (0, 1)),
        (ProvidedEvidence(search, web=False), (1, 0), (0, 0)),
        (ProvidedEvidence(search, images=False), (0, 1), (0, 1)),
    ],
)
def test_each_turn_gets_what_was_found_for_it(
    tmp_path: Path, evidence: ProvidedEvidence, first: tuple[int, int], second: tuple[int, int]
) -> None:
    agent = Listening()
    sessions = [Session(f"s{n}", (QuestionTurn(f"i{n}", 0, f"question {n}?", "", domain="pets"),)) for n in range(2)]
    generate(agent, sessions, Photo(), PLAIN, tmp_path, progress=False, evidence=evidence)
    (call,) = agent.calls
    evidence_by_turn = [parse_provided(text) for text in call["rag_context_list"]]
    assert [(len(each.pictures), len(each.pages)) for each in evidence_by_turn] == [first, second]
    assert [hit.page_snippet for each in evidence_by_turn for hit in each.pages] == (
        ["question 0?", "question 1?"] if first[1] else []
    )
    assert call["domains"] == ["pets", "pets"]


def test_without_any_search_the_text_is_empty_as_in_the_release() -> None:
    nothing = ProvidedEvidence(None).arguments([QuestionTurn("i", 0, "What?", "", domain="pets")], [None])
    assert nothing == {"rag_context_list": [""], "domains": ["pets"]}


def test_the_web_is_searched_by_the_full_query_where_there_is_one(tmp_path: Path) -> None:
    path = tmp_path / "queries.jsonl"
    path.write_text('{"interaction_id": "i0", "agent_response": "How tall is the Eiffel Tower?"}\n')
    evidence = ProvidedEvidence(search, full_queries=read_full_queries(path))
    turns = [QuestionTurn(f"i{number}", 0, "How tall is this?", "") for number in range(2)]
    evidence_by_turn = [parse_provided(text) for text in evidence.arguments(turns, [None, None])["rag_context_list"]]
    assert [hit.page_snippet for each in evidence_by_turn for hit in each.pages] == [
        "How tall is the Eiffel Tower?",
        "How tall is this?",
    ]
    path.write_text('{"query": "a"}\n')
    with pytest.raises(EvaluationError, match="has no line"):
        read_full_queries(path)


def test_replicas_search_for_themselves(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--calls", "research-release", "--replicas", "2"])
    assert "--calls research-release takes one agent" in capsys.readouterr().err
