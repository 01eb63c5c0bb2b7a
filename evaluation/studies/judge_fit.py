"""``python -m evaluation.studies.judge_fit``: fits the threshold of P(yes) of the judge without a server."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field
from rich.console import Console

from agents.base.cache_folder import DEFAULT_CACHE, CacheOption
from agents.base.command_options import Flag, Options
from agents.base.files import write_whole
from evaluation.commands import make_console, run_to_exit_status
from evaluation.files.responses import read_lines, read_responses
from evaluation.judge.local_judge import CUTS, FittedCut, Tally, YesOrNo, judge_if_sure
from evaluation.judge.rule_judge import RuleJudge
from evaluation.progress import turn_bar
from evaluation.records import AnsweredTurn, EvaluationError, JudgeItem, Key
from evaluation.run.launching import make_yes_or_no
from evaluation.studies.agreement import build_tables, compare_raters, measure_agreement, read_labels
from evaluation.studies.decisions import FITTED_SPLIT, BoolArray, FloatArray
from evaluation.studies.judged_entries import Saved

_HOW = """example:
  python -m evaluation.studies.judge_fit --profile embedded_batch --labels mini_crag_mm/labelled_answers.jsonl

The labels are saved answers (session_id, interaction_id, query, ground_truth, agent_response) with two more fields: label (correct or
wrong) and split. The cut is the one with the highest kappa on the split validation; the other splits say what it is worth. Replies of
the model are kept below --cache, so that the command goes on where it was stopped, and so that judging these answers later is free.
"""


def choose_cut(probability: FloatArray, right: BoolArray) -> float:
    """Return the cut with the highest kappa, halfway between the P(yes) of two answers.

    Of several cuts the one in the widest gap is taken.

    Args:
        probability: P(yes) of each answer, shape (answers,).
        right: Label of each answer, shape (answers,).

    Raises:
        EvaluationError: All labels are the same.
    """
    from sklearn.metrics import cohen_kappa_score

    if right.all() or not right.any():
        raise EvaluationError("a cut cannot be fitted: the model has to be asked about right and about wrong answers")
    ends = np.unique(np.concatenate([[0.0], probability, [1.0]]))
    gaps = np.diff(ends)
    cuts = ends[:-1] + gaps / 2
    kappas = [cohen_kappa_score(right, probability >= cut, labels=[False, True]) for cut in cuts]
    return float(max(zip(kappas, gaps, cuts, strict=True))[2])


def ask_model(
    model: YesOrNo, turns: Sequence[AnsweredTurn], console: Console, *, progress: bool
) -> tuple[dict[Key, bool], dict[Key, float]]:
    """Decide on answers by the rule where it is sure, and ask the model about the others.

    Returns:
        The rule's verdicts, and the model's P(yes) of the other answers. Answers of which it says neither yes nor no are left out.
    """
    rule, items = RuleJudge(), {turn.key: make_item(turn) for turn in turns}
    sure = {key: verdict.correct for key, item in items.items() if (verdict := judge_if_sure(rule, item)) is not None}
    keys = [key for key in items if key not in sure]
    probabilities: dict[Key, float] = {}
    with turn_bar("asking", len(keys), is_visible=progress) as bar:
        for start in range(0, len(keys), model.batch):
            some = keys[start : start + model.batch]
            replies = model.probabilities([items[key] for key in some])
            probabilities |= {
                key: probability for key, probability in zip(some, replies, strict=True) if probability is not None
            }
            bar.update(len(some))
    if len(probabilities) < len(keys):
        console.print(f"[red]{len(keys) - len(probabilities)} answers have neither yes nor no and are left out[/]")
    return sure, probabilities


def fit(
    model: YesOrNo, labels: Path, console: Console, *, progress: bool = False
) -> tuple[FittedCut, Saved, dict[str, Mapping[Key, bool]]]:
    """Ask the model about every labelled answer and fit its cut.

    Returns:
        The cut, the answers that it was not fitted on, and the verdicts of judge, rule and hand on those.

    Raises:
        EvaluationError: The labels cannot be read, or there are not enough of them on either side.
    """
    from sklearn.metrics import roc_auc_score

    turns = read_responses(labels)
    by_hand = read_labels(labels, turns)
    splits = [line.get("split") for line in read_lines(labels)]
    if not any(splits):
        raise EvaluationError(f"{labels} needs the field split")
    fitted_on = {turn.key for turn, split in zip(turns, splits, strict=True) if split == FITTED_SPLIT}
    turns = [turn for turn in turns if turn.key in by_hand]
    sure, probabilities = ask_model(model, turns, console, progress=progress)
    keys = [key for key in probabilities if key in fitted_on]
    cut = choose_cut(
        np.array([probabilities[key] for key in keys]), np.array([by_hand[key] for key in keys], dtype=np.bool_)
    )
    judge = sure | {key: probability >= cut for key, probability in probabilities.items()}

    def measure(part: str, is_fitted: bool) -> Tally:
        verdicts = {key: verdict for key, verdict in judge.items() if (key in fitted_on) is is_fitted}
        agreement = measure_agreement("judge", "hand", verdicts, by_hand)
        if agreement is None:
            raise EvaluationError(f"{labels} contains no label of {part}; name the file of labels of that split")
        (both_wrong, hand_alone), (judge_alone, both_right) = agreement.confusion
        return Tally(
            answers=agreement.turns, kappa=agreement.kappa, both_right=both_right, both_wrong=both_wrong,
            right_by_judge=judge_alone, right_by_hand=hand_alone,
        )  # fmt: skip

    fitted_cut = FittedCut(
        profile=model.profile,
        model=model.name,
        prompt=model.prompt,
        cut=round(cut, 4),
        auroc=round(float(roc_auc_score([by_hand[key] for key in probabilities], list(probabilities.values()))), 4),
        labels=labels.name,
        fitted=measure(FITTED_SPLIT, is_fitted=True),
        held_out=measure(f"another split than {FITTED_SPLIT}", is_fitted=False),
    )
    held_out, rule = [turn for turn in turns if turn.key not in fitted_on], RuleJudge()
    verdicts: dict[str, Mapping[Key, bool]] = {
        f"local:{model.profile}": {turn.key: judge[turn.key] for turn in held_out if turn.key in judge},
        rule.name: {turn.key: rule.judge(make_item(turn)).correct for turn in held_out},
        "by hand": {turn.key: by_hand[turn.key] for turn in held_out},
    }
    return fitted_cut, Saved("held out", (), tuple(held_out)), verdicts


def make_item(turn: AnsweredTurn) -> JudgeItem:
    """Return a judge's view of a labelled answer, without accept forms, which would need no model."""
    return JudgeItem(turn.query, turn.ground_truth, turn.agent_response)


