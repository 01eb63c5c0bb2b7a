"""``python -m evaluation.studies.agreement``: agreement of judges with each other and with human labels."""

from __future__ import annotations

import logging
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pandas as pd
from pydantic import Field
from rich.console import Console

from agents.base.command_options import Flag
from evaluation.commands import make_console, run_to_exit_status
from evaluation.files.folder_lock import lock_folders
from evaluation.files.manifest import read_manifest
from evaluation.files.responses import read_all_lines
from evaluation.judge.judging import JUDGING, count_to_judge
from evaluation.progress import Share, StudyBar
from evaluation.records import AnsweredTurn, EvaluationError, JudgedTurn, Key
from evaluation.report.run_card import make_card
from evaluation.run.launching import make_local_judge
from evaluation.scores.scoring import Interval, session_interval
from evaluation.studies.judged_entries import (
    Saved,
    SavedOptions,
    add_labels,
    check_questions,
    find_saved,
    judge_entry,
    load_labels,
    read_own_verdicts,
)
from evaluation.studies.result_tables import ResultTable, build_card_table, publish, shorten

if TYPE_CHECKING:
    from evaluation.data.crag_dataset import CragDataset

_EXAMPLES = """examples:
  the rule, gpt-4o-mini with our words, and labels by hand:
    python -m evaluation.studies.agreement results/best --judges rule,gpt-4o-mini --labels labels.csv --out results/agreement

  the same model with our words and with the organiser's:
    python -m evaluation.studies.agreement results/best --judges gpt-4o-mini,gpt-4o-mini@organiser --organiser starter-kit

labels.csv (or .jsonl) has a line a turn: interaction_id, label, and session_id where interaction_ids repeat. Labels: correct or wrong,
1 or 0, true or false, or the organiser's scale by hand: perfect, acceptable, missing, incorrect.
"""

OWN = "own"
"""Name of the verdicts in a run's own table."""

log = logging.getLogger(__name__)

_MAX_CHARACTERS = 60
_MAX_SHOWN = 20

Verdicts = Mapping[Key, bool]
"""Whether an answer is right, by turn; turns that a rater did not decide are missing."""


_RIGHT = frozenset({"correct", "right", "1", "1.0", "true", "yes", "perfect", "acceptable", "0.5"})
_WRONG = frozenset({"wrong", "incorrect", "hallucination", "0", "0.0", "-1", "-1.0", "false", "no"})
_NEITHER = frozenset({"missing", "miss", ""})


def read_labels(path: Path, turns: Sequence[AnsweredTurn]) -> dict[Key, bool]:
    """Read the labels by hand of these turns, without those that call the answer missing.

    A label without a session belongs to the only turn of its interaction_id. The log says how many belong to none of the turns.

    Raises:
        EvaluationError: The file cannot be read, lacks a column, or has an unknown label, two labels of one turn that differ, or an
            interaction_id of two sessions.
    """
    by_id: dict[str, list[Key]] = defaultdict(list)
    for turn in turns:
        by_id[turn.interaction_id].append(turn.key)
    verdicts: dict[Key, bool | None] = {}
    rows = _read_label_rows(path)
    strange = 0
    for number, row in enumerate(rows, 1):
        label = row["label"].strip().lower()
        if label not in _RIGHT | _WRONG | _NEITHER:
            raise EvaluationError(f"{path}, label {number}: {row['label']!r} is neither correct nor wrong nor missing")
        session = row.get("session_id", "")
        keys = [key for key in by_id[row["interaction_id"]] if session in ("", key[0])]
        if len(keys) > 1:
            raise EvaluationError(
                f"{path}, label {number}: {row['interaction_id']} is a turn of several sessions; add session_id"
            )
        strange += not keys
        verdict = None if label in _NEITHER else label in _RIGHT
        if keys and label and verdicts.setdefault(keys[0], verdict) != verdict:
            raise EvaluationError(
                f"{path}, label {number}: {row['interaction_id']} has another label already; keep one of them"
            )
    decided = {key: verdict for key, verdict in verdicts.items() if verdict is not None}
    if not decided:
        raise EvaluationError(f"{path} contains no label of these answers; take the labels of this run")
    if strange:
        log.warning("%s: %d of %d labels belong to none of these answers", path, strange, len(rows))
    return decided


def _read_label_rows(path: Path) -> list[dict[str, str]]:
    """Read the rows of labels; a session that is not given is "".

    Raises:
        EvaluationError: The file cannot be read, or lacks a column.
    """
    try:
        if path.suffix == ".jsonl":
            table = pd.DataFrame(
                read_all_lines(path), dtype=object
            )  # ids that are numbers stay whole beside a missing one
        else:
            table = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError, pd.errors.ParserError) as error:
        raise EvaluationError(f"{path} cannot be read: {error}") from error
    if not {"interaction_id", "label"} <= {*table}:
        raise EvaluationError(f"{path} needs the columns interaction_id and label")
    if "session_id" in table:
        table["session_id"] = table["session_id"].fillna("")
    rows = table.where(table.notna(), np.nan).to_dict("records")
    return [{str(name): str(cell) for name, cell in row.items()} for row in rows]


