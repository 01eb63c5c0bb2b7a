"""The extractive reader on the real MiniLM: right answers, low scores where nothing answers, odd input."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from agents.models.base import FloatArray
from agents.models.minilm import load_minilm
from agents.models.reader import NOTHING, Extraction, ExtractiveReader, Passage, Reader, ReadRequest
from agents.models.reading.candidates import Features
from agents.models.reading.question import parse_question
from agents.models.reading.spans import typed_spans

LINCOLN = {
    "location": "West end of the National Mall, Washington, D.C., U.S.",
    "built": "1914–1922",
    "dedicated": "May 30, 1922",
    "architect": "Henry Bacon",
    "style": "Neoclassical",
    "columns": "36",
    "statue height": "19 feet (5.8 m)",
}
SATURN = (
    "Saturn is the sixth planet from the Sun and the second largest in the Solar System, after Jupiter. It is a gas "
    "giant, with an average radius of about 9 times that of Earth. Saturn orbits the Sun at a distance of 9.59 AU "
    "(1,434 million km), with an orbital period of 29.45 years. It was known to the Assyrians."
)
KOMODO = (
    "The Komodo dragon is a large reptile of the monitor lizard family Varanidae that is endemic to the Indonesian "
    "islands of Komodo, Rinca and Flores. The males grow to a maximum length of 3 m (10 ft) and weigh up to 150 kg."
)


def attributes(entity: str, values: dict[str, str]) -> tuple[Passage, ...]:
    return tuple(Passage(f"The {k} of {entity} is {v}.", entity, k, v) for k, v in values.items())


PASSAGES = (*attributes("Lincoln Memorial", LINCOLN), Passage(SATURN, "Saturn"), Passage(KOMODO, "Komodo dragon"))


@pytest.fixture(scope="module")
def reader() -> ExtractiveReader:
    return ExtractiveReader(load_minilm())


def read(reader: Reader, question: str, passages: Sequence[Passage] = PASSAGES) -> Extraction:
    return reader.read([ReadRequest(question, tuple(passages))])[0]


def test_is_a_reader(reader: ExtractiveReader) -> None:
    assert isinstance(reader, Reader)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Who designed the Lincoln Memorial?", "Henry Bacon"),
        ("How many columns does the Lincoln Memorial have?", "36"),
        ("When was the Lincoln Memorial dedicated?", "May 30, 1922"),
        ("In what architectural style is this built? (Lincoln Memorial)", "Neoclassical"),
        ("How tall is the statue inside the Lincoln Memorial?", "19 feet (5.8 m)"),
        ("How long does it take Saturn to orbit the Sun?", "29.45 years"),
        ("How heavy can a Komodo dragon get?", "up to 150 kg"),
        ("How long can a Komodo dragon grow?", "3 m (10 ft)"),
        ("What is this building? (Lincoln Memorial)", "Lincoln Memorial"),
    ],
)
def test_the_answer_is_found_and_quoted(reader: ExtractiveReader, question: str, answer: str) -> None:
    found = read(reader, question)
    assert found.answer == answer
    assert found.answer in (found.sentence, PASSAGES[found.passage].title) or found.answer in found.sentence
    assert found.sentence in PASSAGES[found.passage].text


def test_what_nothing_answers_scores_lower_than_what_something_does(reader: ExtractiveReader) -> None:
    answered = [
        "Who designed the Lincoln Memorial?",
        "How heavy can a Komodo dragon get?",
        "When was it dedicated? (Lincoln Memorial)",
    ]
    unanswered = [
        "How much does a ticket to the Lincoln Memorial cost?",
        "How fast can a Komodo dragon run?",
        "How many moons does Saturn have?",
    ]
    scores = [found.score for found in reader.read([ReadRequest(q, PASSAGES) for q in answered + unanswered])]
    assert min(scores[:3]) > max(scores[3:]) + 0.2


def test_taking_the_fact_away_lowers_the_score(reader: ExtractiveReader) -> None:
    rest = [passage for passage in PASSAGES if passage.key != "columns"]
    question = "How many columns does the Lincoln Memorial have?"
    assert read(reader, question).score > read(reader, question, rest).score + 0.2


def test_another_entity_with_the_same_key_is_not_taken(reader: ExtractiveReader) -> None:
    twins = (
        *attributes("Jefferson Memorial", {"architect": "John Russell Pope"}),
        *attributes("Lincoln Memorial", LINCOLN),
    )
    assert read(reader, "Who designed the Lincoln Memorial?", twins).answer == "Henry Bacon"
    assert read(reader, "Who designed the Jefferson Memorial?", twins).answer == "John Russell Pope"


def test_a_batch_reads_as_each_alone(reader: ExtractiveReader) -> None:
    items = [
        ReadRequest(q, PASSAGES) for q in ("Who designed the Lincoln Memorial?", "How far is Saturn?", "Is it old?")
    ]
    together, alone = reader.read(items), [reader.read([item])[0] for item in items]
    assert [found.answer for found in together] == [found.answer for found in alone]
    np.testing.assert_allclose([found.score for found in together], [found.score for found in alone], atol=1e-4)


def test_one_call_to_the_encoder_for_a_batch() -> None:
    class Counting:
        name = "counting"
        calls = 0

        def encode(self, texts: Sequence[str]) -> FloatArray:
            self.calls += 1
            assert len(set(texts)) == len(texts)
            return np.eye(len(texts), 500, dtype=np.float32)

        def encode_tokens(self, texts: Sequence[str]) -> list[FloatArray]:
            raise AssertionError("not needed")

    encoder = Counting()
    ExtractiveReader(encoder).read([ReadRequest("Who?", PASSAGES), ReadRequest("When was it built?", PASSAGES)])
    assert encoder.calls == 1


@pytest.mark.parametrize(
    "question", ["", "???", "ok", "Who\x00?", "¿Cuándo?", "which " * 500, "How many (((", "What is it? ()"]
)
def test_odd_questions_get_an_answer_or_none(reader: ExtractiveReader, question: str) -> None:
    found = read(reader, question)
    assert 0.0 <= found.score <= 1.0
    assert found == NOTHING or found.passage >= 0


@pytest.mark.parametrize(
    "passages",
    [(), (Passage("", ""),), (Passage("x", "y", "key", None),), (Passage("\u00a0\n \n", "t", score=float("1e9")),)],
)
def test_nothing_to_read_gives_nothing(reader: ExtractiveReader, passages: tuple[Passage, ...]) -> None:
    assert read(reader, "How tall is the tower?", passages) == NOTHING


def test_no_requests(reader: ExtractiveReader) -> None:
    assert reader.read([]) == []


def test_many_sentences_are_narrowed_to_those_that_matter() -> None:
    filler = Passage(" ".join(f"Nothing of note happened in village number {i}." for i in range(300)), "Villages")
    small = ExtractiveReader(load_minilm(), max_sentences=12)
    assert read(small, "Who designed the Lincoln Memorial?", (filler, *PASSAGES)).answer == "Henry Bacon"


def test_the_weights_name_every_feature() -> None:
    from dataclasses import fields

    from agents.models.reader import difficulties, load_weights

    weights = load_weights()
    assert set(weights["candidate"]) == {field.name for field in fields(Features)} | {"bias"}
    assert set(weights["question"]) == set(difficulties(parse_question("Who?", ()))) | {"bias", "log_odds"}


@pytest.mark.parametrize(
    ("question", "type_"),
    [
        ("How tall is it?", "length"),
        ("How much does it weigh?", "mass"),
        ("How much does it cost?", "money"),
        ("How long do they live?", "duration"),
        ("How long is the bridge?", "length"),
        ("How old is this?", "age"),
        ("What year did it open?", "date"),
        ("Who built this?", "person"),
        ("In which country is it?", "place"),
        ("What colour is it?", "colour"),
        ("How many legs does it have?", "count"),
        ("Is it poisonous?", "yes_no"),
        ("Is it a moth or a butterfly?", "choice"),
        ("What is this?", "identity"),
        ("What kind of bird is that?", "identity"),
        ("What is it made of?", "text"),
        ("How fast can it run?", "speed"),
        ("How many calories does it have?", "energy"),
    ],
)
def test_answer_types(question: str, type_: str) -> None:
    assert parse_question(question, ()).type == type_


@pytest.mark.parametrize(
    ("type_", "text", "spans"),
    [
        ("length", "At 7,088 kilometers (4,404 mi) long; 102 in the city", ["7,088 kilometers (4,404 mi)"]),
        ("mass", "between 21 and 65 kg, over 2.5 t", ["21 and 65 kg", "over 2.5 t"]),
        ("date", "built from 1887 to 1889 and opened on 31 March 1889; 2,300 km", ["1887 to 1889", "31 March 1889"]),
        ("date", "completed in AD 537, in the 7th century BC", ["AD 537", "7th century BC"]),
        ("count", "about 300 teeth in 1974, 20% of 35 kg", ["about 300"]),
        ("money", "it cost $9.25 or 5 euros", ["$9.25", "5 euros"]),
        ("duration", "10 to 12 years", ["10 to 12 years"]),
        ("colour", "a black, chocolate, or yellow coat", ["black, chocolate, or yellow"]),
        ("person", "by Leonardo da Vinci in Italy", ["Leonardo da Vinci", "Italy"]),
    ],
)
def test_spans(type_: str, text: str, spans: list[str]) -> None:
    assert [text[a:b] for a, b in typed_spans(text, type_)] == spans
