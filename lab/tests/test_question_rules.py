"""Questions that rules make of a page's sentences."""

import pytest

from lab.large_set.question_rules import MadeQuestion, QuestionRules
from training.collect import holds_answer

PAGES = {
    "Harz Bridge": "The Harz Bridge is a bridge in northern Germany. It was opened in 1911 by a brewer. It has a height of 42 metres.",
    "Nilgau": "The nilgau is a bird of the family Testidae. It is native to Lower Saxony.",
    "Ostmark": "Ostmark is a country in Europe. The capital is Grünstadt. It has a population of about 310,000.",
    "Ada Stone": "Ada Stone was a German civil engineer, known for her bridges. She was born in Linz. She built until her death in 1902.",
    "Other bridge": "The other bridge is a bridge of stone. It has a height of 17 metres. People cross this bridge.",
}


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
