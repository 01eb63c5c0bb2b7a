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
from tests.agent.scripted import ScriptedChat, context, run, turn
from tests.property.fuzzing import fuzzed, hostile_text

REFUSALS = [
    "The capital of that country is not mentioned in the given information.",  # ani_m002#2, Qwen2.5-Coder-1.5B
    "I don't know", "I don’t know.", "i dont know", "I do not know the answer.", "I really don't know", "**I don't know**",
    "I don't know the year, but it is a tower.", "",  "...", "Unknown", "Unknown.", "unknown", "N/A", "None", "Not sure.", "Unclear",
    "I cannot determine the height of the building.", "I can't tell from this photo.", "I can’t identify the plant.",
    "I am unable to identify the object in the image.", "I'm unable to provide that information.", "Unable to identify the car.",
    "I'm not sure.", "I’m not sure what this is", "I am not certain which model it is.", "I'm sorry, but I can't help with that.",
    "Sorry, I cannot answer that.", "Unfortunately, the image does not provide enough information.",
    "The image does not provide information about the price.", "The photo doesn't show any details about its age.",
    "The provided image does not specify the year.", "The evidence does not mention the architect.",
    "The information provided does not contain the answer.", "The search results do not say when it was built.",
    "Based on the image, I cannot determine the species.", "Based on the evidence provided, it is not possible to determine the year.",
    "It is not possible to tell from the image.", "It's unclear what the sign says.", "It is difficult to say from the picture.",
    "There is no information about the price in the evidence.", "There is not enough information to answer.",
    "Not enough information is available.", "No information is provided about this.",
    "I don't have sufficient information to answer this question because I cannot identify the dish.",
    "I don't have enough information.", "I do not have access to real-time data.", "I have no information on this.",
    "The exact height cannot be determined from the image.", "The brand could not be identified.",
    "The price is not visible in the image.", "The year is not mentioned in the provided evidence.",
    "The answer is unknown.", "It is unknown.", "The age is unknown from the image.", "Cannot determine.",
    "I would need more information to answer this.", "Please provide a clearer image.",
    "As an AI, I cannot see the picture.", "I cannot determine the exact model, but I can describe the car.",
    "I don't recognize this person.", "I'm not sure, but it might be a Ford.", "The evidence is insufficient to answer the question.",
    "I cannot determine the height [1].",
    "The height isn't mentioned in the evidence.", "There isn't enough information in the evidence.", "Cannot be determined.",
    "It isn't possible to determine the year.", "It isn’t clear from the photo who made it.", "That information is not available.",
    "The details aren't provided.", "I couldn't find it.", "The date wasn't stated in the provided text.", "Can't be identified from this.",
    "The evidence isn't sufficient to answer.",
    "Unable to locate the building.",
    "That information is not in the evidence.", "The answer is not in the given text.",
    "The height is not listed in the provided information.", "The designer is not named in the information.",
    "I lack the information.", "I have not enough information.",
    "Unanswerable", "Not answerable.", "Not found", "Information insufficient.",
]  # fmt: skip
ANSWERS = [
    "The species is unknown to science.", "The artist is unknown.", "It was painted by an unknown master.", "No", "No.", "Zero",
    "The sign says: Do not enter.", "It does not fly.", "The Kiwi cannot fly.", "Penguins are not able to fly.", "It is 330 metres high.",
    "The sign does not say anything in English.", "The bridge cannot be crossed by lorries.", "It is not known to be poisonous.",
    "The building is not open to the public.", "Unknown Pleasures, by Joy Division.", "The Unknown Soldier lies here.",
    "I cannot determine the exact model, but it is a Ford Mustang of 1967.", "No, the photo shows a Mustang, not a Corvette.",
    "The evidence says that it is 330 m high.", "None of the three is poisonous.", "Not Dark Yet is by Bob Dylan.",
    "There is no charge for entry.", "There is no lift in the tower.", "It is difficult to grow indoors.",
    "It is impossible to swim there, since the lake is frozen.", "The information board was put up in 1990.",
    "Information Society", "The image of the saint was painted in 1503.", "The picture was painted by Vermeer.",
    "Its origin is uncertain, but the first recipe dates from 1891.", "More than 300 people.", "More information was added in 1990.",
    "The cat cannot be kept outdoors.", "The Sphinx's builder is thought to be Khafre.", "It does not contain gluten.",
    "No, kiwis cannot be found in Australia.", "No, it is not possible to access the torch; it closed in 1916.", "It isn't poisonous.",
    "It is difficult to find in the wild.", "No, there is no reference to it in the Bible.", "No, there isn't any evidence of that.",
    "It is hard to see from the road.", "It is impossible to access the crypt.", "No, they can't be found in Africa.",
    "The kiwi can't be found in Australia.", "The information centre isn't open.", "It isn't known to be poisonous.",
    "It isn't clear water.",
    "The data centre is not in Paris.", "No, it is not possible to view the interior.", "The plant isn't available in Europe.",
    "You cannot see it from the road.", "The plant is not available in Europe.", "Knowledge", "Nobody knows why it was abandoned.",
    "The building is not listed as a monument.", "The building is not listed.", "No, it is not poisonous.",
    "No plant is given to children under three.", "No food is provided.", "No lift is available.", "No date is sweeter than this one.",
    "No name is given to the cubs before the third month.", "The date is not given as a fruit.", "The name is not given to him alone.",
    "The species is not listed in the Red Data Book.", "The height is not limited.", "The year of his birth is not known.",
    "None of the texts is signed.", "None of the pictures mentioned is by Vermeer.", "Neither the picture nor the text is by him.",
    "The text states no smoking.", "The description lists no known predators.", "The article states no fee is charged.",
    "The text lists no fatalities.", "The information includes no added sugar.", "No number is given; the house is called Rose Cottage.",
    "The title is not given, it is called Guernica.", "Its name is not mentioned. It is Rex.",
    "The lion is not in the picture.", "The text says no dogs.", "The article mentions nobody but Darwin.", "Found in Africa.",
    "The information is not in French.", "I lack nothing, says the sign.",
]  # fmt: skip


@pytest.mark.parametrize("answer", REFUSALS)
def test_a_refusal_is_one_in_any_words(answer: str) -> None:
    assert refuses(answer)
    assert not says_something(answer)


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_is_none(answer: str) -> None:
    assert not refuses(answer)
    assert says_something(answer)


@fuzzed(100)
@given(hostile_text)
def test_no_answer_breaks_the_rule(answer: str) -> None:
    assert isinstance(refuses(answer), bool)


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
