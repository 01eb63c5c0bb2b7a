"""What the rule judge has to decide, case by case: written by hand, one line a case."""

from __future__ import annotations

import pytest

from evaluation.judge.rule_judge import RuleJudge
from evaluation.records import JudgeItem

TALL = ("How tall is this tower?", "The Eiffel Tower is 330 metres (1,083 ft) tall.")
TALL_ACCEPT = ("330 metres", "330 m", "1,083 ft")
WHO = ("Who designed this building?", "The Eiffel Tower was designed by Stephen Sauvestre.")
WHAT = ("What is this tower?", "This is the Eiffel Tower in Paris.")
YEAR = ("When did this bridge open?", "The Golden Gate Bridge opened on 27 May 1937.")
OLDER = ("Which of the two is older?", "The Colosseum is older than the Eiffel Tower.")
LIST = ("Which animals are on the table?", "A lion, a tiger and a bear are on the table.")
NATIVE = ("Is this animal native to Australia?", "Yes, the koala is native to Australia.")
FLY = ("Can this bird fly?", "No, penguins cannot fly.")
COUNT = ("How many towers does this castle have?", "The castle has four towers.")
SEATS = ("How many people does it seat?", "It seats more than 5 people.")
ONE_COLOUR = ("What colour is the door?", "The door is red.")
COLOUR = ("What colours does the flag have?", "The flag is red and white.")
IDK = ("What does it cost today?", "I don't know")

VEHICLES = (
    "Which of these two entered service first?",
    "The Bradley on the left entered service in 1981; the Stryker on the right followed in 2002.",
    ("Bradley", "the left one"),
)
LEOPARD = ("Is that more than a leopard?", "Yes, a leopard weighs only up to 72 kg.", ("yes",))
CAPITAL = (
    "What is the capital of its country?",
    "It is the animal of Botswana, whose capital is Gaborone.",
    ("Gaborone",),
)

TOGETHER = ("What do both cost together?", "25 florins", ("25 florins", "25"))
HALF = ("What do I pay?", "2.50 florins", ("2.50 florins", "2.5"))
ENGINE = ("Which of these cars has its engine in the back?", "The Beetle on the left has it in the rear.", ("Beetle",))
THICKER = ("Which coin is thicker, the left or the right one?", "The 1 euro coin on the right is.", ("the right one",))
HEAD = ("Who is the head of it?", "Elon Musk is the CEO of SpaceX.", ("Elon Musk",))
HEIGHT = ("How tall is the tower?", "It is 65 metres (213 ft) tall.", ("65 m", "213 ft"))
AGE = ("How old was he?", "He was four.", ("four", "4 years"))
KOALA = ("What was its name?", "The koala given water by the firefighter David Tree was called Sam.", ("Sam",))
CREW = ("How many flew?", "Four flew: Anna, Boris, Carla and Dora.", ("four",))
DAY = ("How long is its day?", "A day on Saturn lasts about 10.7 hours.", ("10.7 hours",))
COPPER = ("How heavy is the copper coin?", "The 10 yen coin weighs 4.5 g.", ("4.5 g",))
SUM = ("How many yen are on the table?", "16 yen", ("16 yen",))
THREE = ("How heavy are three of them?", "18 kg", ("18 kg",))
CHANGE = (
    "Is it enough, and how much change do I get?",
    "Yes. 3 dollars are enough, you get 25 cents.",
    ("yes, 25 cents",),
)
PALMS = ("How many do I need at the very least?", "At least 4 trees, of up to 75 fruits.", ("4",))
PLANETS = ("Which turns longer?", "Venus needs 243 days, Mercury 59 days.", ("Venus",))

