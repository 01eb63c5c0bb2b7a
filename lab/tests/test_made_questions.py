"""Questions made for training: by rule and by a model, in the served prompt, with evidence that answers them or does not."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agents.models.base import ChatReply, ChatRequest
from agents.time_limits.deadline import NO_DEADLINE, Deadline
from lab.training import made_questions
from lab.training.made_questions import ClaimedNames
from lab.training.question_rules import MadeQuestion, QuestionRules
from mini_crag_mm.loader import WebPage
from mini_crag_mm.wikipedia import make_wiki_page
from tests.training.recorded import REVISION, save_data
from training.chat_examples import HELD_OUT, TRAIN, Example, read_examples
from training.collect import holds_answer
from training.command_line import ABOUT
from training.recipes import DataTable
from training.sft import count_kinds, select_samples

PAGES = {
    "Harz Bridge": "The Harz Bridge is a bridge in northern Germany. It was opened in 1911 by a brewer. It has a height of 42 metres.",
    "Nilgau": "The nilgau is a bird of the family Testidae. It is native to Lower Saxony.",
    "Ostmark": "Ostmark is a country in Europe. The capital is Grünstadt. It has a population of about 310,000.",
    "Ada Stone": "Ada Stone was a German civil engineer, known for her bridges. She was born in Linz. She built until her death in 1902.",
    "Other bridge": "The other bridge is a bridge of stone. It has a height of 17 metres. People cross this bridge.",
}


def page(title: str, text: str) -> WebPage:
    return make_wiki_page(title, text, None)


def make_questions(title: str) -> dict[str, MadeQuestion]:
    rules = QuestionRules(PAGES.values())
    return {question.kind: question for question in rules.questions(title, PAGES[title])}


@pytest.mark.parametrize(
    ("title", "kind", "question", "answer"),
    [
        ("Harz Bridge", "date", "When was the Harz Bridge opened?", "1911"),
        ("Harz Bridge", "size", "What is the height of the Harz Bridge?", "42 metres"),
        ("Nilgau", "native", "Where does the nilgau come from?", "Lower Saxony"),
        ("Ostmark", "capital", "What is the capital of Ostmark?", "Grünstadt"),
        ("Ostmark", "population", "How many people live in Ostmark?", "about 310,000"),
        ("Ada Stone", "birthplace", "Where was Ada Stone born?", "Linz"),
        ("Ada Stone", "death", "When did Ada Stone die?", "1902"),
    ],
)
def test_a_sentence_makes_the_question_that_it_answers(title: str, kind: str, question: str, answer: str) -> None:
    made_question = make_questions(title)[kind]
    assert (made_question.question.lower(), made_question.answer) == (question.lower(), answer)
    assert (
        holds_answer(made_question.sentence, made_question.question, made_question.truth, (answer,))
        and answer.lower() in made_question.truth.lower()
    )


def test_what_a_photo_shows_can_be_pointed_at_and_a_person_or_a_country_cannot() -> None:
    assert make_questions("Harz Bridge")["date"].pointing == "When was this bridge opened?"
    assert (
        make_questions("Ostmark")["capital"].pointing is None and make_questions("Ada Stone")["death"].pointing is None
    )


class Writer:
    """Writes a question on each page, and answers one of them otherwise when it reads the page."""

    name = "writer"

    def chat(self, requests: Sequence[ChatRequest], deadline: Deadline = NO_DEADLINE) -> list[ChatReply]:
        return [ChatReply(self._reply(request.messages[-1].content), "stop") for request in requests]

    def _reply(self, prompt: str) -> str:
        if 'Write one line "Question' not in prompt:
            return "Linz" if prompt.endswith("Where did Ada Stone come from?") else "42 metres"
        if "Ada Stone" in prompt:
            return "Question: Where did Ada Stone come from?\nAnswer: Linz."
        if "nilgau" in prompt:
            return "Question: Who saw the nilgau?\nAnswer: Testidae"  # it says otherwise when asked
        return "Question: How many wheels?\nAnswer: 12" if "Ostmark" in prompt else "I cannot say."


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(made_questions, "list_training_pages", lambda: [page(*item) for item in PAGES.items()])
    profile = tmp_path / "scripted.toml"
    profile.write_text(
        f'[limits]\nevidence_tokens = 400\n[models.chat]\nkind = "{__name__}:Writer"\n', encoding="utf-8"
    )

    def run(*flags: str) -> tuple[list[Example], dict[str, Any]]:
        out = tmp_path / "out"
        places = ["--out", str(out), "--cache", str(tmp_path / "cache"), "--profile", str(profile)]
        assert made_questions.main([*places, "--preset", "direct_rag", "--eval-model", "rule", *flags]) == 0
        return read_examples(out / TRAIN) + read_examples(out / HELD_OUT), json.loads((out / ABOUT).read_text())

    return run


def test_rows_are_served_prompts_that_hold_the_answer_or_teach_a_refusal(make: Any) -> None:
    rows, about = make("--refusals", "1", "--steps", "0.4")
    assert {row.prompt for row in rows} == {"answer_with_evidence", "step_answer"}
    answered = {row.interaction_id: row for row in rows if row.reply_verdict == "correct"}
    assert len(answered) == len(rows) / 2 == sum(n for kind, n in about["questions"].items() if kind != "found")
    for row in rows:
        evidence = row.messages[-1].content.rpartition("Question:")[0]
        assert row.messages[-1].content.endswith(f"Question: {row.query}")
        twin = answered[row.interaction_id.removesuffix("-taken-out")]
        has_answer = any(
            holds_answer(line, row.query, twin.ground_truth, twin.accept) for line in evidence.splitlines()
        )
        assert has_answer is (row.reply_verdict == "correct")
        assert row.session_id == twin.session_id  # on one side
    assert count_kinds(select_samples(rows, DataTable())) == {"answer": len(rows) // 2, "refusal": len(rows) // 2}
    assert count_kinds(select_samples(rows, DataTable(refusals_left_out=1))) == {"answer": len(rows) // 2}
    assert all(row.reply == "I don't know" for row in rows if row.reply_verdict == "miss")


def test_nothing_that_names_an_entity_of_a_question_set_is_made(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _ = make("--refusals", "0")
    assert any("nilgau" in str(row.messages) for row in whole)
    monkeypatch.setattr(ClaimedNames, "read", classmethod(lambda cls: cls(["Nilgau", "Linz"])))
    rows, about = make("--refusals", "0")
    assert rows and not any(word in str(row.messages).lower() for row in rows for word in ("nilgau", "linz"))
    assert about["kept_out"]["names an entity"] >= 1


def test_the_entities_of_both_splits_are_known() -> None:
    claimed = ClaimedNames.read()
    assert (
        claimed.named_in("The Taj Mahal is old")
        and claimed.named_in("two polar bears")
        and claimed.named_in("Eiffel Tower")
    )
    assert not claimed.named_in("Ada Stone built the Harz Bridge")


def test_nothing_is_asked_in_the_words_of_the_test_split(
    make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = save_data(tmp_path / "test", "public_test")
    table = "When was this bridge opened?"
    monkeypatch.setattr(
        "training.public_test.tidy", lambda query: table if query == "When was this finished?" else query
    )
    rows, about = make("--dataset", str(data), "--revision", REVISION)
    assert about["kept_out"] == {"asked in public_test": 1}
    assert rows and not any("opened" in row.query for row in rows)


def test_a_model_writes_what_it_also_answers_from_the_page(make: Any) -> None:
    rows, about = make("--by-model", "5", "--refusals", "0")
    writer_rows = [row for row in rows if row.model == "writer"]
    assert [row.query for row in writer_rows] == ["Where did Ada Stone come from?"]
    counts = about["written"]
    assert counts["kept"] == 1 and counts["answer not in the page"] == 1 and counts["unreadable"] == 2
    assert counts["the model answers otherwise"] == 1


def test_a_training_takes_several_folders(tmp_path: Path) -> None:
    from tests.training.tiny_data import example, save_examples
    from training.command_line import read_data
    from training.sft import SftOptions

    for number in range(2):
        save_examples(tmp_path / str(number), [example(number)], [example(10 + number)])
    places = [word for number in range(2) for word in ("--data", str(tmp_path / str(number)))]
    options = SftOptions.parse([*places, "--model", "m", "--recipe", "smollm2", "--out", str(tmp_path / "out")])
    _, train, held_out = read_data(options)
    assert [row.session_id for row in train + held_out] == ["s0", "s1", "s10", "s11"]
    assert train[1].folder == tmp_path / "1"
