"""Loads saved answers of any agents and judges them by one judge and the same rules, for studies that compare them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self, get_args

from pydantic import Field, model_validator
from rich.console import Console

from agents.base.cache_folder import DEFAULT_CACHE, CacheOption
from agents.base.command_options import Flag, Options
from agents.settings.shared_options import JsonOptions
from evaluation.files.manifest import read_manifest
from evaluation.files.outputs import ACCEPTED, ALL_TURNS, is_table_of, read_about, read_turn_table
from evaluation.files.responses import RESPONSES, find_records, find_run_files, read_responses, refuse_repeated
from evaluation.files.traces import read_all_traces
from evaluation.judge.judging import (
    Judge,
    explain_strictness,
    judge_turns,
    needs_accepted_answers,
)
from evaluation.judge.options import JudgeOptions
from evaluation.judge.spending import Paid
from evaluation.progress import label_bars
from evaluation.records import (
    DEFAULT_REVISION,
    LABELS,
    AnsweredTurn,
    EvaluationError,
    JudgedTurn,
    Key,
    TurnFacts,
    count_strange,
    index_questions,
    place_turn,
)
from evaluation.report.run_card import join_manifests, make_card
from evaluation.rules import OURS, Rules, explain_ego_source
from evaluation.run.launching import make_local_judge
from evaluation.scores.metrics import MetricOptions
from evaluation.scores.scoring import select_counted
from evaluation.studies.figures import list_failing_stages, mark_failing

if TYPE_CHECKING:
    from evaluation.data.crag_dataset import CragDataset


@dataclass(frozen=True)
class SavedRun:
    """Run over one data set.

    Attributes:
        folder: Folder beside the answers that may have run log and traces.
        about: Notes of the run on its settings and versions; empty for other agents.
        keys: The turns that it answered.
    """

    folder: Path
    about: Mapping[str, Any]
    keys: frozenset[Key]


@dataclass(frozen=True)
class Saved:
    """Saved answers: one file, or the files of a run over both data sets.

    Attributes:
        place: Folder that gives the label; None if the label was given or is the name of a file.
        runs: The runs whose answers these are.
    """

    label: str
    files: tuple[Path, ...]
    turns: tuple[AnsweredTurn, ...]
    place: Path | None = None
    runs: tuple[SavedRun, ...] = ()


@dataclass(frozen=True)
class Entry:
    """Judged answers.

    Attributes:
        turns: The turns that the totals of the rules count (``scoring.select_counted``).
        runs: The runs whose answers these are.
    """

    label: str
    turns: tuple[JudgedTurn, ...]
    runs: tuple[SavedRun, ...] = ()

    @property
    def folders(self) -> tuple[Path, ...]:
        """Folders of its runs."""
        return tuple(run.folder for run in self.runs)

    @property
    def about(self) -> dict[str, Any]:
        """Join the notes of its runs on settings and versions; empty for other agents."""
        return join_manifests([run.about for run in self.runs])

    def describe_origin(self, turns: Sequence[JudgedTurn]) -> dict[str, Any]:
        """Return the notes of the runs of some of its turns."""
        keys = {judged.turn.key for judged in turns}
        return join_manifests([run.about for run in self.runs if run.keys & keys])

    @cached_property
    def failing(self) -> tuple[str, ...]:
        """Stages that failed on every turn, each with its message; empty without traces."""
        return list_failing_stages((judged.turn for judged in self.turns), read_all_traces(self.folders))

    @property
    def marked(self) -> str:
        """Label in a table: marked if a stage failed on every turn."""
        return mark_failing(self.label, self.failing)


@dataclass(frozen=True)
class Entries:
    """Entries that one judge judged by the same rules; ``verdicts`` says which judge, and when."""

    entries: tuple[Entry, ...]
    judge: str
    rules: str
    verdicts: str

    @property
    def cards(self) -> dict[str, dict[str, str]]:
        """Card of each entry."""
        judged = {"judge": self.judge, "rules": self.rules}
        return {
            entry.marked: make_card(
                [{**about, **judged} for about in [run.about for run in entry.runs] or [{}]], len(entry.turns)
            )
            for entry in self.entries
        }


class LabelOptions(Options):
    """Source of the questions' labels."""

    group = "data set"

    dataset: Annotated[Path | None, Flag(metavar="PATH")] = Field(
        None,
        description="local folder with the data sets, for missing labels and the rule judge's accepted short answers",
    )
    split: str = Field("validation", description="split of the data sets")
    revision: str = Field(DEFAULT_REVISION, description="revision of the data sets")