WITH_ACCEPT = [
    # names and figures that a sum is of are no other candidates
    (*TOGETHER, "The cello and the Vellmark bassoon together cost 25 florins for a week.", True),
    (*TOGETHER, "14 + 11 = 25 florins.", True),
    (*TOGETHER, "They cost 25 florins or 30 florins.", False),
    (*TOGETHER, "14 + 12 = 25 florins.", False),
    (*HALF, "You pay half of 5 florins, 2.50 florins.", True),
    (*HALF, "You pay half of 6 florins, 2.50 florins.", False),
    (*HALF, "You pay 5 florins. It was 2.50 florins.", False),
    (*AGE, "He died aged 4 years and 11 months.", True),
    (*AGE, "He died aged 4 years or 11 months.", False),
    # a side that neither question nor ground truth speaks of
    (*ENGINE, "The Beetle, the red car on the right, has its engine in the back.", False),
    (*ENGINE, "The Beetle; the car on the right has it in the front.", True),
    (*ENGINE, "The Beetle, unlike the car on the right.", True),
    # what is denied of a thing is no answer
    (*THICKER, "The right one is not thicker.", False),
    (*THICKER, "The coin on the left is not thicker, the right one is.", True),
    (*HEAD, "Elon Musk is not the CEO of SpaceX.", False),
    (*HEAD, "Elon Musk, who is not its founder.", True),
    (*HEIGHT, "The tower is not 65 metres (213 ft) tall.", False),
    (*HEIGHT, "The tower is 65 metres (213 ft) tall, not 70 m (230 ft).", True),
    # places
    (*KOALA, "The koala given water by the firefighter Sam was called David Tree.", False),
    (*KOALA, "Sam was the koala given water by the firefighter David Tree.", True),
    ("What is it?", "Rembrandt painted the Night Watch.", ("Night Watch",), "The Night Watch by Rembrandt", True),
    ("Who are they?", "Ann and Bob are on it.", ("Ann and Bob",), "They are Bob and Ann.", True),
    (*PLANETS, "Mercury needs 59 days, Venus 243 days.", True),
    (*PLANETS, "Venus needs 59 days, Mercury 243 days.", False),
    # a list, and opposites
    (*CREW, "Four flew: Anna, Boris, Carla and Dora.", True),
    (*CREW, "Four flew: Anna, Boris, Carla and Emil.", False),
    ("What is a female called?", "A female ferret is a jill.", ("jill",), "A male ferret is called a jill.", False),
    ("What is a female called?", "A female ferret is a jill.", ("jill",), "The male is a hob, a female a jill.", True),
    ("Which is the oldest?", "The Colosseum.", ("Colosseum",), "The Colosseum is the youngest.", False),
    ("What is it for?", "It breathes waste or eggs.", ("it breathes",), "It breathes waste or eggs.", True),
    # a bare figure has the unit of the ground truth, or may lack it
    ("What does a ticket cost?", "It costs 14.50 EUR.", ("14.50",), "A ticket costs $14.50.", False),
    ("What does a ticket cost?", "It costs 14.50 EUR.", ("14.50",), "14.50", True),
    ("Which turns longer?", "Venus turns 243 days, Mercury 59 days.", ("Venus",), "Venus: 243 days against 59.", True),
    (
        "What would it weigh?",
        "At 0.38 of the gravity, 19 kg.",
        ("19 kg",),
        "With 0.38 g it would weigh 19 kilos.",
        True,
    ),
    # further figures beside one that agrees, unless the question asks for a figure
    (*LEOPARD, "Yes, a jaguar of up to 158 kg weighs more than a leopard of 31-72 kg.", True),
    (*LEOPARD, "Yes, it weighs more: a leopard weighs up to 85 kg.", False),
    (*LEOPARD, "Yes, a jaguar of up to 158 kg weighs less than a leopard of 31-72 kg.", False),
    (
        "She came in 1880. Was it here?",
        "Yes, from 1855 to 1890.",
        ("yes",),
        "Yes, from 1855 until another opened in 1892.",
        True,
    ),
    ("How old can it get?", "It lives 10 years.", ("10 years",), "It lives 10 years or 30 years.", False),
    # another thing's figure beside the right one
    (*DAY, "About 10.7 hours against about 16 hours.", True),
    (*DAY, "About 10.7 hours, vs. 16 hours on Neptune.", True),
    (*DAY, "16 hours against about 10.7 hours.", False),
    (*DAY, "About 10.7 hours or about 16 hours.", False),
    (*PLANETS, "Venus, about 146 days versus about 35.", False),
    (*COPPER, "The 10 yen coin weighs 4.5 g, the 5 yen coin 3.75 g.", True),
    (*COPPER, "The 5 yen coin weighs 3.75 g.", False),
    (*COPPER, "The 10 yen coin weighs 4.5 g or 3.75 g.", False),
    (*CHANGE, "Yes, the two-dollar and the one-dollar coin are enough, with $0.25 change.", True),
    (*CHANGE, "Yes, the two-dollar and the one-dollar coin are enough, with $1 change.", False),
    (*SUM, "There are 16 yen: 10 yen, 5 yen and 1 yen.", True),
    (*SUM, "There are 16 yen: 10 yen, 5 yen and 2 yen.", False),
    (*THREE, "Three cats (4 to 6 kg each) weigh about 18 kg, under 20 kg.", True),
    (*THREE, "Three cats (7 to 9 kg each) weigh about 18 kg.", False),
    (*PALMS, "At least 4 palms, as one bears at most about 75 fruits.", True),
    # sides, places and the first of several
    (*VEHICLES, "The Bradley on the left, before the Stryker on the right.", True),
    (*VEHICLES, "The left one, a Bradley (1981), was before the Stryker on the right (2002).", True),
    (*VEHICLES, "The Bradley on the right, before the Stryker on the left.", False),
    (*VEHICLES, "The left vehicle, the Stryker, entered service before the Bradley.", False),
    (*CAPITAL, "The animal of Botswana, so the capital is Gaborone.", True),
    (*CAPITAL, "The animal of Gaborone, so the capital is Botswana.", False),
    ("May I bring my dog?", "No, dogs may not come in.", ("no", "may not"), "Yes, dogs may not come in.", False),
    (
        "What happens?",
        "A large male changes sex.",
        ("a large male changes sex",),
        "A large female changes to the male sex.",
        False,
    ),
    # figures and units
    ("What is the total?", "The total is 4.80.", ("4.80",), "The total on this receipt is $4.80.", True),
    ("What is the total?", "The total is 4.80.", ("4.80",), "The total on this receipt is $4.90.", False),
    ("What does a ticket cost?", "It costs 14.50 EUR.", ("14.50 EUR",), "A ticket costs $14.50.", False),
    (*TALL, TALL_ACCEPT, "The Eiffel Tower is 330 metres tall.", True),
    (*TALL, TALL_ACCEPT, "It is 1,083 feet tall.", True),
    (*TALL, TALL_ACCEPT, "It's about 1083 ft high", True),
    (*TALL, TALL_ACCEPT, "330m", True),
    (*TALL, TALL_ACCEPT, "0.33 km", True),
    (*TALL, TALL_ACCEPT, "Three hundred and thirty metres.", True),
    (*TALL, TALL_ACCEPT, "It is 330 metres, or 1,083 feet, tall.", True),
    (*TALL, TALL_ACCEPT, "It is 300 metres tall.", False),
    (*TALL, TALL_ACCEPT, "It is 330 feet tall.", False),
    (*TALL, TALL_ACCEPT, "It is 330 metres or 300 metres tall.", False),
    (*TALL, TALL_ACCEPT, "It is 330 m tall. The tower is 250 m tall.", False),
    (*TALL, TALL_ACCEPT, "It is not 330 metres tall.", False),
    (*TALL, TALL_ACCEPT, "It is very tall.", False),
    (*TALL, TALL_ACCEPT, "It is 1083 metres tall.", False),
    (*TALL, TALL_ACCEPT, "The tower, completed in 1889, is 330 m tall.", True),
    ("How heavy can it get?", "It weighs up to 90 kg (200 lb).", ("90 kg", "200 lb"), "Up to 198 pounds.", True),
    ("How heavy can it get?", "It weighs up to 90 kg (200 lb).", ("90 kg", "200 lb"), "Up to 120 pounds.", False),
    ("How tall is he?", "He is 178 cm tall.", ("178 cm",), "He is 5 ft 10 in tall.", True),
    ("How hot does it get?", "It reaches 30 °C in July.", ("30 °C",), "It reaches 86 °F.", True),
    ("How hot does it get?", "It reaches 30 °C in July.", ("30 °C",), "It reaches 35 degrees Celsius.", False),
    (
        "How old can it get?",
        "It lives 10 to 15 years.",
        ("10-15 years", "10 to 15 years"),
        "Between 10 and 15 years.",
        True,
    ),
    (
        "How old can it get?",
        "It lives 10 to 15 years.",
        ("10-15 years", "10 to 15 years"),
        "Between 20 and 25 years.",
        False,
    ),
    ("How many live there?", "About 2,102,650 people live there.", ("2,102,650",), "Roughly 2.1 million people.", True),
    ("How many live there?", "About 2,102,650 people live there.", ("2,102,650",), "Roughly 3 million people.", False),
    ("What share is water?", "71% of it is water.", ("71%",), "About 71 percent.", True),
    ("What does it cost?", "It costs $19.99.", ("$19.99",), "19.99 dollars", True),
    ("What does it cost?", "It costs $19.99.", ("$19.99",), "It costs €19.99.", False),
    ("When does it open?", "It opens at 9:00.", ("9:00", "9 am"), "At 9 a.m.", True),
    ("When does it open?", "It opens at 9:00.", ("9:00", "9 am"), "At 9 pm.", False),
    # counts and years are exact
    (*COUNT, ("four", "4"), "It has 4 towers.", True),
    (*COUNT, ("four", "4"), "Four.", True),
    (*COUNT, ("four", "4"), "It has five towers.", False),
    (*COUNT, ("four", "4"), "It has 4 or 5 towers.", False),
    (*COUNT, ("four", "4"), "The castle has four towers and two gates.", True),
    (*YEAR, ("1937", "27 May 1937"), "It opened in 1937.", True),
    (*YEAR, ("1937", "27 May 1937"), "On May 27, 1937.", True),
    (*YEAR, ("1937", "27 May 1937"), "It opened in 1936.", False),
    (*YEAR, ("1937", "27 May 1937"), "It opened in 1937 or 1938.", False),
    (*YEAR, ("1937", "27 May 1937"), "Construction work began in 1933 and it opened in 1937.", True),
    # names
    (*WHAT, ("Eiffel Tower",), "This is the Eiffel Tower.", True),
    (*WHAT, ("Eiffel Tower",), "eiffel tower", True),
    (*WHAT, ("Eiffel Tower",), "It's the Eiffel Tower in Paris, France.", True),
    (*WHAT, ("Eiffel Tower",), "This is the Tokyo Tower.", False),
    (*WHAT, ("Eiffel Tower",), "It is not the Eiffel Tower.", False),
    (*WHAT, ("Eiffel Tower",), "It isn't the Eiffel Tower but the Tokyo Tower.", False),
    (*WHAT, ("Tokyo Tower",), "It isn't the Eiffel Tower but the Tokyo Tower.", True),
    (*WHAT, ("Eiffel Tower",), "It is the Tokyo Tower, inspired by the Eiffel Tower.", False),
    (*WHAT, ("Eiffel Tower",), "It could be the Eiffel Tower or the Tokyo Tower.", False),
    (*WHAT, ("Eiffel Tower",), "It is probably the Eiffel Tower.", True),
    (*WHAT, ("Eiffel Tower",), "A tower.", False),
    (*WHAT, ("Eiffel Tower",), "", False),
    (*WHO, ("Stephen Sauvestre", "Sauvestre"), "Stephen Sauvestre designed it.", True),
    (*WHO, ("Stephen Sauvestre", "Sauvestre"), "The architect was Sauvestre.", True),
    (*WHO, ("Stephen Sauvestre", "Sauvestre"), "Gustave Eiffel designed it.", False),
    (*WHO, ("Stephen Sauvestre", "Sauvestre"), "Gustave Eiffel and Stephen Sauvestre.", False),
    (*WHO, ("Stephen Sauvestre", "Sauvestre"), "Stephen Sauvestre rather than Gustave Eiffel.", True),
    (*WHO, ("Stephen Sauvestre", "Sauvestre"), "Gustave Eiffel rather than Stephen Sauvestre.", False),
    (
        "What animal is this?",
        "It is a cougar.",
        ("cougar", "mountain lion", "puma"),
        "A cougar, or mountain lion.",
        True,
    ),
    ("What animal is this?", "It is a cougar.", ("cougar", "mountain lion", "puma"), "A cougar or a leopard.", False),
    ("What animal is this?", "It is a lion.", ("lion",), "These are lions.", True),
    ("What animal is this?", "It is a lion.", ("lion",), "A sea lion.", True),  # known weakness: no facts, no synonyms
    ("Where is it?", "It is in São Paulo.", ("São Paulo",), "Sao Paulo, Brazil", True),
    ("What phone is this?", "It is an iPhone 15.", ("iPhone 15",), "An iPhone 14.", False),
    ("Which state is it in?", "It is in Mississippi.", ("Mississippi",), "Missisippi", True),
    ("Which country is it in?", "It is in Austria.", ("Austria",), "Australia", False),
    ("Which country is it in?", "It is in Niger.", ("Niger",), "It is in Nigeria.", False),
    # comparison
    (*OLDER, ("Colosseum",), "The Colosseum is older.", True),
    (*OLDER, ("Colosseum",), "The Colosseum is older than the Eiffel Tower.", True),
    (*OLDER, ("Colosseum",), "The Eiffel Tower is older than the Colosseum.", False),
    (*OLDER, ("Colosseum",), "The Eiffel Tower.", False),
    (*OLDER, ("Colosseum",), "The Eiffel Tower is younger than the Colosseum.", False),  # known weakness: strict
    (*OLDER, ("Colosseum",), "The Colosseum or the Eiffel Tower.", False),
    # opposites
    (*OLDER, ("Colosseum",), "The Colosseum is younger.", False),
    (*SEATS, ("more than 5",), "It seats more than 5 people.", True),
    (*SEATS, ("more than 5",), "Over five.", True),
    (*SEATS, ("more than 5",), "It seats less than 5 people.", False),
    (*SEATS, ("more than 5",), "Fewer than five people.", False),
    (*SEATS, ("more than 5",), "Under 5.", False),
    (*SEATS, ("more than 5",), "No more than 5.", False),
    ("How old was it?", "Less than 10 years.", ("less than 10 years",), "It was under ten years old.", True),
    ("How old was it?", "Less than 10 years.", ("less than 10 years",), "More than 10 years.", False),
    ("Is it taller than the Big Ben?", "Yes, it is taller.", ("yes",), "It is shorter than the Big Ben.", False),
    ("Is it taller than the Big Ben?", "No, it is shorter.", ("no",), "It is shorter than the Big Ben.", True),
    (*TALL, TALL_ACCEPT, "It is 330 m tall, more than 300 m.", True),
    # lists
    (*LIST, ("lion, tiger and bear",), "A bear, a lion and a tiger.", True),
    (*LIST, ("lion, tiger and bear",), "A lion and a tiger.", False),
    (*LIST, ("lion, tiger and bear",), "A lion, a tiger, a bear and a wolf.", False),
    (*COLOUR, ("red and white",), "White and red.", True),
    (*COLOUR, ("red and white",), "Red and green.", False),
    # lists of candidates
    (*ONE_COLOUR, ("red",), "It is red.", True),
    (*ONE_COLOUR, ("red",), "red, blue or green", False),
    (*ONE_COLOUR, ("red",), "Blue, red, or green.", False),
    (*ONE_COLOUR, ("red",), "It could be blue, green or red.", False),
    (*ONE_COLOUR, ("red",), "The door, which has a brass handle or knob, is red.", True),
    (*ONE_COLOUR, ("red", "crimson", "scarlet"), "Red, crimson or scarlet.", True),
    ("What animal is this?", "It is a lion.", ("lion",), "A lion, a tiger, or a bear.", False),
    ("What animal is this?", "It is a lion.", ("lion",), "A lion, native to Africa.", True),
    # yes and no
    (*NATIVE, ("yes",), "Yes, it is.", True),
    (*NATIVE, ("yes",), "Yes.", True),
    (*NATIVE, ("yes",), "No, it is not.", False),
    (*NATIVE, ("yes",), "It is native to Australia.", True),
    (*NATIVE, ("yes",), "It is not native to Australia.", False),
    (*NATIVE, ("yes",), "Bananas are yellow.", False),
    (*FLY, ("no", "cannot fly"), "No.", True),
    (*FLY, ("no", "cannot fly"), "Penguins can't fly.", True),
    (*FLY, ("no", "cannot fly"), "It can fly.", False),
    (*FLY, ("no", "cannot fly"), "Yes, but not far.", False),
    ("Is it taller than 300 m?", "Yes, it is 330 m tall.", ("yes",), "Yes, it is 500 m tall.", False),
    ("Is it in Paris?", "No, it is in Tokyo.", ("no", "Tokyo"), "No, it is in London.", False),
    ("Is it in Paris?", "No, it is in Tokyo.", ("no", "Tokyo"), "No, it is in Tokyo.", True),
    ("Do females have antlers?", "Yes, reindeer females do.", ("yes",), "A female ferret is called a jill.", False),
    # seen in the mini set
    ("How tall is it today?", "It is 330 metres (1,083 ft) tall.", ("330", "1,083"), "It stands 330 m tall.", True),
    ("How tall is it today?", "It is 330 metres (1,083 ft) tall.", ("330", "1,083"), "It stands 330 feet tall.", False),
    ("Which scent?", "The scent is Chanel No. 5.", ("Chanel No. 5",), "It's Chanel No. 5.", True),
    ("How many joined?", "One of them, Reims.", ("one",), "Only one of them.", True),
    (
        "What was crossed?",
        "'Red Delicious' and 'Ralls Janet'.",
        ("Red Delicious and Ralls Janet",),
        "It was 'Ralls Janet' and 'Red Delicious'.",
        True,
    ),
    ("How many engines has it?", "Falcon 9 has nine engines.", ("nine",), "The Falcon 9 has nine engines.", True),
    (*TALL, TALL_ACCEPT, "(330 m)", True),
    # what nothing answers, and misses
    (*IDK, (), "It costs 20 euros.", False),
    (*WHAT, ("Eiffel Tower",), "I don't know.", False),
    (*WHAT, ("Eiffel Tower",), "I don't know, maybe the Eiffel Tower.", False),
]

