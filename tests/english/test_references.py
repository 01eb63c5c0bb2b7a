"""Follow-ups are made to stand alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.english.references import extract_names, points_at_picture, resolve


def dialog(*contents: str) -> list[dict[str, str]]:
    return [{"role": ("user", "assistant")[index % 2], "content": content} for index, content in enumerate(contents)]


@pytest.mark.parametrize(
    ("history", "query", "question", "needs_image"),
    [
        ([], "How tall is this tower?", "How tall is this tower?", True),
        (dialog("What is this?", "The Eiffel Tower."), "How tall is it?", "How tall is it?", True),
        (
            dialog("Who designed this?", "It was designed by Stephen Sauvestre."),
            "Where was he born?",
            "Where was Stephen Sauvestre born?",
            False,
        ),
        (
            dialog("Who painted this?", "Leonardo da Vinci painted it."),
            "What are his other works?",
            "What are Leonardo da Vinci's other works?",
            False,
        ),
        (
            dialog("Where does this live?", "The koala lives in Australia."),
            "What is the capital of that country?",
            "What is the capital of Australia?",
            False,
        ),
        (
            dialog(
                "Where does this live?",
                "The koala lives in Australia.",
                "What is the capital of that country?",
                "The capital is Canberra.",
            ),
            "And how heavy is this animal?",
            "And how heavy is this animal?",
            True,
        ),
        (
            dialog("Who designed this?", "Stephen Sauvestre.", "Where was he born?", "In Bonnétable."),
            "When did he die?",
            "When did Stephen Sauvestre die?",
            False,
        ),
        (
            dialog("What is this?", "A koala."),
            "What is the population of Canada?",
            "What is the population of Canada?",
            False,
        ),
        (
            dialog("What are these horns made of?", "They are made of Keratin."),
            "How many of the animals were there in 2018?",
            "How many of the animals were there in 2018?",
            True,
        ),
        (
            dialog("In which town was this made?", "It was made in Meissen."),
            "Who founded the factory there?",
            "Who founded the factory in Meissen?",
            False,
        ),
        (
            dialog("In which town was this made?", "It was made in Meissen."),
            "Which train goes there from Dresden?",
            "Which train goes to Meissen from Dresden?",
            False,
        ),
        (
            dialog("In which town was this made?", "It was made in Meissen."),
            "How far is Dresden from there?",
            "How far is Dresden from Meissen?",
            False,
        ),
    ],
)
def test_references_are_resolved(history: list[dict[str, str]], query: str, question: str, needs_image: bool) -> None:
    resolved = resolve(query, history)
    assert (resolved.question, resolved.needs_image) == (question, needs_image)


STATUE = "It was designed by Frédéric Auguste Bartholdi, a gift of France to the United States."
TOWER = ("Who built this tower?", "Gustave Eiffel.", "When was he born?", "In 1832.")
LINCOLN = (
    "Who is this statue of?",
    "It is a statue of Abraham Lincoln.",
    "Who was his wife?",
    "His wife was Mary Todd.",
)
FORD = ("Which company made this?", "Ford Motor Company.", "Where is Ford Motor Company based?", "In Dearborn.")


@pytest.mark.parametrize(
    ("history", "query", "question"),
    [
        # a person is by whom it was made, not where
        (("Who made this?", STATUE), "When was he born?", "When was Frédéric Auguste Bartholdi born?"),
        (("Who made this?", "It was painted by Vincent van Gogh in Arles."), "When was he born?", "When was Vincent van Gogh born?"),
        (("Who made this?", "It was painted in Arles by Vincent van Gogh."), "How old was that man?", "How old was Vincent van Gogh?"),
        (("Who made this?", "The Eiffel Tower was built by Gustave Eiffel."), "When did he die?", "When did Gustave Eiffel die?"),
        (("Who made this?", "Leonardo da Vinci painted it in Florence."), "When did he die?", "When did Leonardo da Vinci die?"),
        (("Who made this?", "The architect of Big Ben is Augustus Pugin."), "Who taught him?", "Who taught Augustus Pugin?"),
        (("Who named it?", "It was named by John R. Forster in 1781."), "When did he die?", "When did John R. Forster die?"),
        (("Where is this from?", "It comes from Arles."), "When was he born?", "When was he born?"),
        # "it" is no person
        (TOWER, "How tall is it?", "How tall is it?"),
        ((*TOWER, "How tall is it?", "330 m."), "When did he die?", "When did Gustave Eiffel die?"),
        (("What is this?", "A fort.", "Who was Ada Lovelace?", "A mathematician."), "What is its name?", "What is its name?"),
        # nor is he a she
        (LINCOLN, "When was she born?", "When was Mary Todd born?"),
        ((*LINCOLN, "When was she born?", "In 1818."), "When did he die?", "When did Abraham Lincoln die?"),
        ((*LINCOLN[:3], "I don't know"), "When was she born?", "When was she born?"),
        ((*LINCOLN, "When was he born?", "In 1809."), "How tall was he?", "How tall was Abraham Lincoln?"),
        # "that" that begins a clause, and this year
        (FORD, "What is the largest car that they make?", "What is the largest car that Ford Motor Company make?"),
        (FORD, "Who flew the one that was first?", "Who flew the one that was first?"),
        (FORD, "How many people work for that?", "How many people work for Ford Motor Company?"),
        (FORD, "Is that a public company?", "Is Ford Motor Company a public company?"),
        (("Where does this live?", "It lives in Bhutan."), "Who rules that country this year?", "Who rules Bhutan this year?"),
        (("Where does this live?", "It lives in Bhutan."), "Is it hot in that country this summer?", "Is it hot in Bhutan this summer?"),
    ],
)  # fmt: skip
def test_a_pronoun_means_what_it_can_mean(history: tuple[str, ...], query: str, question: str) -> None:
    assert resolve(query, dialog(*history)).question == question


def test_it_is_in_the_picture_again_after_a_person() -> None:
    resolved = resolve("How tall is it?", dialog(*TOWER))
    assert (resolved.needs_image, resolved.pointing, resolved.person) == (True, "this tower", False)


BRIDGE = ("In which city is this bridge?", "It is in San Francisco.", "How many people live there?", "About 800,000.")
CAR = ("Who makes this car?", "It is made by BMW.", "Where is that company based?", "In Munich.")
PAINTING = (
    "What is this painting?",
    "The Mona Lisa.",
    "Who painted it?",
    "Leonardo da Vinci.",
    "When was he born?",
    "In 1452.",
)


@pytest.mark.parametrize(
    ("history", "query", "pointing"),
    [
        (TOWER, "How tall is the tower?", "this tower"),
        (BRIDGE, "How long is the bridge?", "this bridge"),
        (BRIDGE, "Is the bridge longer than Tower Bridge?", "this bridge"),
        (CAR, "What is the top speed of the car?", "this car"),
        (PAINTING, "Where is the painting now?", ""),  # of no known kind
        (("Who made the red coin on the left?", "Bram Tiller.", "When was he born?", "In 1832."), "What is the coin worth?",
         "the red coin on the left"),
        # of two that were pointed at
        (("Who made this tower?", "I don't know", "Who made this bridge?", "Bram Tiller.", "When was he born?", "In 1832."),
         "How tall is the tower?", "this tower"),
        (("What tower is this?", "I don't know", "What bridge is this?", "I don't know"), "How tall is the tower?", "this tower"),
        # and the one after it
        ((*BRIDGE, "How long is the bridge?", "2,737 m."), "When was it opened?", "this bridge"),
    ],
)  # fmt: skip
def test_a_noun_that_pointed_at_the_picture_points_at_it_again(
    history: tuple[str, ...], query: str, pointing: str
) -> None:
    resolved = resolve(query, dialog(*history))
    assert (resolved.question, resolved.topic, resolved.sure, resolved.needs_image) == (query, None, True, True)
    assert resolved.pointing == pointing


@pytest.mark.parametrize(
    ("history", "query"),
    [
        (CAR, "When was the car company founded?"),
        (CAR, "Which was the first car?"),
        (BRIDGE, "How long is the longest bridge?"),
        (BRIDGE, "Is the Tower of London near the bridge?"),
        ((*BRIDGE, "What is the oldest bridge of San Francisco?", "The Third Street Bridge."), "How long is the bridge?"),
        ((*TOWER, "What else did he build?", "A tower in Bordeaux."), "How tall is the tower?"),
        (("Which country is this from?", "Bhutan.", "Who rules that country?", "Jigme Wangchuck."), "How large is the country?"),
        (("How many were sold this year?", "12.", "Who was Ada Lovelace?", "A mathematician."), "Who ruled in the year 1815?"),
    ],
)  # fmt: skip
def test_another_thing_of_the_noun_does_not(history: tuple[str, ...], query: str) -> None:
    assert not resolve(query, dialog(*history)).needs_image


JAPAN = ("It is 50 m.", "Which country is it in?", "It is in Japan.", "What's the capital of that country?", "Tokyo.")


@pytest.mark.parametrize(
    ("first", "query"),
    [
        ("How tall is this bridge?", "When did the bridge collapse?"),
        ("How tall is this mountain?", "When did the mountain last erupt?"),
        ("How tall is this plant?", "How often does the plant bloom?"),
        ("How big is this dog?", "How much does the dog shed?"),
        ("How fast is this car?", "How many passengers does the car seat?"),
        ("How fast is this car?", "How many passengers does the car seat on the bench?"),
        ("How old is this church?", "When did the church burn down?"),
        ("How old is this church?", "When was the church completed?"),
        ("How old is this church?", "When was the church officially opened?"),
        ("Who made the red coin on the left?", "Does the red coin shine?"),
        ("How big is this dog?", "What is the name of the dog's owner?"),
        ("How tall is this bridge?", "Is the bridge, which fell, open?"),
        ("How tall is this bridge?", "Did the bridge collapse because of wind?"),
        ("How tall is this bridge?", "Did the bridge collapse due to wind?"),
        ("How tall is this bridge?", "Did the bridge close yesterday?"),
        ("How tall is this bridge?", "Does the bridge carry trains?"),
        ("How tall is this bridge?", "How many cars can the bridge carry per day?"),
        ("How tall is this bridge?", "How many people cross the bridge daily?"),
        ("How tall is this bridge?", "Is the bridge tall?"),
        ("How tall is this plant?", "How often should I water the plant each week?"),
        ("How big is this dog?", "Is the dog friendly?"),
        ("How fast is this car?", "Does the car seat four people?"),
        ("How fast is this car?", "Did the car sell well?"),
        ("How fast is this car?", "Does the car park itself?"),
    ],
)
def test_any_verb_may_follow_a_noun_that_pointed(first: str, query: str) -> None:
    resolved = resolve(query, dialog(first, *JAPAN))
    assert (resolved.needs_image, resolved.sure) == (True, True)


@pytest.mark.parametrize(
    ("first", "query"),
    [
        ("How tall is this bridge?", "How much is the bridge loan?"),
        ("How tall is this bridge?", "Did the bridge loan help?"),
        ("How tall is this bridge?", "What does the bridge loan cost?"),
        ("How tall is this bridge?", "Who won the bridge tournament?"),
        ("How fast is this car?", "How wide is the car seat?"),
        ("How fast is this car?", "Does the car seat have heating?"),
        ("How fast is this car?", "Where does the car company sell trucks?"),
        ("How fast is this car?", "Where is the car company?"),
        ("How fast is this car?", "Does the old car rust?"),
        ("How fast is this car?", "What are the car-like ones?"),
        ("How many are these?", "What is the ?"),
        ("How tall is this bridge?", "How much is the bridge daily toll?"),
        ("How tall is this bridge?", "Did the bridge tournament yesterday end?"),
        ("How tall is this bridge?", "When was the Bridge Theatre?"),
        ("How tall is this bridge?", "Is the Bridge Theatre open?"),
        ("How tall is this bridge?", "Did the Bridge Theatre close yesterday?"),
        ("How big is this lion?", "Was the Lion King popular?"),
        ("How big is this lion?", "Did the Lion King sell well?"),
        ("How old is this building?", "Did the building boom end because of the war?"),
        ("How fast is this car?", "How much does the car insurance per year cost?"),
        ("How fast is this car?", "Does the car industry today profit?"),
        ("How fast is this car?", "Where is the car park?"),
    ],
)
def test_a_noun_that_begins_the_name_of_another_thing_does_not_point(first: str, query: str) -> None:
    assert not resolve(query, dialog(first, *JAPAN)).needs_image


def test_the_first_noun_of_a_question_is_the_one_that_points() -> None:
    history = dialog(
        "Who made this tower?", "I don't know", "Who made this bridge?", "Bram Tiller.", "When was he born?", "1832."
    )
    assert resolve("Is the tower near the bridge?", history).pointing == "this tower"
    assert resolve("Is the bridge near the tower?", history).pointing == "this bridge"


def test_a_person_is_still_known_after_the_noun() -> None:
    history = dialog(*TOWER, "How tall is the tower?", "330 m.")
    assert resolve("When did he die?", history).question == "When did Gustave Eiffel die?"


def test_a_pronoun_without_antecedent_is_unsure() -> None:
    assert not resolve("Where was he born?", dialog("what is this?", "i do not know")).sure


def test_a_person_within_the_question_is_no_pronoun_without_antecedent() -> None:
    history = dialog("What tower is this?", "I don't know")
    assert resolve("What did the man it is named after study after he retired?", history).sure
    assert not resolve("Who was the king before him?", history).sure


def test_names_are_found_without_sentence_openers() -> None:
    assert extract_names("It was built by Gustave Eiffel in Paris.") == ["Gustave Eiffel", "Paris"]
    assert extract_names("It opened in March 1889.") == []


@given(
    st.lists(
        st.dictionaries(st.sampled_from(["role", "content"]), st.one_of(st.none(), st.text(max_size=40)), max_size=2),
        max_size=6,
    ),
    st.text(max_size=60),
)
def test_no_history_breaks_it(history: list[dict[str, str]], query: str) -> None:
    assert isinstance(resolve(query, history).question, str)


@pytest.mark.parametrize(
    "query",
    [
        "How tall is this?",
        "Who made these?",
        "What is it?",
        "How old was he?",
        "What is shown here?",
        "Which is the left one?",
    ],
)
def test_some_questions_point_at_a_picture(query: str) -> None:
    assert points_at_picture(query)


@pytest.mark.parametrize(
    "query",
    [
        "How much does a family ticket cost?",
        "When is this museum open?",
        "Is it possible to park?",
        "When is it open this weekend?",
        "What are the opening hours here?",
        "How long is it open?",
        "Was kostet eine Familienkarte?",
    ],
)
def test_questions_that_pages_can_answer_point_at_none(query: str) -> None:
    assert not points_at_picture(query)


@pytest.mark.parametrize(
    ("questions", "query", "pointing"),
    [
        (
            ["Which planet is on the poster on the left?"],
            "How hot does it get on its surface?",
            "the poster on the left",
        ),
        (["What bird is this?"], "How old can it get in captivity?", "this bird"),
        (["Which big cats are these?"], "How much can one of them weigh?", "these big cats"),
        (["Who wrote the book on the left?"], "When was the other book published?", "the book on the right"),
        (
            ["What apple is on the right?", "And where was the other one bred?"],
            "How heavy is it?",
            "the apple on the left",
        ),
        (["What is the animal in the middle?"], "What does it eat?", "the animal in the middle"),
        (["What is at the top?"], "What is it made of?", "the thing at the top"),
        # nothing to go back to, a thing of its own, several, or not about the picture
        (["What is this?"], "How old can it get?", ""),
        (["What bird is this?"], "How old is this tree?", ""),
        (["What bird is this?"], "How old is the one on the right?", ""),
        (["What bird is on the left?"], "Which of the two is larger?", ""),
        (["What bird is on the left?"], "And the animal on the postcard, what is it called?", ""),
        (["What bird is on the left?"], "What is the capital of France?", ""),
    ],
)
def test_it_is_where_an_earlier_question_pointed(questions: list[str], query: str, pointing: str) -> None:
    history = dialog(*(each for question in questions for each in (question, "I don't know")))
    assert resolve(query, history).pointing == pointing


def test_a_question_that_begins_a_dialog_points_by_itself() -> None:
    assert resolve("What bird is on the left?", []).pointing == ""
