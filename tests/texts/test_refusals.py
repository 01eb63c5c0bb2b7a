"""Refusals in any words are "I don't know"; what merely speaks of something unknown is an answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.asking.readers.answers import long_answer, read_candidate
from agents.asking.readers.drafts import parse_draft
from agents.english.knowledge_conflict import says_something
from agents.models.base import ChatReply
from agents.settings.presets import Settings
from agents.stages.finalise import Finalise
from agents.stages.verify import Verify
from agents.texts.refusals import refuses
from agents.turn import IDK, Candidate
from evaluation.judge.rule_judge import RuleJudge
from evaluation.records import JudgeItem
from evaluation.scores.scoring import is_miss
from mini_crag_mm.loader import SET, read_lines
from tests.agent.scripted import ScriptedChat, context, run, turn
from tests.support.recorded_turns import LABELLED

REFUSALS = [
    "The capital of that country is not mentioned in the given information.", "I don't know", "", "...", "i dont know", "**I don't know**",
    "N/A", "None", "Not sure.", "Unclear", "I can't tell from this photo.", "I can’t identify the plant.",
    "I'm unable to provide that information.", "I am not certain which model it is.", "I'm sorry, but I can't help with that.",
    "Sorry, I cannot answer that.", "Unfortunately, the image does not provide enough information.",
    "The photo doesn't show any details about its age.", "The provided image does not specify the year.",
    "The search results do not say when it was built.", "Based on the evidence provided, it is not possible to determine the year.",
    "It is not possible to tell from the image.", "It's unclear what the sign says.", "It is difficult to say from the picture.",
    "There is no information about the price in the evidence.", "There is not enough information to answer.",
    "Not enough information is available.", "I do not have access to real-time data.", "I have no information on this.",
    "The exact height cannot be determined from the image.", "The brand could not be identified.", "The price is not visible in the image.",
    "The answer is unknown.", "It is unknown.", "The age is unknown from the image.", "I would need more information to answer this.",
    "Please provide a clearer image.", "As an AI, I cannot see the picture.",
    "I cannot determine the exact model, but I can describe the car.", "I don't recognize this person.",
    "I'm not sure, but it might be a Ford.", "The evidence is insufficient to answer the question.", "I cannot determine the height [1].",
    "The height isn't mentioned in the evidence.", "There isn't enough information in the evidence.", "Cannot be determined.",
    "It isn’t clear from the photo who made it.", "That information is not available.", "The details aren't provided.",
    "I couldn't find it.", "The date wasn't stated in the provided text.", "Can't be identified from this.",
    "The evidence isn't sufficient to answer.", "Unable to locate the building.", "The answer is not in the given text.",
    "The height is not listed in the provided information.", "The designer is not named in the information.", "I lack the information.",
    "I have not enough information.", "Unanswerable", "Not answerable.", "Not found", "Information insufficient.", "Idk", "No answer found",
    "Ich weiß es nicht.", "ICH WEISS ES NICHT", "Leider weiß ich nicht, wie hoch er ist.", "Unbekannt.", "No lo sé.",
    "Lo siento, pero no lo sé.", "Je ne sais pas.", "**Je l’ignore.**", "Non lo so.", "Не знаю.", "لا أعرف.", "मुझे नहीं पता।", "Não sei.",
    "わかりません。", "この画像からはわかりません。", "我不知道。", "抱歉，我不知道这是什么。", "未知。",
    "모르겠습니다.", "이 사진만으로는 알 수 없습니다.", "Bilmiyorum.",
]  # fmt: skip
ANSWERS = [
    "The artist is unknown.", "No", "Zero", "The sign says: Do not enter.", "The Kiwi cannot fly.",
    "The sign does not say anything in English.", "It is not known to be poisonous.", "Unknown Pleasures, by Joy Division.",
    "I cannot determine the exact model, but it is a Ford Mustang of 1967.", "The evidence says that it is 330 m high.",
    "None of the three is poisonous.", "There is no charge for entry.", "It is difficult to grow indoors.",
    "It is impossible to swim there, since the lake is frozen.", "The information board was put up in 1990.", "Information Society",
    "Its origin is uncertain, but the first recipe dates from 1891.", "More information was added in 1990.",
    "No, kiwis cannot be found in Australia.", "The building is not listed.", "No name is given to the cubs before the third month.",
    "The year of his birth is not known.", "The text says no dogs.", "The title is not given, it is called Guernica.",
    "The lion is not in the picture.", "Found in Africa.", "I lack nothing, says the sign.",
    "Unbekannt ist der Architekt nicht.", "No se permiten perros.", "Non somiglia a un leone.", "Je ne sais quoi", "Bilmiyorum adlı şarkı",
    "Ich weiß, dass er 330 m hoch ist.", "不知火", 'The song is "No lo sé".', "Mas que nada",
]  # fmt: skip


@pytest.mark.parametrize("answer", REFUSALS)
def test_a_refusal_is_one_in_any_words(answer: str) -> None:
    assert refuses(answer)
    assert not says_something(answer)


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_is_none(answer: str) -> None:
    assert not refuses(answer)
    assert says_something(answer)


@pytest.mark.parametrize("answer", ["Ich weiß es nicht.", "Unknown"])
def test_the_rule_judge_knows_the_same_refusals_and_the_scores_only_the_official_ones(answer: str) -> None:
    assert (
        RuleJudge().judge(JudgeItem("Is it old?", "Yes, it is unknown how old.", answer)).reason
        == "a refusal in other words"
    )
    assert RuleJudge().judge(JudgeItem("Who?", answer, answer)).correct
    assert not any(is_miss(answer, rule) for rule in ("starter-kit", "research-release", "either"))


def test_no_labelled_answer_is_a_refusal() -> None:
    rows = [row for name in LABELLED for row in read_lines(SET.root / name)]
    assert len(rows) > 500
    assert [row["agent_response"] for row in rows if refuses(row["agent_response"])] == []


@given(st.text(max_size=40), st.text(max_size=40))
def test_what_a_miss_rule_takes_for_a_miss_is_a_refusal(before: str, after: str) -> None:
    for miss in ("i don't know", "I DON’T KNOW", "I do not know"):
        assert refuses(f"{before} {miss} {after}")


def finalise(text: str) -> str:
    dialog_turn = turn("How high is it?")
    dialog_turn.candidate = Candidate(text, 0.9)
    run(Finalise, [dialog_turn], context(Settings(stages=("finalise",))))
    return dialog_turn.answer


def test_what_is_given_is_spelt_as_every_miss_rule_reads_it() -> None:
    for refusal in REFUSALS:
        assert finalise(refusal) == IDK == "I don't know"
    assert finalise(ANSWERS[0]) == ANSWERS[0]


def test_a_refusal_is_not_verified() -> None:
    chat = ScriptedChat(lambda _: "Response: Correct Answer")
    dialog_turn = turn("How high is it?")
    dialog_turn.candidate = Candidate("I cannot determine its height.", 0.9)
    run(Verify, [dialog_turn], context(Settings(stages=("finalise",)), chat=chat))
    assert chat.requests == []


def test_a_reply_cut_by_its_limit_keeps_its_whole_sentences() -> None:
    cut = read_candidate(ChatReply("The tower is 330 metres high. It was not", "length"))
    assert cut is not None and cut.text == "The tower is 330 metres high."
    assert read_candidate(ChatReply("The tower was not", "length")) is None
    long = long_answer(ChatReply("The tower is 330 metres high [1]. It was not", "length"))
    assert long is not None and long.text == "The tower is 330 metres high [1]."
    assert parse_draft(ChatReply("1. It is a tower.\nAnswer: It was not", "length"), 5).answer == IDK
