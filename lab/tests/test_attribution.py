"""MAVIS metrics: the equations of section 4 on numbers worked out by hand, both graders, the traces they read, MAUVE."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from PIL import Image
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from agents.record import StageRecord, TurnRecord
from evaluation.records import EvaluationError, JudgeError
from lab.attribution.cited_answers import read_cited
from lab.attribution.mavis import (
    Document,
    LongAnswer,
    Sentence,
    average_scores,
    completeness,
    f1,
    precision,
    recall,
    relevance,
    score,
    score_modality,
)
from lab.attribution.model_grader import ModelGrader
from lab.attribution.rule_grader import RuleGrader
from lab.benchmarks.mavis_metrics import main, mauve
from tests.evaluation.worlds import picture, row, write_dataset, write_records

DOCUMENTS = (
    Document(1, "text", "Tower", "The tower is 330 m tall."),
    Document(2, "image", "Tower", "The architect of Tower is Stephen Sauvestre."),
    Document(3, "image", "Soup", "Soup is hot."),
    Document(4, "text", "Paris", "Paris is a city."),
)
ANSWER = LongAnswer(
    "How tall is this tower?",
    "The tower is 330 m tall. It is in Paris.",
    (Sentence("a", (1, 2)), Sentence("b", (3,)), Sentence("c"), Sentence("d", (9,))),
    DOCUMENTS,
)


class Table:
    """Grader that reads grades from a table: facts and sentences by name, support by sentence and numbers."""

    name = "table"
    grades: ClassVar[dict[Any, float]] = {
        "g1": 1.0, "g2": 0.5, "g3": 0.0,
        "a": 1.0, "b": 0.5, "c": 0.0, "d": 0.0,
        ("a", (1, 2)): 1.0, ("a", (1,)): 1.0, ("a", (2,)): 0.5, ("b", (3,)): 0.5,
    }  # fmt: skip

    def facts(self, truth: str) -> tuple[str, ...]:
        return ("g1", "g2", "g3")

    def completeness(self, fact: str, answer: LongAnswer) -> float:
        return self.grades[fact]

    def relevance(self, sentence: Sentence, answer: LongAnswer) -> float:
        return self.grades[sentence.text]

    def support(self, sentence: Sentence, documents: Sequence[Document], answer: LongAnswer) -> float:
        return self.grades[sentence.text, tuple(document.number for document in documents)]


def test_the_equations_of_section_4_by_hand() -> None:
    """Completeness (1 + .5 + 0) / 3; relevance (1 + .5 + 0 + 0) / 4; recall (1 + .5 + 0 + 0) / 4;
    precision ((1 + .5) / 2 + .5 + 0 + 0) / 4."""
    grader = Table()
    assert completeness(ANSWER, grader) == pytest.approx(0.5)
    assert relevance(ANSWER, grader) == pytest.approx(0.375)
    assert recall(ANSWER, grader) == pytest.approx(0.375)
    assert precision(ANSWER, grader) == pytest.approx(0.3125)


def test_modalities_by_hand() -> None:
    """Text: document 1 of 1 and 4 is used, its one citation is graded 1. Image: 2 and 3 of 2 and 3, graded .5 and .5."""
    text, image = (score_modality(ANSWER, modality, Table()) for modality in ("text", "image"))
    assert (text.retrieved, text.used, text.utilisation, text.groundedness) == (2, 1, 0.5, 1.0)
    assert (image.retrieved, image.used, image.utilisation, image.groundedness) == (2, 2, 1.0, 0.5)
    none = score_modality(LongAnswer("q", "g", (Sentence("a"),), ()), "text", Table())
    assert (none.utilisation, none.groundedness) == (None, None)


def test_f1_is_that_of_each_answer_as_in_the_papers_table_4() -> None:
    """LLaVA-OneVision, Text-RAG: F1 of the printed means would be 39.0; printed is 31.9, below it, as means of F1 are."""
    assert f1(0.26, 0.78) == pytest.approx(0.39)
    assert f1(0.0, 0.0) == 0.0
    full = LongAnswer("q", "g", (Sentence("a", (1,)),), DOCUMENTS)
    row = average_scores([score(ANSWER, Table()), score(full, Table())])
    assert row["groundedness"] == pytest.approx((f1(0.375, 0.3125) + 1.0) / 2)
    assert row["recall"] == pytest.approx((0.375 + 1.0) / 2)
    assert row["answers"] == 2
    assert average_scores([])["recall"] is None


def test_an_empty_answer_is_worth_nothing() -> None:
    silent = score(LongAnswer("q", "g", (), DOCUMENTS), Table())
    assert (silent.completeness, silent.relevance, silent.recall, silent.precision) == (0.0, 0.0, 0.0, 0.0)


def ask(sentence: str, *citations: int, accept: tuple[str, ...] = ()) -> LongAnswer:
    return LongAnswer(
        "How tall is this tower?", "The tower is 330 m tall.", (Sentence(sentence, citations),), DOCUMENTS, accept
    )


@pytest.mark.parametrize(
    ("sentence", "numbers", "grade"),
    [
        ("The tower is 330 metres tall.", (1,), 1.0),
        ("The tower is 350 m tall.", (1,), 0.0),
        ("It is 330 m.", (1,), 1.0),
        ("Stephen Sauvestre was its architect.", (2,), 1.0),
        ("Stephen Sauvestre was a gardener and lover of hot soup.", (2,), 0.0),
        ("Stephen Sauvestre made soup often.", (2, 3), 0.5),
        ("The tower is 330 m tall.", (3,), 0.0),
    ],
)
def test_support_by_rule(sentence: str, numbers: tuple[int, ...], grade: float) -> None:
    answer = ask(sentence, *numbers)
    cited = [document for document in DOCUMENTS if document.number in numbers]
    assert RuleGrader().support(answer.sentences[0], cited, answer) == grade


def test_completeness_and_relevance_by_rule() -> None:
    grader = RuleGrader()
    right = ask("It is 330 m tall.", accept=("330 m",))
    assert grader.facts(right.truth) == ("The tower is 330 m tall.",)
    assert grader.completeness(right.truth, right) == 1.0
    wrong = ask("The tower is 120 m tall.", accept=("330 m",))
    assert grader.completeness(wrong.truth, wrong) <= 0.5
    assert grader.completeness(wrong.truth, ask("Bananas are yellow.")) == 0.0
    assert grader.relevance(right.sentences[0], right) == 1.0
    assert grader.relevance(Sentence("Bananas are yellow."), right) == 0.0


def reply(content: str) -> Response:
    body = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    choice = {"index": 0, "finish_reason": "stop", "delta": {"role": "assistant", "content": content}}
    chunk = json.dumps({**body, "choices": [choice]})
    return Response(f"data: {chunk}\n\ndata: [DONE]\n\n", content_type="text/event-stream")


def test_a_model_grades_and_is_asked_once_for_each_grade(httpserver: HTTPServer, tmp_path: Path) -> None:
    prompts: list[str] = []

    def handle(request: Request) -> Response:
        prompts.append(request.get_json()["messages"][-1]["content"])
        if "atomic facts" in request.get_json()["messages"][0]["content"]:
            return reply("- The tower is 330 m tall.\n2. It is in Paris.\n")
        return reply('{"grade": 0.5}' if "Fact:" in prompts[-1] else "1" if "Document:" in prompts[-1] else "no idea")

    httpserver.expect_request("/v1/chat/completions").respond_with_handler(handle)
    grader = ModelGrader("m", base_url=httpserver.url_for("/v1"), cache=tmp_path)
    answer = ask("It is 330 m tall.", 1)
    assert completeness(answer, grader) == 0.5
    assert recall(answer, grader) == precision(answer, grader) == 1.0
    assert relevance(answer, grader) == 0.0  # no grade after 3 tries
    assert len(prompts) == 1 + 2 + 1 + 3
    assert any("The tower is 330 m tall." in prompt and "Document: Tower" in prompt for prompt in prompts)


def test_relevance_is_graded_on_the_photo_else_on_the_truth(httpserver: HTTPServer) -> None:
    """MAVIS, section 4.1: r(a_i, Q, I)."""
    contents: list[Any] = []

    def handle(request: Request) -> Response:
        contents.append(request.get_json()["messages"][-1]["content"])
        return reply("1")

    httpserver.expect_request("/v1/chat/completions").respond_with_handler(handle)
    grader = ModelGrader("m", base_url=httpserver.url_for("/v1"))
    answer = replace(ask("It is 330 m tall."), photo=lambda: Image.new("RGB", (8, 8), "red"))
    assert relevance(answer, grader) == relevance(ask("It is 330 m tall."), grader) == 1.0
    with_photo, without = contents
    assert [part["type"] for part in with_photo].count("image_url") == 1
    assert "A right answer" not in json.dumps(with_photo)
    assert "A right answer, to know what the photo is about: The tower is 330 m tall." in json.dumps(without)
    assert "image_url" not in json.dumps(without)


def test_a_grader_without_key_or_server_says_what_to_do(monkeypatch: Any, httpserver: HTTPServer) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(JudgeError, match="OPENAI_API_KEY"):
        ModelGrader()
    httpserver.expect_request("/v1/chat/completions").respond_with_data("no", status=401)
    with pytest.raises(JudgeError, match="server"):
        ModelGrader("m", base_url=httpserver.url_for("/v1")).facts("x")


def write_run(folder: Path) -> Path:
    """A run of three turns: one cited, one that abstained, one whose only sentence was dropped."""
    folder.mkdir()
    turns, records = [], []
    for place, query in enumerate(("How tall?", "Who?", "When?")):
        turns.append(
            {"session_id": f"s{place}", "interaction_id": f"i{place}", "query": query, "ground_truth": "It is 330 m tall.",
             "agent_response": "A"}
        )  # fmt: skip
        is_given = place == 0
        cite: dict[str, Any] = {
            "documents": [
                {"number": 1, "modality": "text", "title": "T", "text": "The tower is 330 m tall.", "url": ""}
            ],
            "generated": [{"text": "It is 330 m tall.", "citations": [1, 7]}],
            "sentences": [{"text": "It is 330 m tall.", "citations": [1] if is_given else [], "given": is_given}],
        }
        stages = () if place == 1 else (StageRecord("other"), StageRecord("cite", notes=cite))
        records.append(TurnRecord(query, query, "A", stages, session_id=f"s{place}", interaction_id=f"i{place}"))
    (folder / "response.jsonl").write_text("".join(json.dumps(item) + "\n" for item in turns), encoding="utf-8")
    with write_records(folder / "trace.jsonl", records).open("a") as file:
        file.write('{"torn')
    return folder


def test_answers_are_read_before_and_after_the_check(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    generated, checked = read_cited(run, "generated"), read_cited(run, "checked", lambda _: {"i0": ["330 m"]})
    assert [answer.sentences[0].citations for answer in generated.answers] == [(1, 7), (1, 7)]
    assert [answer.sentences for answer in checked.answers] == [(Sentence("It is 330 m tall.", (1,)),)]
    assert (checked.turns, checked.answers[0].accept) == (3, ("330 m",))


def test_the_table_is_printed_and_kept(tmp_path: Path, capsys: Any) -> None:
    run = write_run(tmp_path / "run")
    out = tmp_path / "rows.json"
    assert main(["--runs", str(run), "--features", "none", "--json", str(out)]) == 0
    rows = json.loads(out.read_text(encoding="utf-8"))["rows"]
    assert [(row["run"], row["answers"], row["precision"]) for row in rows] == [
        ("run (generated)", 2, 0.5),
        ("run (checked)", 1, 1.0),
    ]
    assert "Grd. F1" in capsys.readouterr().out
    (run / "trace.jsonl").write_text("", encoding="utf-8")
    assert main(["--runs", str(run), "--features", "none"]) == 2
    assert "no cited answer" in capsys.readouterr().err
    with pytest.raises(EvaluationError):
        read_cited(tmp_path / "nowhere", "checked")


@pytest.mark.parametrize(
    ("query", "place", "completeness"),
    [
        ("How tall?", ".", 1.0),
        ("How tall?", "crag-mm-single-turn-public/v0.1.2", 1.0),
        ("How tall is it?", ".", 0.0),
    ],
    ids=["the same", "beside a revision", "another question"],
)
def test_a_run_is_graded_by_the_accept_forms_of_questions_that_the_set_still_asks(
    tmp_path: Path, query: str, place: str, completeness: float
) -> None:
    """Keep the id of a question that is reworded, as the set does."""
    run = write_run(tmp_path / "run")
    answers = (run / "response.jsonl").read_text().replace("It is 330 m tall.", "As high as a hill.")
    (run / "response.jsonl").write_text(answers)
    rows = [row(f"s{number}", 1, "v0.1.2", picture(), None) for number in range(3)]
    for number, each in enumerate(rows):
        each["turns"][0] |= {"interaction_id": f"i{number}", "query": query}
        each["answers"][0] |= {"interaction_id": f"i{number}", "ans_full": "As high as a hill."}
    write_dataset(tmp_path / "data", rows, "v0.1.2", repository="crag-mm-single-turn-public")
    (tmp_path / "data" / place / "accept.json").write_text(json.dumps({"i0": ["330 m"]}))
    (run / "run.json").write_text('{"dataset": "crag-mm-single-turn-public@v0.1.2/validation"}', encoding="utf-8")
    arguments = ["--runs", str(run), "--features", "none", "--sentences", "checked", "--json", str(tmp_path / "rows")]
    assert main([*arguments, "--dataset", str(tmp_path / "data"), "--cache", str(tmp_path / "cache")]) == 0
    [graded] = json.loads((tmp_path / "rows").read_text())["rows"]
    assert graded["completeness"] == completeness


def test_a_model_grades_a_run_on_the_photos_of_its_data_set(
    httpserver: HTTPServer, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    flags: list[bool] = []

    def handle(request: Request) -> Response:
        content = json.dumps(request.get_json()["messages"])
        if "speaks to the question" in content:
            flags.append("image_url" in content)
        return reply("1")

    httpserver.expect_request("/v1/chat/completions").respond_with_handler(handle)
    monkeypatch.setenv("OPENAI_BASE_URL", httpserver.url_for("/v1"))
    rows = [row(f"s{place}", 1, "v0.1.2", picture(), None) for place in range(3)]
    write_dataset(tmp_path / "data", rows, "v0.1.2", repository="crag-mm-single-turn-public")
    run = write_run(tmp_path / "run")
    arguments = ["--runs", str(run), "--features", "none", "--grader", "m", "--sentences", "checked"]
    arguments += ["--dataset", str(tmp_path / "data"), "--cache", str(tmp_path / "cache")]
    (run / "run.json").write_text('{"dataset": "crag-mm-single-turn-public@v0.1.2/validation"}', encoding="utf-8")
    assert main(arguments) == 0
    assert flags == [True]
    (run / "run.json").write_text('{"dataset": "mine"}', encoding="utf-8")
    assert main(arguments) == 2
    assert "does not say which data set" in capsys.readouterr().err


def test_mauve_tells_near_from_far() -> None:
    random = np.random.default_rng(0)
    truths = random.normal(size=(60, 16))
    same, near, far = mauve(truths, truths), mauve(random.normal(size=(60, 16)), truths), mauve(truths + 5, truths)
    assert same == pytest.approx(1.0, abs=1e-6)
    assert near is not None
    assert far is not None
    assert far < 0.2 < near
    assert mauve(truths[:2], truths) is None