class OneJudgeOptions(JudgeOptions, MetricOptions, LabelOptions, JsonOptions):
    """Options of the commands that let one judge judge saved answers."""

    group = "judge"

    num_workers: Annotated[int, Flag(metavar="N")] = Field(8, ge=1, description="judgements asked for at the same time")
    cache: CacheOption = Field(DEFAULT_CACHE, description="folder for judgements and data sets")
    no_progress: bool = Field(False, description="no progress bars")
    out: Annotated[Path | None, Flag(metavar="DIR")] = Field(
        None, description="folder for the report and its figures in JSON"
    )
    eval_model: Annotated[str | None, Flag(metavar="MODEL")] = Field(
        None,
        description="judge all answers now, by this judge (see local_evaluation.py); default: the verdicts of the runs' own "
        "tables if one judge made all, or the rule judge",
    )

    @model_validator(mode="after")
    def _check_judge(self) -> Self:
        """Refuse options of an unnamed judge: the runs' own tables would make them idle."""
        self.refuse_idle(self.eval_model)
        return self


def read_entries(specs: Sequence[str], options: OneJudgeOptions, console: Console) -> Entries:
    """Read and judge the answers named on a command line.

    Args:
        specs: ``PATH`` or ``LABEL=PATH`` each: a file of answers, or a run's folder.
        options: Judge and data sets.
        console: Gets the cost of the judge.

    Raises:
        EvaluationError: Something named is not there or malformed, or two entries have one label.
        JudgeError: The judge is not available.
    """
    saved = distinguish_labels([find_saved(spec) for spec in specs])
    labels = [each.label for each in saved]
    double = sorted({label for label in labels if labels.count(label) > 1})
    if double:
        raise EvaluationError(f"two entries are called {double[0]}; write LABEL=PATH")
    sets, rules = load_labels(options), options.rules
    check_questions(saved, sets, console)
    saved = add_labels(saved, sets)
    if not sets and (note := explain_ego_source(rules)):
        console.print(note, style="yellow", markup=False, soft_wrap=True)
    if options.eval_model is None and (own_entries := read_own_verdicts(saved, rules, sets)) is not None:
        return own_entries
    judge = options.judge(options.eval_model, options.cache, make_local_judge)
    if not sets and (note := explain_strictness(judge.name)):
        console.print(note, style="yellow", markup=False, soft_wrap=True)
    entries = tuple(judge_entry(each, judge, options, sets) for each in saved)
    if isinstance(judge, Paid):
        console.print(f"judge: {judge.spending}", markup=False, highlight=False)
    return Entries(entries, judge.name, rules.name, f"judged now by {judge.name}; rules: {rules.name}")


def find_saved(spec: str) -> Saved:
    """Read the answers of ``PATH`` or ``LABEL=PATH``.

    The path is a JSON-lines file, a run's folder, or one with a folder for each data set. A folder without answers of its own, as of a
    replay, gives those of its table.

    Raises:
        EvaluationError: There are no answers, they are malformed, a turn is in two folders, or the folder has two runs.
    """
    label, equals, rest = spec.partition("=")
    named = bool(equals) and not Path(spec).exists()
    path = Path(rest if named else spec)
    files = (find_run_files(path, RESPONSES) or find_run_files(path, ALL_TURNS)) if path.is_dir() else [path]
    if not files:
        raise EvaluationError(f"{path} contains no answers ({RESPONSES} or {ALL_TURNS}); name the folder of a run")
    place = None
    if not named:
        folder = path if path.is_dir() else path.parent if path.name == RESPONSES else None
        place = None if folder is None else folder.resolve()
        label = path.stem if place is None else place.name
    turns = {file: _read_answers(file) for file in files}
    refuse_repeated(turns)
    runs = tuple(
        SavedRun(folder, read_manifest(folder) or read_about(folder), frozenset(turn.key for turn in some))
        for file, some in turns.items()
        if (folder := file.parent if file.name == ALL_TURNS else find_records(file)) is not None
    )
    return Saved(label or str(path), tuple(files), tuple(chain.from_iterable(turns.values())), place, runs)