@dataclass(frozen=True)
class Agreement:
    """Agreement of two raters over the turns that both decided.

    Attributes:
        share: Share of the turns on which they agree.
        kappa: Cohen's kappa; None if both said the same of every turn, so that the agreement by chance is unknown.
        interval: 95% bootstrap interval of kappa over sessions.
        confusion: [[both wrong, wrong but right by the second], [right but wrong by the second, both right]].
    """

    one: str
    other: str
    turns: int
    share: float
    kappa: float | None
    interval: Interval | None
    confusion: tuple[tuple[int, int], tuple[int, int]]


def measure_agreement(one: str, other: str, first: Verdicts, second: Verdicts) -> Agreement | None:
    """Measure the agreement of two raters; None if no turn was decided by both."""
    from sklearn.metrics import cohen_kappa_score, confusion_matrix

    keys = [key for key in first if key in second]
    if not keys:
        return None
    a, b = [first[key] for key in keys], [second[key] for key in keys]
    (both_wrong, second_alone), (first_alone, both_right) = confusion_matrix(a, b, labels=[False, True]).tolist()
    share = (both_wrong + both_right) / len(keys)
    kappa, interval = None, None
    if len({*a, *b}) > 1:
        kappa, interval = float(cohen_kappa_score(a, b, labels=[False, True])), _kappa_interval(keys, a, b)
    confusion = ((both_wrong, second_alone), (first_alone, both_right))
    return Agreement(one, other, len(keys), share, kappa, interval, confusion)


def _kappa_interval(keys: Sequence[Key], a: Sequence[bool], b: Sequence[bool]) -> Interval | None:
    """Compute the bootstrap interval of kappa over whole sessions.

    A sample in which both raters say the same of every turn counts as full agreement.
    """
    sums: dict[str, Any] = {}
    for (session, _), first, second in zip(keys, a, b, strict=True):
        sums[session] = sums.get(session, 0.0) + np.array([1, first == second, first, second])
    if len(sums) < 2:
        return None

    def kappa(turns: Any, agreed: Any, first: Any, second: Any) -> Any:
        by_chance = (first * second + (turns - first) * (turns - second)) / turns**2
        constant = by_chance == 1
        return np.where(constant, 1.0, (agreed / turns - by_chance) / np.where(constant, 1.0, 1 - by_chance))

    return session_interval(np.array(list(sums.values())), kappa)


def select_judged(judged: Sequence[JudgedTurn]) -> dict[Key, bool]:
    """Return the verdicts that a judge made itself.

    Misses and exact answers, which no judge is asked about, would only flatter it.
    """
    return {turn.turn.key: turn.semantic for turn in judged if turn.semantic is not None and not turn.judge_failed}


class AgreementOptions(SavedOptions):
    """Let several judges judge the same answers, and measure their agreement with each other and with labels by hand."""

    answers: Annotated[str, Flag(positional=True, metavar="FILE_OR_RUN")] = Field(
        description="response.jsonl of any agent, or a run's folder"
    )
    judges: Annotated[str, Flag(metavar="A,B,C")] = Field(
        "rule",
        description=f"rule, local, local:PROFILE, models, MODEL@organiser, or {OWN}: the verdicts of the run's own table; "
        "--max-cost is for each",
    )
    labels: Annotated[Path | None, Flag(metavar="FILE")] = Field(None, description="labels by hand, CSV or JSON lines")


def collect_ratings(saved: Saved, options: AgreementOptions, console: Console) -> dict[str, Verdicts]:
    """Collect the verdicts of each judge, and the labels by hand, by rater.

    Raises:
        EvaluationError: There are fewer than two raters, one of them has nothing to say, or no answer is to a question of the data sets.
        JudgeError: A judge is not available.
    """
    sets = load_labels(options)
    check_questions([saved], sets, console)
    saved = add_labels([saved], sets)[0]
    names = [name.strip() for name in options.judges.split(",") if name.strip()]
    if len(names) + (options.labels is not None) < 2:
        raise EvaluationError("two raters are needed: name several --judges, or --labels")
    open_turns = count_to_judge(saved.turns, options.rules)
    shares = {name: Share(open_turns) for name in names if name != OWN}
    with StudyBar(JUDGING, shares, is_visible=not options.no_progress) as bar:
        ratings = _verdicts(saved, names, options, sets, bar, console)
    if options.labels is not None:
        ratings["by hand"] = read_labels(options.labels, saved.turns)
    if len(ratings) < 2:
        raise EvaluationError(f"two raters are needed: {', '.join(names)} name one judge; name another, or --labels")
    return ratings