class JudgeFitOptions(Options):
    """Fit the judge that needs no server, a profile's own chat model, to answers labelled by hand."""

    profile: Annotated[str, Flag(metavar="NAME")] = Field(
        "embedded", description="whose chat model; a name or the path of a .toml file"
    )
    labels: Annotated[Path, Flag(metavar="FILE")] = Field(description="answers with labels, JSON lines")
    cache: CacheOption = Field(DEFAULT_CACHE, description="folder of the models and of their replies")
    out: Annotated[Path, Flag(metavar="DIR")] = Field(CUTS, description="folder of the cuts")
    dry_run: bool = Field(False, description="write nothing")
    no_progress: bool = Field(False, description="no progress bar")


def main(arguments: Sequence[str] | None = None, console: Console | None = None, model: YesOrNo | None = None) -> int:
    """Fit, print and write; return the exit status: 0, or 2 after an expected error.

    ``model`` is asked instead of the profile's.
    """
    options, console = JudgeFitOptions.parse(arguments, epilog=_HOW), console or make_console()
    return run_to_exit_status(lambda: _run(options, console, model), console)


def _run(options: JudgeFitOptions, console: Console, model: YesOrNo | None) -> None:
    chat_model = model or make_yes_or_no(options.profile, options.cache)
    fitted_cut, held_out, ratings = fit(chat_model, options.labels, console, progress=not options.no_progress)
    for table in build_tables(held_out, ratings, compare_raters(ratings)):
        table.show(console)
    summary = (
        f"cut {fitted_cut.cut} by {fitted_cut.model}; AUROC {fitted_cut.auroc} over all answers that it was asked about"
    )
    for line in (summary, f"fitted: {fitted_cut.fitted}", f"held out: {fitted_cut.held_out}"):
        console.print(line, markup=False, highlight=False)
    if not options.dry_run:
        path = options.out / f"{fitted_cut.profile}.json"
        write_whole(path, fitted_cut.model_dump_json(indent=2) + "\n")
        console.print(f"written: {path}", markup=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