def _read_answers(file: Path) -> list[AnsweredTurn]:
    return [judged.turn for judged in read_turn_table(file.parent)] if file.name == ALL_TURNS else read_responses(file)


def distinguish_labels(saved: Sequence[Saved]) -> list[Saved]:
    """Add to equal labels of folders the parent folders in which they differ.

    So A/single-turn and B/single-turn are not both called single-turn.
    """
    labels = Counter(each.label for each in saved)
    same = [each for each in saved if labels[each.label] > 1 and each.place is not None]
    places = {each.place for each in same}
    for depth in range(2, max((len(place.parts) for place in places if place is not None), default=0)):
        short = {place: "/".join(place.parts[-depth:]) for place in places if place is not None}
        if len({*short.values()}) == len(places):
            return [replace(each, label=short[each.place]) if each in same and each.place else each for each in saved]
    return [*saved]


def load_labels(options: OneJudgeOptions) -> list[CragDataset]:
    """Load the existing data sets of ``--dataset``, single-turn and multi-turn; none without it.

    Raises:
        EvaluationError: It is given, and neither is there.
    """
    if options.dataset is None:
        return []
    from evaluation.data import crag_dataset, own_dataset

    datasets, reasons = [], []
    place = (options.split, options.revision, options.dataset, options.cache)
    for kind in get_args(crag_dataset.DatasetType):
        try:
            datasets.append(own_dataset.load(kind, *place, rules=options.rules))
        except EvaluationError as error:
            reasons.append(str(error))
    if not datasets:
        raise EvaluationError("; ".join(reasons))
    return datasets


def check_questions(saved: Sequence[Saved], sets: Sequence[CragDataset], console: Console) -> None:
    """Say how many answers are to no question of the data sets, or to one with other words or another truth; without sets nothing.

    Such answers get no accepted answers, so that the rule judge takes more of them for wrong.

    Raises:
        EvaluationError: An entry answers no question of the data sets.
    """
    if not sets:
        return
    questions = _index_sets(sets)
    names = " and ".join(dict.fromkeys(each.name for each in sets))
    for each in saved:
        total = len(each.turns)
        num_unknown, num_changed = count_strange(each.turns, questions)
        if num_unknown == total:
            raise EvaluationError(
                f"{each.label} answers no question of {names}; name the split that it answered with --split, or its --revision"
            )
        notes = {
            "are to no question of it, which says nothing about them: check --split and --revision": num_unknown,
            "have another question or truth and are judged by their own": num_changed,
        }
        for what, number in notes.items():
            if number:
                console.print(
                    f"{each.label} and {names}: {number} of {total} answers {what}",
                    style="yellow", markup=False, soft_wrap=True,
                )  # fmt: skip


def _index_sets(sets: Sequence[CragDataset]) -> dict[Key, AnsweredTurn]:
    return index_questions(session for each in sets for session in each.sessions)


def add_labels(saved: Sequence[Saved], sets: Sequence[CragDataset] = ()) -> list[Saved]:
    """Add missing labels to the answers, from the data sets or from an entry that has them.

    Answers of another agent may be saved without labels, or with labels as their numbers in the data set. A data set says which pictures
    are egocentric by its rules. Another entry may follow other rules, and says it only of answers without any label.
    """
    saying = (turn for each in reversed(saved) for turn in each.turns if turn.domain and not _is_number(turn.domain))
    labelled = {turn.key: turn for turn in saying}
    questions = _index_sets(sets)

    def complete(turn: AnsweredTurn) -> AnsweredTurn:
        question = questions.get(turn.key)
        if question is not None:
            return place_turn(_add_labels(turn, question), question)
        source = labelled.get(turn.key, turn)
        is_bare = not any(getattr(turn, name) for name in LABELS)
        placed = place_turn(_add_labels(turn, source), source)
        return placed if is_bare else replace(placed, is_ego=turn.is_ego)

    return [replace(each, turns=tuple(map(complete, each.turns))) for each in saved]


def _add_labels(turn: AnsweredTurn, source: AnsweredTurn) -> AnsweredTurn:
    lacking = {
        name: getattr(source, name)
        for name in LABELS
        if getattr(source, name) and (not getattr(turn, name) or _is_number(getattr(turn, name)))
    }
    return replace(turn, **lacking)