COINS = ("How much money is this?", "A quarter, a dime, a nickel and a penny make 41 cents ($0.41).")

WITHOUT_ACCEPT = [
    (*COINS, "The four coins make 41 cents.", True),
    (*COINS, "They are worth 0.41 US dollars.", True),
    (*COINS, "They are worth $4.10.", False),
    (*TALL, "330 metres", True),
    (*TALL, "1,083 feet", True),
    (*TALL, "The Eiffel Tower is 324 metres tall.", False),
    (*TALL, "The Eiffel Tower is very tall.", False),
    (*WHO, "It was designed by Stephen Sauvestre.", True),
    (*WHO, "It was designed by Stephen Spielberg.", False),
    (*WHO, "It was not designed by Stephen Sauvestre.", False),
    (*WHAT, "The Eiffel Tower", True),
    (*WHAT, "The Tokyo Tower", False),
    (*YEAR, "27 May 1937", True),
    (*YEAR, "1936", False),
    ("What year did it open?", "It opened on 27 May 1937.", "1937", True),
    ("What year did it open?", "It opened on 27 May 1937.", "1938", False),
    (*COUNT, "4", True),
    (*COUNT, "There are three towers.", False),
    (*SEATS, "More than 5 people.", True),
    (*SEATS, "Less than 5 people.", False),
    (*ONE_COLOUR, "Red, blue or green.", False),
    (*ONE_COLOUR, "Red.", True),
    (*LIST, "A tiger, a bear and a lion.", True),
    (*LIST, "A tiger.", False),
    (*NATIVE, "Yes", True),
    (*NATIVE, "No", False),
    (*FLY, "No, they can't.", True),
    (*FLY, "Yes, they can.", False),
    (*FLY, "Penguins cannot fly.", True),
    (*FLY, "This bird can't fly.", True),
    (*FLY, "Penguins can fly.", False),
    ("Who painted it?", "The Night Watch was painted by Rembrandt.", "Rembrandt painted the Night Watch.", True),
    ("What is it made of?", "It is made of wrought iron.", "Wrought iron.", True),
    ("What is it made of?", "It is made of wrought iron.", "It is made of stone.", False),
    ("What does it eat?", "Giant pandas eat bamboo almost exclusively.", "It eats bamboo almost exclusively.", True),
    ("What does it eat?", "Giant pandas eat bamboo almost exclusively.", "It eats fish.", False),
    ("Who built it and when?", "Shah Jahan built it in 1632.", "Shah Jahan, in 1632.", True),
    ("Who built it and when?", "Shah Jahan built it in 1632.", "Shah Jahan, in 1732.", False),
    (*OLDER, "The Eiffel Tower is older than the Colosseum.", False),
    (*OLDER, "The Colosseum is older.", True),
]