def _verdicts(
    saved: Saved,
    names: Sequence[str],
    options: AgreementOptions,
    sets: Sequence[CragDataset],
    bar: StudyBar,
    console: Console,
) -> dict[str, Verdicts]:
    ratings: dict[str, Verdicts] = {}
    for name in names:
        if name == OWN:
            own = read_own_verdicts([saved], options.rules)
            if own is None:
                raise EvaluationError(f"{saved.label} has no table of judged turns for these answers and rules")
            ratings[f"{OWN}: {own.judge}"] = select_judged(own.entries[0].turns)
            continue
        model, _, words = name.partition("@")
        if words and (words != "organiser" or options.organiser is None):
            raise EvaluationError(f"{name}: write MODEL@organiser, and name the checkout with --organiser")
        judge_options = options.model_copy(update={"judge_style": None} if words else {"organiser": None})
        judge = judge_options.judge(model, options.cache, make_local_judge)
        entry = judge_entry(saved, judge, options, sets, bar.bars_for(name, name))
        ratings[judge.name] = select_judged(entry.turns)
        failed = sum(turn.judge_failed for turn in entry.turns)
        if failed:
            with bar.hide():
                console.print(f"[red]{judge.name}: {failed} judgements failed and are left out[/]")
    return ratings


def build_tables(
    saved: Saved, ratings: Mapping[str, Verdicts], pairs: Sequence[Agreement], limit: int | None = None
) -> list[ResultTable]:
    """Build the tables of agreement and confusion of each pair, and of answers on which raters differ.

    Args:
        saved: The answers.
        ratings: Verdicts by rater.
        pairs: Agreement of each pair of raters.
        limit: Number of differing answers to show, cut to a line; None: all of them, whole.
    """
    letters = dict(zip(ratings, ascii_uppercase, strict=False))
    heads = ["pair", "turns", "agree (%)", "kappa [95%]"]
    heads += ["both right", "both wrong", "right by first", "right by second"]
    rows = [
        (
            f"{letters[pair.one]}, {letters[pair.other]}",
            str(pair.turns),
            f"{100 * pair.share:.1f}",
            _format_kappa(pair),
            *(str(pair.confusion[one][other]) for one, other in ((1, 1), (0, 0), (1, 0), (0, 1))),
        )
        for pair in pairs
    ]
    notes = [
        *(
            f"{letters[name]}: {name}, {len(verdicts)} verdicts, {sum(verdicts.values())} right"
            for name, verdicts in ratings.items()
        ),
        "exact answers and misses, which no judge is asked about, are left out; right by first: by the first alone",
    ]
    tables = [ResultTable("Agreement of judges (Cohen's kappa)", heads, rows, notes)]
    differing = [
        turn for turn in saved.turns if {False, True} <= {verdicts.get(turn.key) for verdicts in ratings.values()}
    ]
    if differing:
        words = {None: "", True: "right", False: "wrong"}
        longest = None if limit is None else _MAX_CHARACTERS
        rows = [
            (
                *(shorten(text, longest) for text in (turn.query, turn.ground_truth, turn.agent_response)),
                *(words[verdicts.get(turn.key)] for verdicts in ratings.values()),
            )
            for turn in differing[:limit]
        ]
        more = [f"{len(differing) - len(rows)} more differ"] if len(differing) > len(rows) else []
        heads = ["question", "truth", "answer", *letters.values()]
        tables.append(ResultTable("Answers on which they differ", heads, rows, more, words=True))
    return tables


def _format_kappa(pair: Agreement) -> str:
    if pair.kappa is None:
        return "-"
    return f"{pair.kappa:.2f}" + ("" if pair.interval is None else " [{:.2f}, {:.2f}]".format(*pair.interval))


def compare_raters(ratings: Mapping[str, Verdicts]) -> list[Agreement]:
    """Measure the agreement of each two raters that decided on the same turns.

    Raises:
        EvaluationError: No two raters did.
    """
    pairs = (measure_agreement(one, other, ratings[one], ratings[other]) for one, other in combinations(ratings, 2))
    comparable = [pair for pair in pairs if pair is not None]
    if not comparable:
        counts = "; ".join(f"{name}: {len(verdicts)} verdicts" for name, verdicts in ratings.items())
        raise EvaluationError(
            f"no answer was decided by two raters ({counts}); no judge is asked about exact answers and misses: take other answers"
        )
    return comparable


def main(arguments: Sequence[str] | None = None, console: Console | None = None) -> int:
    """Judge, compare, print and write; return the exit status: 0, or 2 after an expected error."""
    options, console = AgreementOptions.parse(arguments, epilog=_EXAMPLES), console or make_console()

    def run() -> None:
        with lock_folders(options.out):
            _run(options, console)

    return run_to_exit_status(run, console)


def _run(options: AgreementOptions, console: Console) -> None:
    saved = find_saved(options.answers)
    ratings = collect_ratings(saved, options, console)
    pairs = compare_raters(ratings)
    for table in build_tables(saved, ratings, pairs, _MAX_SHOWN):
        table.show(console)
    if options.out is not None:
        content = {"answers": saved.label, "pairs": [asdict(pair) for pair in pairs]}
        made_with = make_card([read_manifest(file.parent) for file in saved.files], len(saved.turns))
        tables = [*build_tables(saved, ratings, pairs), build_card_table({saved.label: made_with})]
        publish(options.out / "agreement", content, f"Agreement on {saved.label}", tables, console)


if __name__ == "__main__":
    sys.exit(main())
