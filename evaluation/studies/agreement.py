"""``python -m evaluation.studies.agreement``: how far judges agree with each other and with labels by hand."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import numpy as np
from rich.console import Console

from agents.secrets import keep_out_of_logs
from evaluation.judge.judge_options import judge_settings
from evaluation.judge.judging import choose_judge
from evaluation.records import AnsweredTurn, EvaluationError, JudgedTurn, Key
from evaluation.rules import RULES
from evaluation.run.launching import local_judge
from evaluation.scores.scoring import Interval, session_interval
from evaluation.studies.hand_labels import read_labels
from evaluation.studies.judged_entries import (
    Saved,
    add_entry_options,
    as_judged,
    find_saved,
    judged_entry,
    load_labels,
    with_labels,
)
from evaluation.studies.result_tables import ResultTable
from evaluation.studies.study_page import write_page

_EXAMPLES = """examples:
  the rule, gpt-4o-mini with our words, and labels by hand:
    python -m evaluation.studies.agreement results/best --judges rule,gpt-4o-mini --labels labels.csv --out results/agreement

  the same model with our words and with the organiser's:
    python -m evaluation.studies.agreement results/best --judges gpt-4o-mini,gpt-4o-mini@organiser --organiser starter-kit

labels.csv (or .jsonl) has a line a turn: interaction_id, label, and session_id where interaction_ids repeat. Labels: correct or wrong,
1 or 0, true or false, or the organiser's scale by hand: perfect, acceptable, missing, incorrect.
"""

OWN = "own"
"""Names the verdicts of a run's own table."""

_LONGEST = 60
_MOST_SHOWN = 20

Verdicts = Mapping[Key, bool]
"""Whether an answer is right; a turn on which a rater says nothing is not in it."""


@dataclass(frozen=True)
class Agreement:
    """Two raters over the turns that both decided.

    Attributes:
        share: Of the turns on which they agree.
        kappa: Cohen's kappa; None where both said the same of every turn, so that no agreement by chance can be told.
        interval: Its 95% bootstrap interval over sessions.
        confusion: [[both wrong, wrong but right by the second], [right but wrong by the second, both right]].
    """

    one: str
    other: str
    turns: int
    share: float
    kappa: float | None
    interval: Interval | None
    confusion: tuple[tuple[int, int], tuple[int, int]]


def agreement(one: str, other: str, first: Verdicts, second: Verdicts) -> Agreement | None:
    """How far two raters agree; None where no turn was decided by both."""
    from sklearn.metrics import cohen_kappa_score, confusion_matrix

    keys = [key for key in first if key in second]
    if not keys:
        return None
    a, b = [first[key] for key in keys], [second[key] for key in keys]
    matrix = confusion_matrix(a, b, labels=[False, True])
    constant = len({*a, *b}) == 1
    return Agreement(
        one,
        other,
        len(keys),
        float(np.mean(np.array(a) == np.array(b))),
        None if constant else float(cohen_kappa_score(a, b, labels=[False, True])),
        None if constant else _kappa_interval(keys, a, b),
        ((int(matrix[0, 0]), int(matrix[0, 1])), (int(matrix[1, 0]), int(matrix[1, 1]))),
    )


def _kappa_interval(keys: Sequence[Key], a: Sequence[bool], b: Sequence[bool]) -> Interval | None:
    """Whole sessions are resampled; a sample in which both say the same of every turn counts as full agreement."""
    sums: dict[str, list[float]] = {}
    for (session, _), said, also in zip(keys, a, b, strict=True):
        cell = sums.setdefault(session, [0.0] * 4)
        for position, value in enumerate((1, said == also, said, also)):
            cell[position] += value
    if len(sums) < 2:
        return None

    def kappa(turns: Any, agreed: Any, right: Any, also: Any) -> Any:
        by_chance = (right * also + (turns - right) * (turns - also)) / turns**2
        return np.where(
            by_chance == 1, 1.0, (agreed / turns - by_chance) / np.where(by_chance == 1, 1.0, 1 - by_chance)
        )

    return session_interval(np.array(list(sums.values())), kappa)


def decided(judged: Sequence[JudgedTurn]) -> dict[Key, bool]:
    """The verdicts that a judge made: misses and exact answers, on which no judge is asked, would only flatter it."""
    return {
        turn.turn.key: bool(turn.semantic) for turn in judged if turn.semantic is not None and not turn.judge_failed
    }