@pytest.mark.parametrize(("query", "truth", "accept", "response", "right"), WITH_ACCEPT)
def test_with_accept_forms(query: str, truth: str, accept: tuple[str, ...], response: str, right: bool) -> None:
    verdict = RuleJudge().judge(JudgeItem(query, truth, response, accept))
    assert verdict.correct is right, verdict.reason


@pytest.mark.parametrize(("query", "truth", "response", "right"), WITHOUT_ACCEPT)
def test_with_the_ground_truth_alone(query: str, truth: str, response: str, right: bool) -> None:
    verdict = RuleJudge().judge(JudgeItem(query, truth, response))
    assert verdict.correct is right, verdict.reason


def test_the_table_is_as_large_as_it_has_to_be() -> None:
    cases = [*WITH_ACCEPT, *WITHOUT_ACCEPT]
    assert len(cases) >= 80
    assert 0.3 < sum(bool(case[-1]) for case in cases) / len(cases) < 0.7


@pytest.mark.parametrize(
    "response", ["(330 m)", "???", "\x00", "[1]", "1/0", "9" * 400, "²³½ €", "or or or", "not " * 500, "🗼" * 50]
)
def test_no_answer_breaks_it(response: str) -> None:
    RuleJudge().judge(JudgeItem(TALL[0], TALL[1], response, TALL_ACCEPT))
    RuleJudge().judge(JudgeItem(response, response + "!", "330 m or so"))
