"""Fitting the extractive reader's weights: on numbers worked out by hand, on a few questions, from the command line."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import training.reader
import training.reader_fit
from agents.deadline import NO_DEADLINE
from agents.launch import build_models, settings_of
from agents.models.base import ModelError
from agents.models.reader import (
    Reading,
    Weights,
    best_answer,
    confidence,
    load_weights,
    log_odds,
    weight_names,
)
from agents.models.reading.candidates import Candidate, Features, Sentence
from agents.models.reading.question import parse_question
from agents.prompts import PromptLibrary
from agents.search.gateway import SearchGateway
from agents.search.types import Entity
from agents.settings import PROMPTS
from agents.stage import Context
from demo.build.content import Content, load_content
from demo.build.kg import KgImage, read_kg
from demo.build.paths import DemoPaths
from demo.build.wiki import read_pages
from evaluation.rule_judge import RuleJudge
from training.logistic import TrainingError
from training.reader_fit import (
    Options,
    Scored,
    cross_validated,
    fit_candidates,
    fit_weights,
    groups_of,
    measures,
    scored,
)
from training.reader_questions import (
    Asked,
    Template,
    WrittenPage,
    WrittenQuestion,
    held_back_names,
    made_questions,
    read_templates,
    read_written,
    split_questions,
    written_questions,
)
from training.reader_requests import Example, examples_of, requests_of, stages_to_the_reader
from training.remembering import RememberingRegistry

NOTHING_SPEAKS_FOR_IT = dict.fromkeys(Features.__dataclass_fields__, 0.0)
LOOSE = Options(candidate_strength=1e6, question_strength=1e6, ablated_weight=1.0, folds=2)


def candidate(answer: str, **features: float) -> Candidate:
    return Candidate(answer, Sentence(answer, "T", 0, 0, 0.0), Features(**(NOTHING_SPEAKS_FOR_IT | features)))


def example(
    about: str, candidates: Sequence[tuple[Candidate, bool]], *, query: str = "Who?", ablated: bool = False
) -> Example:
    reading = Reading(parse_question(query, ()), tuple(one for one, _ in candidates))
    asked = Asked(f"{about} {query}", "split", (about,), query, "truth")
    return Example(asked, (), (reading,), (tuple(ok for _, ok in candidates),), ablated)


def keyed(about: str, right: Sequence[bool], wrong: Sequence[bool]) -> Example:
    """Candidates with ``keyed`` 1 (``right``), and with 0 (``wrong``), each right or not as given."""
    pairs = [(candidate(f"k{at}", keyed=1.0), ok) for at, ok in enumerate(right)]
    pairs += [(candidate(f"o{at}"), ok) for at, ok in enumerate(wrong)]
    return example(about, pairs)


def few() -> list[Example]:
    """Twelve entities; what is keyed is mostly right."""
    return [keyed(f"entity {at}", [at % 4 > 0], [at % 6 == 0, False]) for at in range(12)]


def weights(**candidate_weights: float) -> Weights:
    zero = {part: dict.fromkeys(names, 0.0) for part, names in weight_names().items()}
    return {
        "candidate": zero["candidate"] | candidate_weights,
        "question": zero["question"] | {"log_odds": 1.0},
    }


def test_the_candidate_regression_is_the_one_worked_out_by_hand() -> None:
    # Three of four keyed candidates are right and one of four others: log-odds of log 3 and log 1/3.
    shown = [keyed("a", [True, True, True, False], [True, False, False, False])]
    fitted = fit_candidates(shown, LOOSE)
    assert fitted["bias"] == pytest.approx(-math.log(3), abs=1e-3)
    assert fitted["keyed"] == pytest.approx(2 * math.log(3), abs=1e-3)
    assert {name: fitted[name] for name in Features.__dataclass_fields__ if name != "keyed"} == {
        name: 0.0 for name in Features.__dataclass_fields__ if name != "keyed"
    }


def test_questions_without_their_answer_weigh_what_they_are_told_to() -> None:
    taken = replace(keyed("b", [], [False] * 6), ablated=True)
    shown = [keyed("a", [], [True, False]), taken]
    assert fit_candidates(shown, LOOSE)["bias"] == pytest.approx(math.log(1 / 7), abs=1e-3)
    assert fit_candidates(shown, replace(LOOSE, ablated_weight=0.5))["bias"] == pytest.approx(math.log(1 / 4), abs=1e-3)


def test_a_question_is_scored_as_the_reader_scores_it() -> None:
    one = candidate("right", keyed=1.0)
    shown = example("a", [(candidate("wrong", keyed=0.5), False), (one, True)])
    by = weights(bias=-1.0, keyed=3.0)
    assert log_odds(one, by) == 2.0
    [result] = scored([shown], by)
    assert result.right and result.confidence == pytest.approx(1 / (1 + math.exp(-2)))
    assert result.candidates == ((0.5, False), (2.0, True))
    assert best_answer(shown.readings[0], by).score == confidence(shown.readings[0].question, one, by)


def test_of_two_hops_the_surest_counts() -> None:
    first = example("a", [(candidate("sure", keyed=1.0), False)])
    second = example("a", [(candidate("unsure", keyed=0.1), True)])
    both = replace(first, readings=first.readings + second.readings, right=first.right + second.right)
    assert not scored([both], weights(keyed=1.0))[0].right
    assert scored([both], weights(keyed=-1.0))[0].right


def test_nothing_to_read_is_wrong_and_without_confidence() -> None:
    [result] = scored([replace(example("a", []), readings=(), right=())], weights())
    assert (result.right, result.confidence) == (False, 0.0)
    assert scored([example("a", [])], weights())[0].confidence == 0.0


def test_measures_worked_out_by_hand() -> None:
    yes, no = example("a", [(candidate("x"), True)]), example("b", [(candidate("x"), False)])
    results = [
        Scored(yes, True, 0.9, ((2.0, True), (1.0, False))),
        Scored(yes, False, 0.6, ((0.0, True), (3.0, False))),
        Scored(no, False, 0.2, ((-1.0, False),)),
        Scored(yes, True, 0.4, ((2.5, True),)),
    ]
    found = measures(results)
    assert found["questions"] == 4 and found["answerable"] == 0.75
    assert found["accuracy"] == 0.5 and found["accuracy_answerable"] == pytest.approx(2 / 3)
    # Right candidates 2, 0, 2.5 against wrong ones 1, 3, -1: 5 of 9 pairs are in order.
    assert found["candidate_auc"] == pytest.approx(5 / 9)
    # Right answers .9, .4 against wrong ones .6, .2: 3 of 4.
    assert found["auc"] == 0.75
    assert found["brier"] == pytest.approx((0.1**2 + 0.6**2 + 0.2**2 + 0.6**2) / 4)
    assert found["truthfulness"] == 0.0  # one right, one wrong, two held back
    assert math.isnan(measures(results[:1])["auc"])


def test_what_shares_an_entity_is_one_group_through_others_too() -> None:
    def about(*names: str) -> Example:
        shown = example("x", [])
        return replace(shown, asked=replace(shown.asked, about=names))

    shown = [about("session 1", "entity A"), about("session 2", "entity B"), about("entity C")]
    assert len(set(groups_of(shown))) == 3
    first, second, third, link = groups_of([*shown, about("session 3", "entity A", "entity B")])
    assert first == second == link != third


def test_no_group_is_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = [*few(), *few()]
    sides: list[set[str]] = []

    def spying(examples: Sequence[Example], options: Options) -> Weights:
        sides.append({one.asked.about[0] for one in examples})
        return fit_weights(examples, options)

    monkeypatch.setattr(training.reader_fit, "fit_weights", spying)
    results = cross_validated(shown, replace(LOOSE, folds=3))
    assert [result.example for result in results] == shown
    assert len(sides) == 3 and all(len(side) == 8 for side in sides)
    assert set.intersection(*sides) == set()


def test_what_was_fitted_is_loaded_by_the_reader(tmp_path: Path) -> None:
    fitted = fit_weights(few(), Options(folds=3))
    assert fitted["candidate"]["keyed"] > 0.3
    file = tmp_path / "weights.toml"
    file.write_text(
        training.reader.weights_document(fitted, {"command": "x", "numbers": {"auc": 0.5}}), encoding="utf-8"
    )
    assert load_weights(file) == fitted
    assert tomllib.loads(file.read_text(encoding="utf-8"))["metadata"]["numbers"]["auc"] == 0.5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[candidate", "cannot be read"),
        ("[candidate]\nbias = 1.0", "fits them anew"),
        (None, "cannot be read"),
    ],
    ids=["no-toml", "other-features", "missing"],
)
def test_other_weights_are_refused(tmp_path: Path, text: str | None, message: str) -> None:
    file = tmp_path / "weights.toml"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(ModelError, match=message):
        load_weights(file)


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "weights.toml"
    file.write_text(training.reader.weights_document(weights(keyed=math.inf), {}), encoding="utf-8")
    with pytest.raises(ModelError, match="finite"):
        load_weights(file)


def test_too_little_to_fit_to() -> None:
    with pytest.raises(TrainingError, match="5 folds"):
        fit_weights(few()[:3], Options())
    with pytest.raises(TrainingError, match="0 right"):
        fit_candidates([keyed("a", [], [False, False])], Options())


GRAPH: list[KgImage] = [
    {
        "image": "a.webp",
        "image_url": "https://a.example",
        "entities": [
            {"entity_name": "Zebu", "entity_attributes": {"height": "{{convert|1.5|m|ft}}", "height_note": "no"}},
            {"entity_name": "Ark", "entity_attributes": {"built": "1900", "height": "x" * 200, "weight": "2 t"}},
        ],
    }
]
WAYS = [Template(keys=("height", "weight"), ask=tuple(f"{{entity}} {{key}} {n}?" for n in range(50)))]


def test_questions_made_of_attributes() -> None:
    made = made_questions(GRAPH, WAYS, seed=1)
    assert {(one.about, one.truth) for one in made} == {(("entity Zebu",), "1.5 m"), (("entity Ark",), "2 t")}
    assert all(one.query.startswith(f"{one.entity.name} " if one.entity else "?") for one in made)
    assert made == made_questions(GRAPH, WAYS, seed=1)
    assert {one.query for one in made} != {one.query for one in made_questions(GRAPH, WAYS, seed=2)}
    assert made_questions(GRAPH, WAYS, seed=1, most=1) == made[:1]


def test_the_templates_fit_the_knowledge_graph() -> None:
    made = made_questions(read_kg("validation"), read_templates(), seed=0)
    assert len(made) > 300 and len({one.id for one in made}) == len(made)
    assert not [one.query for one in made if "{" in one.query]


@pytest.fixture(scope="module")
def content() -> Content:
    return load_content(DemoPaths().content)


def test_nothing_of_public_test_is_fitted_to(content: Content) -> None:
    held_back = held_back_names(read_pages(split="public_test"), read_kg("public_test"))
    written = written_questions(read_written(), {page.title: "text" for page in read_written()}, held_back)
    assert len(written) > 100 and any(not one.accept for one in written)
    splits = {item.id: item.split for item in content.asking()}
    asked = split_questions(content)
    assert {splits[one.about[0].removeprefix("session ")] for one in asked} == {"validation"}
    made = made_questions(read_kg("validation"), read_templates(), seed=0)
    assert not {one.entity.name for one in (*written, *asked) if one.entity is not None} & held_back
    assert {one.entity.name for one in made if one.entity} <= {
        entity["entity_name"] for image in read_kg("validation") for entity in image["entities"]
    }


def test_a_dialog_goes_on_with_the_right_answers_and_the_entity_in_the_picture(content: Content) -> None:
    dialog = content.dialogs["mon_m001"]
    turns = {one.id: one for one in split_questions(content)}
    last = turns[f"mon_m001#{len(dialog.turns) - 1}"]
    assert [message["content"] for message in last.history[1::2]] == [turn.answer for turn in dialog.turns[:-1]]
    assert dialog.turns[-1].entity is None
    assert last.entity is not None and last.entity.name == "Eiffel Tower"


@pytest.mark.parametrize(
    ("text", "message"),
    [("page = 3", "page"), ("[[page]]\ntitle = 'x'\nquestions = []", "questions"), ("[[", "cannot be used")],
    ids=["no-pages", "no-questions", "no-toml"],
)
def test_a_malformed_file_of_questions_is_named(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "questions.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(TrainingError, match=message):
        read_written(file)


def test_written_questions_need_a_page_that_is_not_held_back() -> None:
    page = WrittenPage(title="Tiger", questions=(WrittenQuestion(ask="What?", accept=()),))
    with pytest.raises(TrainingError, match="public_test claims Tiger"):
        written_questions([page], {"Tiger": "A cat."}, {"Tiger"})
    with pytest.raises(TrainingError, match="no summary of 'Tiger'"):
        written_questions([page], {}, ())
    [asked] = written_questions([page], {"Tiger": "A cat."}, ())
    assert asked.page is not None and asked.page.page_snippet == "A cat." and asked.truth == "I don't know"


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Context:
    """The stages of the preset on the real encoder; no web to search."""
    models = build_models("embedded", tmp_path_factory.mktemp("cache"), RememberingRegistry)
    return Context(settings_of("best", "embedded"), models, SearchGateway(None), PromptLibrary(PROMPTS), NO_DEADLINE)


def lincoln() -> Asked:
    attributes = {"architect": "[[Henry Bacon]]", "columns": "36", "dedicated": "{{start date|1922|5|30}}"}
    return Asked(
        "a", "split", ("entity Lincoln Memorial",), "Who designed this?", "Henry Bacon", ("Henry Bacon",),
        entity=Entity("Lincoln Memorial", attributes),
    )  # fmt: skip


def test_from_a_question_to_judged_candidates_and_once_more_without_the_answer(context: Context) -> None:
    nobody = replace(lincoln(), id="b", entity=None)
    requests = requests_of([lincoln(), nobody], context)
    [request] = requests[0]
    assert request.question == "Who designed this? (Lincoln Memorial)"
    assert {passage.key for passage in request.passages} == {"name", "architect", "columns", "dedicated"}
    assert requests[1] == ()
    found = examples_of([lincoln(), nobody], requests, context.models.reader, RuleJudge())  # type: ignore[arg-type]
    assert [(one.asked.id, one.ablated, one.answerable) for one in found] == [
        ("a", False, True), ("a", True, False), ("b", False, False),
    ]  # fmt: skip
    assert {passage.key for passage in found[1].requests[0].passages} == {"name", "columns", "dedicated"}
    answers = dict(zip([one.answer for one in found[0].readings[0].candidates], found[0].right[0], strict=True))
    assert answers["Henry Bacon"] and sum(answers.values()) == 1


def test_one_memory_for_all_that_embed(context: Context) -> None:
    encoder = context.models.text_encoder
    assert context.models.get("reranker")._encoder is encoder
    first = encoder.encode(["one", "two"])
    assert (encoder.encode(["two", "one", "two"]) == first[[1, 0, 1]]).all()


def test_a_preset_without_reader_is_refused() -> None:
    with pytest.raises(TrainingError, match="no stage 'extract'"):
        stages_to_the_reader(settings_of("vlm_only", "embedded"))
    assert stages_to_the_reader(settings_of("best", "embedded"))[-1] == "rerank"


@pytest.fixture
def ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """The questions and what the searches found are given; everything else is real."""
    monkeypatch.setattr(training.reader, "prepare", lambda *_: None)
    monkeypatch.setattr(training.reader, "gather", lambda **_: [])
    monkeypatch.setattr(training.reader, "look_up", lambda *_: few())


@pytest.mark.usefixtures("ready")
def test_the_command_writes_what_the_reader_loads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for name in ("a.toml", "b.toml"):
        out = tmp_path / name
        assert training.reader.main(["--out", str(out), "--folds", "3", "--no-progress"]) == 0
        texts.append(out.read_text(encoding="utf-8"))
    assert texts[0] == texts[1]
    assert load_weights(tmp_path / "a.toml")["candidate"]["keyed"] > 0
    metadata = tomllib.loads(texts[0])["metadata"]
    assert metadata["command"].startswith("python -m training.reader --preset best ")
    assert metadata["command"].endswith(" --folds 3 --seed 0")
    assert len(metadata["training_hash"]) == 64
    assert metadata["cross_validated_on_split"]["questions"] == 12
    printed = capsys.readouterr().out
    assert "split: fitted, cross-validated" in printed and "split: the weights there are" in printed


@pytest.mark.usefixtures("ready")
def test_a_dry_run_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert training.reader.main(["--out", str(tmp_path / "x.toml"), "--folds", "3", "--dry-run", "--no-progress"]) == 0
    assert not list(tmp_path.iterdir())
    assert "dry run" in capsys.readouterr().out


@pytest.mark.usefixtures("ready")
@pytest.mark.parametrize(
    ("more", "message"),
    [(["--folds", "50"], "50 folds"), (["--against", "BROKEN"], "cannot be read")],
    ids=["folds", "against"],
)
def test_what_is_wrong_is_said(
    tmp_path: Path, more: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.toml"
    broken.write_text("[", encoding="utf-8")
    given = [str(broken) if one == "BROKEN" else one for one in more]
    assert training.reader.main(["--out", str(tmp_path / "x.toml"), "--no-progress", *given]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "x.toml").exists()


@pytest.mark.parametrize("given", [["--folds", "1"], ["--candidate-strength", "0"]], ids=["folds", "strength"])
def test_options_out_of_range(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        training.reader.main(given)
    assert stopped.value.code == 2
    assert given[0] in capsys.readouterr().err