def ratings(saved: Saved, options: argparse.Namespace, console: Console) -> dict[str, Verdicts]:
    """What each judge, and the person, said of each answer, by rater.

    Raises:
        EvaluationError: There are fewer than two raters, or one of them has nothing to say.
        JudgeError: A judge is not available.
    """
    sets = load_labels(options) if options.dataset is not None else []
    saved = with_labels([saved], sets)[0]
    names = [name.strip() for name in options.judges.split(",") if name.strip()]
    if len(names) + (options.labels is not None) < 2:
        raise EvaluationError("two raters are needed: name several --judges, or --labels")
    found: dict[str, Verdicts] = {}
    for name in names:
        if name == OWN:
            own = as_judged([saved], RULES[options.rules])
            if own is None:
                raise EvaluationError(f"{saved.label} has no table of judged turns for these answers and rules")
            found[f"{OWN}: {own.judge}"] = decided(own.entries[0].turns)
            continue
        model, _, words = name.partition("@")
        if words and (words != "organiser" or options.organiser is None):
            raise EvaluationError(f"{name}: write MODEL@organiser, and name the checkout with --organiser")
        given = judge_settings(options) | ({"style": None} if words else {"organiser": None})
        judge = choose_judge(model, cache=options.cache, rules=RULES[options.rules], local=local_judge, **given)
        entry = judged_entry(saved, judge, options, sets)
        found[judge.name] = decided(entry.turns)
        failed = sum(turn.judge_failed for turn in entry.turns)
        if failed:
            console.print(f"[red]{judge.name}: {failed} judgements failed and are left out[/]")
    if options.labels is not None:
        found["by hand"] = read_labels(options.labels, saved.turns)
    return found


def tables(
    saved: Saved, found: Mapping[str, Verdicts], pairs: Sequence[Agreement], most: int | None = None
) -> list[ResultTable]:
    """Agreement and confusion of each pair, and the answers on which raters differ.

    Args:
        most: Answers shown, cut to a line; None for all, in full.
    """
    letters = dict(zip(found, ascii_uppercase, strict=False))
    heads = (
        "pair",
        "turns",
        "agree (%)",
        "kappa [95%]",
        "both right",
        "both wrong",
        "right by first",
        "right by second",
    )
    rows = tuple(
        (
            f"{letters[pair.one]}, {letters[pair.other]}",
            str(pair.turns),
            f"{100 * pair.share:.1f}",
            _kappa(pair),
            *(str(pair.confusion[one][other]) for one, other in ((1, 1), (0, 0), (1, 0), (0, 1))),
        )
        for pair in pairs
    )
    notes = [
        f"{letters[name]}: {name}, {len(said)} verdicts, {sum(said.values())} right" for name, said in found.items()
    ]
    notes.append(
        "exact answers and misses, which no judge is asked about, are left out; right by first: by the first alone"
    )
    made = [ResultTable("Agreement of judges (Cohen's kappa)", heads, heads, rows, tuple(notes))]
    differing = [
        turn for turn in saved.turns if len({said[turn.key] for said in found.values() if turn.key in said}) > 1
    ]
    if differing:
        made.append(_differing_table(differing, found, list(letters.values()), most))
    return made


def _differing_table(
    differing: Sequence[AnsweredTurn], found: Mapping[str, Verdicts], letters: Sequence[str], most: int | None
) -> ResultTable:
    heads = ("question", "truth", "answer", *letters)
    rows = tuple(
        (
            *(_cut(text, most) for text in (turn.query, turn.ground_truth, turn.agent_response)),
            *(_word(said.get(turn.key)) for said in found.values()),
        )
        for turn in differing[:most]
    )
    more = (f"{len(differing) - most} more differ",) if most is not None and len(differing) > most else ()
    return ResultTable("Answers on which they differ", heads, heads, rows, more, words=True)


def _kappa(pair: Agreement) -> str:
    if pair.kappa is None:
        return "-"
    return f"{pair.kappa:.2f}" + (
        f" [{pair.interval[0]:.2f}, {pair.interval[1]:.2f}]" if pair.interval is not None else ""
    )


def _word(verdict: bool | None) -> str:
    return "" if verdict is None else "right" if verdict else "wrong"


def _cut(text: str, most: int | None) -> str:
    return text if most is None or len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def main(arguments: Sequence[str] | None = None, console: Console | None = None) -> int:
    """Judge, compare, print and write. Returns the exit status: 0, 2 for what cannot be done."""
    options = _parser().parse_args(arguments)
    keep_out_of_logs()
    console = console or Console()
    try:
        saved = find_saved(options.answers)
        found = ratings(saved, options, console)
    except EvaluationError as error:
        console.print(f"error: {error}", style="red", markup=False, soft_wrap=True)
        return 2
    pairs = [
        pair
        for one, other in combinations(found, 2)
        if (pair := agreement(one, other, found[one], found[other])) is not None
    ]
    for table in tables(saved, found, pairs, _MOST_SHOWN):
        table.show(console)
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        content = {"answers": saved.label, "pairs": [asdict(pair) for pair in pairs]}
        (options.out / "agreement.json").write_text(
            json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )
        write_page(options.out / "agreement.html", f"Agreement on {saved.label}", tables(saved, found, pairs))
        console.print(f"written: {options.out / 'agreement.html'} and .json", markup=False, soft_wrap=True)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m evaluation.studies.agreement",
        description="Let several judges judge the same answers, and say how far they agree with each other and with labels by hand.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("answers", metavar="FILE_OR_RUN", help="response.jsonl of any agent, or a run's folder")
    parser.add_argument(
        "--judges",
        default="rule",
        metavar="A,B,C",
        help=f"rule, local, local:PROFILE, models, MODEL@organiser, or {OWN}: the verdicts of the run's own table; --max-cost is for each",
    )
    parser.add_argument("--labels", type=Path, metavar="FILE", help="labels by hand, CSV or JSON lines")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for agreement.html and agreement.json")
    add_entry_options(parser, eval_model=False)
    return parser


if __name__ == "__main__":
    sys.exit(main())
