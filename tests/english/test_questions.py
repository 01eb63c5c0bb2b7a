"""Questions as people put them of what they see: the object asked about, what kind of question it is, and whether the photo stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.english.object_phrases import extract_object_phrases, find_position
from agents.english.question_kinds import classify_question, is_time_independent
from agents.english.references import resolve
from agents.stages.tools import ToolRouter, rule_tools
from agents.turn import Tools
from tests.agent.scripted import turn
from tests.english.test_references import dialog

OBJECTS = {
    "What are the requirements to drive this vehicle?": "vehicle",
    "What is the conservation status of these wild animals?": "wild animals",
    "What is the tall building in this image called?": "tall building",
    "What breed is the dog in the photo?": "dog",
    "Which of the fruits in this picture is poisonous to cats?": "fruits",
    "What are the health benefits of eating this vegetable raw?": "vegetable",
    "Where do these wild animals sleep?": "wild animals",
    "How does this insect survive the winter?": "insect",
    "What does this red car run on?": "red car",
    "Who invented the process that this machine relies on?": "machine",
    "What is the name of the bird on the branch?": "bird",
    "Who is the author of the book next to the lamp?": "book",
    "What is the wingspan of this kind of bird?": "bird",
    "Where did this breed of sheep originate?": "sheep",
    "What is the gestation period of this bird species?": "bird",
    "Which country invented this game?": "game",
    "Is the plant on the windowsill poisonous to dogs?": "plant",
    "What is the best time to visit this national park?": "national park",
    "What did the Romans use this building for?": "building",
    "What do you call those shoes?": "shoes",
    "How long does it take to cook this pasta?": "pasta",
    "In the wild, how long does this big cat live?": "big cat",
    "What was the first flight of this type of aircraft?": "aircraft",
    "Can the flowers of this plant be eaten?": "plant",
    "How many legs does the creature in the picture have?": "creature",
    "Which king had the castle in this photo built?": "castle",
    "Could this dish be made without the eggs?": "dish",
    "What is the average lifespan of the turtle shown here?": "turtle",
}  # fmt: skip
POSITIONS = {
    "What grows at the top of this plant?": None,
    "What left the vegetable vulnerable to frost?": None,
    "Is this the right time to prune this tree?": None,
    "What is the top speed of this car?": None,
    "Was this built in the Middle Ages?": None,
    "Which side is the right one to open?": None,
    "How far below sea level is this city?": None,
    "What is left of this castle today?": None,
    "What is the lower price limit for this?": None,
    "In the middle of which sea does this island lie?": None,
    "Who painted the picture on the right?": "right",
    "What is the left car worth?": "left",
    "Who made the bag at the bottom?": "bottom",
    "What is the middle one called?": "middle",
    "Which brand is the leftmost bottle?": "left",
    "What is on the top shelf?": "top",
    "What is in the center of the image?": "middle",
    "Who wrote the book at the top of the picture?": "top",
    "Who designed the building on the left?": "left",
    "What is the rightmost animal?": "right",
    "What is the thing in the middle called?": "middle",
    "How tall is this?": None,
    "Is it to the left of the river?": None,
    "What is in the bottom left corner?": "bottom",
    "And the one on the right, how many moons does it have?": "right",
}
SEARCHED = [
    "How many species of this bird are there?", "What color is the flesh of this fruit?", "What colour are the eggs of this bird?",
    "How many beats per minute does the heart of this animal make?", "What did Richard Owen say about this animal?",
    "What tests does this vehicle have to pass?", "Which integral part of the plant is eaten?", "What is the area of this national park?",
    "What is the volume of this lake?", "What is the total population of this city?",
    "What is the difference between this and a crocodile?",
    "What colours does this phone come in?", "What do experts say about this diet?", "How many people can stand on this bridge?",
    "Which spell does the wizard with this wand use?", "Has this book been translated into French?",
    "What is the oldest story written about this?",
    "What does this symbol mean in Buddhism?", "What is the sum of money this painting was sold for?",
    "Is this derivative work protected?",
    "What color does this leaf turn in autumn?", "How many seats are there in this car?", "Who solved the problem named after this?",
]  # fmt: skip
SEEN = [
    "What colour is this car?", "What color are the shoes?", "How many people are in the picture?", "How many bottles can you see?",
    "What is the man wearing?", "What does the sign say?", "Translate this sign.", "Solve this equation.",
    "What is the color of the car?",
    "What is the area of this triangle?", "What is the sum of these numbers?", "What is written on the board?", "What does it say?",
]  # fmt: skip
KEEP_THE_PHOTO = [
    "What is the price on Amazon?", "How much does one cost in the US?", "Is the Corvette faster?", "Can you buy one at Walmart?",
    "Does it grow in Canada?", "How is the weather for growing it in Texas?", "How many were sold in Germany?",
    "When was it launched in Europe?",
]  # fmt: skip
LEAVE_THE_PHOTO = [
    "What is the population of Canada?",
    "Who was Gustave Eiffel?",
    "When did Canada become independent?",
]


@pytest.mark.parametrize(("question", "phrase"), OBJECTS.items())
def test_the_object_asked_about(question: str, phrase: str) -> None:
    assert extract_object_phrases(question, 5)[:1] == [phrase]


@pytest.mark.parametrize(("question", "position"), POSITIONS.items())
def test_a_position_is_a_place_in_the_picture(question: str, position: str | None) -> None:
    assert find_position(question) == position


@pytest.mark.parametrize(
    ("question", "more"),
    [
        ("According to the label, who makes this and where are they headquartered?", True),
        ("Translate this and tell me who wrote it", True),
        ("What is the price on this menu compared to the national average?", True),
        ("What is written here? Who said it?", True),
        ("According to the sign, when does it open and how much is a ticket?", False),
        ("What does the sign say and what does it mean?", False),
        ("How much do these cost altogether, and how much change do I get from 20?", False),
        ("The total isn't printed on my receipt. What should it be?", False),
        ("What is the price on this menu compared to that one?", False),
    ],
)
def test_a_further_clause_may_ask_for_what_is_not_printed(question: str, more: bool) -> None:
    assert classify_question(question).open_world is more
    assert rule_tools(turn(question), ToolRouter.Options()) == Tools(image=more, text=more)


@pytest.mark.parametrize("question", SEARCHED)
def test_what_cannot_be_seen_is_searched(question: str) -> None:
    assert not classify_question(question).self_contained
    assert rule_tools(turn(question), ToolRouter.Options()) == Tools(image=True, text=True)


@pytest.mark.parametrize("question", SEEN)
def test_what_stands_in_the_picture_is_not(question: str) -> None:
    assert classify_question(question).self_contained


@pytest.mark.parametrize(
    "question",
    [
        "What is on at this cinema this evening?", "How warm will it be this spring?", "Is this park open this season?",
        "Who won the championship this year?", "What is the weather like this morning in Rome?", "Is it open today?", "How old is he now?",
        "Who is the best team this season so far?", "Does it bloom this summer?", "How did they play this day?", "WHAT DOES IT COST TODAY?",
        "Now, what does it cost today?", "Which shows are there this week?", "Is this day lily cheaper this winter?",
        "Today, who is the owner?", "Is there a concert this afternoon or tonight?", "Who leads the league right now?",
    ],
)  # fmt: skip
def test_the_present_is_asked_for(question: str) -> None:
    assert classify_question(question).now


@pytest.mark.parametrize(
    "question",
    [
        "Is this morning glory poisonous to dogs?", "Is this day lily edible?", "Is this autumn crocus poisonous?",
        "Is this spring roll vegan?", "Is this winter jacket waterproof?", "When was this summer palace built?", "Who founded USA Today?",
        "Now, how tall is it?", "OK, now who made it?", "Who makes this evening dress?", "How much caffeine is in this instant coffee?",
        "What does this fall foliage show?", "How long does this minute steak take?", "Who wrote The Day After Tomorrow?",
        "Who directed Apocalypse Now?", "Who sang the song Yesterday first?", "How long is this season ticket?",
        "What is served with this afternoon tea?", "Is this hour hand made of gold?",
    ],
)  # fmt: skip
def test_a_name_with_a_time_in_it_is_not_the_present(question: str) -> None:
    assert not classify_question(question).now


@pytest.mark.parametrize(
    "question",
    [
        "What am I looking at right now?", "What is this right now?", "Who is that on the left now?", "What is he holding right now?",
        "What is the make of the car in front of me right now?", "What is the name of this bird, currently?",
        "What does this sign say now?", "What kind of bird is that on the branch right now?",
        "Which model is the car on the left, at the moment?",
        "What is this building currently used as?", "What\u2019s this tower used for today?", "Is this species still alive today?",
    ],
)  # fmt: skip
def test_what_is_shown_does_not_depend_on_the_present(question: str) -> None:
    assert classify_question(question).now and is_time_independent(question)


@pytest.mark.parametrize(
    "question",
    [
        "What is this worth now?", "What is this stock trading at right now?", "What is this company's current price?",
        "What does this cost today?", "What is the weather here right now?", "Who is the mayor here now?",
        "Who is the king of this country now?", "What time is it right now?", "What day is it today?", "What is the score at the moment?",
        "Is this museum open now?", "Which team is at the top right now?", "What is the name of the president now?",
        "What is the latest model of this car?", "What brand is the market leader now?", "What is this, and what does it cost now?",
        "What is this building used for and is it open now?", "What does this sign say, and is it open now?", "Is he still alive?",
        "Where is this ship now?", "What is the newest breed of dog?", "Who is the current owner of this building?",
        "How many people are visiting it right now?", "Who was this yesterday?",
    ],
)  # fmt: skip
def test_what_changes_depends_on_the_present(question: str) -> None:
    assert not is_time_independent(question)


@pytest.mark.parametrize("question", KEEP_THE_PHOTO)
def test_a_follow_up_with_a_place_or_a_shop_keeps_its_photo(question: str) -> None:
    assert resolve(question, dialog("What is this?", "It is a Ford Mustang.")).needs_image


@pytest.mark.parametrize("question", LEAVE_THE_PHOTO)
def test_a_follow_up_about_another_thing_does_not(question: str) -> None:
    assert not resolve(question, dialog("What is this?", "It is a Ford Mustang.")).needs_image


@given(st.text(max_size=120))
def test_no_question_breaks_the_rules(question: str) -> None:
    for phrase in extract_object_phrases(f"what is this {question}", 5):
        assert 1 <= len(phrase.split()) <= 3
    find_position(question)
    classify_question(question)