def _is_number(label: str) -> bool:
    return label.lstrip("-").isdigit()


def read_own_verdicts(saved: Sequence[Saved], rules: Rules = OURS, sets: Sequence[CragDataset] = ()) -> Entries | None:
    """Read the verdicts from the runs' own tables, with the facts that the data sets state.

    Returns:
        None unless each run has a table of the same answers, and the same judge made all of them by these rules. A judge that needs
        accepted answers must have had those of the data sets or, without data sets, the same ones for all tables.
    """
    entries, tables = [], list[_OwnTable]()
    for each in saved:
        own_tables = [table for file in each.files if (table := _read_own_table(file.parent, rules)) is not None]
        verdicts = {judged.turn.key: judged for table in own_tables for judged in table.turns}
        if len(own_tables) < len(each.files) or not is_table_of(verdicts.values(), each.turns):
            return None  # there is none, or the answers were changed after they were judged
        facts = _select_facts(sets, each.turns)
        pairs = [(turn, verdicts[turn.key]) for turn in each.turns]
        judged_turns = [
            replace(judged, turn=turn, facts=facts.get(turn.interaction_id, judged.facts)) for turn, judged in pairs
        ]
        entries.append(_make_entry(each, judged_turns, rules))
        tables += own_tables
    judge = tables[0].judge
    if not judge or any(table.judge != judge for table in tables):
        return None
    if needs_accepted_answers(judge) and not _has_same_accepted(tables, sets):
        return None
    description = f"those of the runs' own tables, judged by {judge}; rules: {rules.name}"
    return Entries(tuple(entries), judge, rules.name, description)


@dataclass(frozen=True)
class _OwnTable:
    """Table of a run.

    Attributes:
        num_accepted: Number of turns whose accepted answers the judge knew.
    """

    judge: str
    num_accepted: int
    turns: Sequence[JudgedTurn]


def _read_own_table(run: Path, rules: Rules) -> _OwnTable | None:
    """Read the table of the run in a folder; None if there is none by these rules."""
    about = read_about(run)
    if about.get("rules", OURS.name) != rules.name:
        return None
    number = about.get(ACCEPTED)
    try:
        return _OwnTable(str(about.get("judge", "")), number if isinstance(number, int) else 0, read_turn_table(run))
    except EvaluationError:
        return None


def _has_same_accepted(tables: Sequence[_OwnTable], sets: Sequence[CragDataset]) -> bool:
    """Return whether the judge knew the accepted answers of the data sets or, without data sets, the same ones for all tables."""
    if sets:
        return all(
            table.num_accepted == len(_select_accept(sets, [judged.turn for judged in table.turns])) for table in tables
        )
    # Which ones it knew is not noted. Their number is the same for the same questions, and is 0 for all tables or for none.
    numbers = {(frozenset(judged.turn.key for judged in table.turns), table.num_accepted) for table in tables}
    return len(dict(numbers)) == len(numbers) and len({number > 0 for _, number in numbers}) == 1


def _select_accept(sets: Sequence[CragDataset], turns: Sequence[AnsweredTurn]) -> dict[str, Sequence[str]]:
    return {key: forms for each in sets for key, forms in each.select_accept(turns).items()}


def _select_facts(sets: Sequence[CragDataset], turns: Sequence[AnsweredTurn]) -> dict[str, TurnFacts]:
    return {key: facts for each in sets for key, facts in each.select_facts(turns).items()}


def judge_entry(saved: Saved, judge: Judge, options: OneJudgeOptions, sets: Sequence[CragDataset] = ()) -> Entry:
    """Judge the answers of one entry.

    Raises:
        JudgeError: The judge is not available.
    """
    rules = options.rules
    judged = judge_turns(
        saved.turns,
        judge,
        accept=_select_accept(sets, saved.turns),
        facts=_select_facts(sets, saved.turns),
        rules=rules,
        workers=options.workers,
        progress=not options.no_progress,
        bars=label_bars(saved.label),
    )
    return _make_entry(saved, judged, rules)


def _make_entry(saved: Saved, judged: Sequence[JudgedTurn], rules: Rules = OURS) -> Entry:
    return Entry(saved.label, tuple(select_counted(judged, rules)), saved.runs)
