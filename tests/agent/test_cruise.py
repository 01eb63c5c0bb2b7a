"""CRUISE: its formulas, the whole truth table of Algorithm 1, and its preset with a scripted model.

The table is written out from the printed lines; what they leave open has tests of its own.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.asking.readers.verdicts import parse_chain
from agents.models.base import ChatRequest
from agents.papers.cruise import (
    Branch,
    Consistency,
    DualAnswer,
    VerificationChain,
    compute_mad_threshold,
    final_branch,
    stands,
)
from agents.settings.presets import Settings, load_settings
from agents.stages.finalise import Finalise
from agents.stages.rerank import Rerank
from agents.turn import IDK, Candidate, Evidence, SubFinding, Turn
from tests.agent.scripted import ScriptedChat, ScriptedPipeline, ScriptedReranker, context, run, run_stages, turn

PAGES = {
    "Eiffel": "the tower is 330 m high\n\nit is repainted every seven years",
    "Price": "the ticket price for the tower is 36 euros",
}
TOWER = {"image_caption": "The tower seen from the river", "height": "330 m"}


@dataclass
class Case:
    """What the scripted models say of one question."""

    external: str = "yes"
    current: str = "no"
    with_evidence: str = "330 m"
    without: str = "330 metres"
    judge: str = "yes"
    chain: str = "CONFIDENCE: 0.9\nREASONING: It says so.\nSUB-QUESTIONS: Q1: how high, Finding: Supported"
    answer: str = "330 m"
    branch: str | None = "grounded"


CASES: dict[str, Case] = {
    "How high is the tower?": Case(),
    "How tall is the tower?": Case(judge="No.", answer=IDK, branch="inconsistent"),
    "What height is the tower?": Case(chain="CONFIDENCE: 0.7\nREASONING: not sure", answer=IDK, branch="unsure"),
    "How lofty is the tower?": Case(chain="I would say it is fine.", answer=IDK, branch="unsure"),
    "How high is the tower today?": Case(current="yes"),
    "What does soup cost now?": Case(current="yes", answer=IDK, branch="stale"),
    "What colour is it?": Case(external="no", without="blue", chain="CONFIDENCE: 1.0", answer="blue", branch="prior"),
    "What shade is it?": Case(external="no", without="blue", chain="CONFIDENCE: 0.95", answer=IDK, branch="unsure"),
    "Is it a tower?": Case(with_evidence=IDK, answer=IDK, branch=None),
    "Was the tower cut?": Case(chain="CONFIDENCE: 0.95\nREASONING: The answ"),
}


def say(request: ChatRequest) -> str:
    system, user = request.messages[0].content, request.messages[-1].content
    case = next(case for question, case in CASES.items() if question in user)
    if "sort questions" in system:
        return f"External: {case.external}\nCurrent: {case.current}"
    if "what matters in a photo" in system:
        return "A tower beside a river."
    if "compare two answers" in system:
        return case.judge
    if "check answers" in system:
        return case.chain
    return case.with_evidence if "[Info 1]" in user else case.without


def rank_towers() -> ScriptedReranker:
    """0.9 for what speaks of the tower where the query does, else 0.05."""
    return ScriptedReranker(lambda query, passage: 0.9 if "330" in passage and "soup" not in query else 0.05)


def load_published() -> Settings:
    return load_settings("cruise", "no overlay")


@pytest.fixture
def batch_run() -> tuple[dict[str, Turn], ScriptedChat, ScriptedChat, ScriptedReranker, ScriptedPipeline]:
    small, large, reranker = ScriptedChat(say), ScriptedChat(say), rank_towers()
    pipeline = ScriptedPipeline({(64, 48): ("Eiffel Tower", TOWER)}, PAGES)
    turns = [turn(question) for question in CASES]
    run_stages(turns, context(load_published(), pipeline, small_chat=small, chat=large, reranker=reranker))
    return {item.query: item for item in turns}, small, large, reranker, pipeline


@pytest.mark.parametrize("question", CASES)
def test_each_branch_ends_as_algorithm_1_says(
    batch_run: tuple[dict[str, Turn], ScriptedChat, ScriptedChat, ScriptedReranker, ScriptedPipeline], question: str
) -> None:
    turns, case = batch_run[0], CASES[question]
    assert turns[question].error is None
    assert turns[question].answer == case.answer
    assert turns[question].records[-1].notes.get("branch") == case.branch


def test_a_batch_costs_one_call_of_each_kind(
    batch_run: tuple[dict[str, Turn], ScriptedChat, ScriptedChat, ScriptedReranker, ScriptedPipeline],
) -> None:
    _, small, large, _, _ = batch_run
    assert small.batches == [10]  # flags
    # summaries of what is searched; both answers; the judge and the chain for all but the one that does not know
    assert large.batches == [8, 20, 9, 9]


def test_what_needs_no_external_knowledge_is_not_searched(
    batch_run: tuple[dict[str, Turn], ScriptedChat, ScriptedChat, ScriptedReranker, ScriptedPipeline],
) -> None:
    turns, _, _, _, pipeline = batch_run
    colour = turns["What colour is it?"]
    assert (colour.evidence, colour.image_hits, colour.summary) == ((), (), "")
    assert not any("colour" in query for query in pipeline.queries if isinstance(query, str))


def test_query_and_summary_are_searched_and_reranked_together(
    batch_run: tuple[dict[str, Turn], ScriptedChat, ScriptedChat, ScriptedReranker, ScriptedPipeline],
) -> None:
    _, _, _, reranker, pipeline = batch_run
    expanded = "How high is the tower? A tower beside a river."  # eq. 2
    assert expanded in pipeline.queries
    assert {query for query, _ in reranker.pairs if query.startswith("How high is the tower? ")} == {expanded}
    assert {passage for query, passage in reranker.pairs if query == expanded} == {
        "The image caption of Eiffel Tower is The tower seen from the river.",
        "The height of Eiffel Tower is 330 m.",
        "Eiffel: the tower is 330 m high",
        "Eiffel: it is repainted every seven years",
        f"Price: {PAGES['Price']}",
    }


def test_the_context_is_numbered(
    batch_run: tuple[dict[str, Turn], ScriptedChat, ScriptedChat, ScriptedReranker, ScriptedPipeline],
) -> None:
    informed = [request for request in batch_run[2].requests if "[Info 1]" in request.messages[-1].content]
    assert informed
    first, second = (
        '[Info 1] "Eiffel Tower": "The height of Eiffel Tower is 330 m."',
        '[Info 2] "Eiffel": "the tower is 330 m high"',
    )
    assert all(f"{first}\n{second}" in request.messages[-1].content for request in informed)  # eq. 7


def test_both_answers_differ_only_by_evidence_and_without_it_the_second_is_sampled() -> None:
    chat = ScriptedChat(lambda request: "a")
    evidence_turn, unknown = turn("q", evidence=(Evidence("fact", "kg", "t"),)), turn("q", evidence=())
    run(DualAnswer, [evidence_turn, unknown], context(load_published(), chat=chat))
    informed, plain, first, probe = chat.requests
    assert '[Info 1] "t": "fact"' in informed.messages[-1].content
    assert "Info" not in plain.messages[-1].content
    assert first.messages[0] == probe.messages[0]
    assert [request.temperature for request in (informed, plain, first, probe)] == [0.0, 0.0, 0.0, 0.7]
    assert probe.seed is not None
    assert all(request.messages[-1].images for request in chat.requests)


def test_at_most_three_chunks_pass_the_mad_threshold() -> None:
    """Median of 0.9, 0.8, 0.7, 0.6, 0.2, 0.1 is 0.65, deviations 0.25 0.15 0.05 0.05 0.45 0.55: MAD 0.2; theta = 0.65 - 0.3 = 0.35."""

    reranker = ScriptedReranker(lambda _, passage: float(passage))

    def apply_threshold(*scores: str) -> tuple[list[str], float]:
        dialog_turn = turn("q", evidence=tuple(Evidence(score, "kg", "t") for score in scores))
        run_stages([dialog_turn], context(load_published(), reranker=reranker), Rerank)
        return [chunk.text for chunk in dialog_turn.evidence], dialog_turn.records[-1].notes["threshold"]

    assert apply_threshold("0.1", "0.9", "0.6", "0.8", "0.2", "0.7") == (["0.9", "0.8", "0.7"], pytest.approx(0.35))
    assert apply_threshold("0.9", "0.2", "0.1") == (
        ["0.9", "0.2", "0.1"],
        pytest.approx(0.1),
    )  # 0.2 - 1.5 * 0.1 = 0.05: tau
    assert apply_threshold("0.09", "0.05") == ([], pytest.approx(0.1))
    assert apply_threshold() == ([], pytest.approx(0.1))


@pytest.mark.parametrize(
    ("without", "expected"),
    [((), IDK), (("chain_of_verification",), IDK), (("chain_of_verification", "consistency"), "330 m")],
)
def test_a_check_that_is_left_out_cannot_fail(without: tuple[str, ...], expected: str) -> None:
    settings = load_published().without(without) if without else load_published()
    question = "How tall is the tower?"  # the judge says no
    dialog_turn = turn(question)
    models = {"small_chat": ScriptedChat(say), "chat": ScriptedChat(say), "reranker": rank_towers()}
    run_stages([dialog_turn], context(settings, ScriptedPipeline({}, PAGES), **models))
    assert dialog_turn.answer == expected


def test_answers_are_withheld_if_their_check_failed_or_had_no_time() -> None:
    settings = load_published()
    dialog_turn = turn("q", candidate=Candidate("x", 0.9), parametric=Candidate("x", 0.9))
    about = context(settings, seconds=0.0, chat=ScriptedChat(lambda _: "yes"))
    run_stages([dialog_turn], about, Consistency, VerificationChain, Finalise)
    assert (dialog_turn.records[0].status, dialog_turn.records[0].cause) == ("skipped", "time")
    assert dialog_turn.records[2].notes["branch"] == "unsure"
    assert dialog_turn.answer == IDK


def test_mad_threshold_looks_at_the_best_ten_only_and_never_goes_below_tau() -> None:
    assert compute_mad_threshold([0.5] * 10 + [0.0] * 90, tau=0.1, lam=1.5) == 0.5
    assert compute_mad_threshold([0.05, 0.01], tau=0.1, lam=1.5) == 0.1
    assert compute_mad_threshold([], tau=0.1, lam=1.5) == 0.1
    assert compute_mad_threshold([math.nan, 0.6], tau=0.1, lam=1.5) == 0.6
    assert compute_mad_threshold([math.inf, math.inf, 0.6], tau=0.1, lam=1.5) == 0.6


WEAK, STRONG = 0.05, 0.4  # S_ret below and above tau_ret = 0.1
LOW, MIDDLE, SURE = 0.89, 0.95, 1.0  # S_CoV below tau_low = 0.9, between both, and tau_high = 1.0


def branch(
    real_time: bool, retrieval: float, context: bool, consistent: bool | None, confidence: float | None
) -> Branch:
    return final_branch(
        real_time=real_time,
        retrieval=retrieval,
        context=context,
        consistent=consistent,
        confidence=confidence,
        min_retrieval=0.1,
        low=0.9,
        high=1.0,
    )


# r, S_ret, C, consistent -> the lines it ends on for S_CoV low, in the middle and sure: all 2 x 2 x 2 x 2 rows
TABLE: dict[tuple[bool, float, bool, bool], tuple[Branch, Branch, Branch]] = {
    # not about the present
    (False, WEAK, True, True): ("unsure", "grounded", "grounded"),
    (False, WEAK, True, False): ("inconsistent", "inconsistent", "inconsistent"),
    (False, STRONG, True, True): ("unsure", "grounded", "grounded"),
    (False, STRONG, True, False): ("inconsistent", "inconsistent", "inconsistent"),
    (False, WEAK, False, True): ("unsure", "unsure", "prior"),
    (False, WEAK, False, False): ("unsure", "unsure", "unsure"),
    (False, STRONG, False, True): ("unsure", "unsure", "prior"),
    (False, STRONG, False, False): ("unsure", "unsure", "unsure"),
    # about the present
    (True, WEAK, True, True): ("stale", "stale", "stale"),
    (True, WEAK, True, False): ("stale", "stale", "stale"),
    (True, STRONG, True, True): ("unsure", "grounded", "grounded"),
    (True, STRONG, True, False): ("inconsistent", "inconsistent", "inconsistent"),
    (True, WEAK, False, True): ("stale", "stale", "stale"),
    (True, WEAK, False, False): ("stale", "stale", "stale"),
    (True, STRONG, False, True): ("unsure", "unsure", "prior"),
    (True, STRONG, False, False): ("unsure", "unsure", "unsure"),
}


def test_the_table_is_whole() -> None:
    booleans = (False, True)
    assert set(TABLE) == set(itertools.product(booleans, (WEAK, STRONG), booleans, booleans))


@pytest.mark.parametrize("row", TABLE, ids=str)
def test_every_row_ends_on_its_line(row: tuple[bool, float, bool, bool]) -> None:
    assert tuple(branch(*row, confidence) for confidence in (LOW, MIDDLE, SURE)) == TABLE[row]


def test_thresholds_themselves_suffice() -> None:
    assert branch(True, 0.1, True, True, 0.9) == "grounded"
    assert branch(False, 0.0, False, True, math.nextafter(1.0, 0.0)) == "unsure"


@pytest.mark.parametrize("context", [True, False])
def test_what_is_not_known_never_lets_an_answer_stand(context: bool) -> None:
    assert not stands(branch(False, STRONG, context, None, SURE))
    assert not stands(branch(False, STRONG, context, True, None))
    assert not stands(branch(False, STRONG, context, True, math.nan))
    assert branch(True, math.nan, context, True, SURE) == "stale"


CHAIN = (
    "CONFIDENCE: 0.95\nREASONING: The evidence gives the height.\n"
    "SUB-QUESTIONS: Q1: Which tower is it?, Finding: Supported, Q2: [How high is it], Finding: Unsupported"
)


def test_a_whole_chain_is_read() -> None:
    chain = parse_chain(CHAIN)
    assert chain.confidence == 0.95
    assert chain.reasoning == "The evidence gives the height."
    assert chain.findings == (SubFinding("Which tower is it?", True), SubFinding("How high is it", False))


@given(st.integers(0, len(CHAIN)))
def test_a_cut_chain_never_gains_confidence(length: int) -> None:
    chain = parse_chain(CHAIN[:length])
    assert chain.confidence is None or chain.confidence <= 0.95
    assert set(chain.findings) <= set(parse_chain(CHAIN).findings)


@pytest.mark.parametrize(
    ("reply", "confidence"),
    [
        ("CONFIDENCE: 0.9", 0.9),
        ("**CONFIDENCE:** [1.0]\n", 1.0),
        ("Confidence Score: 0.25\nReasoning: no", 0.25),
        ("- confidence: 90%\n", 0.9),
        ("CONFIDENCE: 0.9/1.0", 0.9),
        ("0.7\nREASONING: perhaps", 0.7),
        ("CONFIDENCE: 9 out of 10", None),
        ("CONFIDENCE: 150%", None),
        ("CONFIDENCE: high", None),
        ("CONFIDENCE:", None),
        ("The answer was given in 1.0 seconds.", None),
        ("", None),
    ],
)
def test_the_confidence_of_sloppy_chains(reply: str, confidence: float | None) -> None:
    assert parse_chain(reply).confidence == confidence


def test_findings_may_stand_on_lines_of_their_own() -> None:
    reply = "CONFIDENCE: 0.9\nSUB-QUESTIONS:\nQ1: Is it red?\nFinding: Not supported\nQ2: torn"
    assert parse_chain(reply).findings == (SubFinding("Is it red?", False),)
