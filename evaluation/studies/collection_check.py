"""``crag test COLLECTION``: asks the questions of a collection, and gives cause and remedy of each lost turn."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field
from rich.console import Console

from agents.base.command_options import Flag
from agents.settings.shared_options import print_json
from evaluation.commands import make_console, run_to_exit_status
from evaluation.files.manifest import read_json, read_manifest
from evaluation.files.outputs import SCORES, read_about, read_turn_table
from evaluation.records import EvaluationError
from evaluation.run.command import TOO_MANY_ERRORS, evaluate
from evaluation.run.launching import prepare
from evaluation.studies import flips, lost_turns
from evaluation.studies.collection_runs import (
    CollectionRunOptions,
    choose_folder,
    load_questions,
    read_judged_questions,
)
from evaluation.studies.judged_entries import Entry, SavedRun
from evaluation.studies.result_tables import publish

TOO_UNTRUTHFUL = 1
_MAX_CHARACTERS = 80

_HOW = """exit status: 0; 1 if truthfulness is below --min-truthfulness or there are too many errors; 2 if something is wrong with
the collection or the command. Questions without accepted answers score 0 when they are declined, so that a perfect run does not reach 1.
"""


def parse_truthfulness(text: object) -> float:
    """Parse a truthfulness, ``0.6`` or ``60%``.

    Raises:
        ValueError: It is no number from -1 to 1.
    """
    value_text = str(text).strip()
    try:
        value = float(value_text.removesuffix("%")) / (100 if value_text.endswith("%") else 1)
    except ValueError:
        value = 2.0
    if not -1 <= value <= 1:
        raise ValueError(f"{value_text!r}; write a truthfulness from -1 to 1, such as 0.6 or 60%")
    return value


class CollectionCheckOptions(CollectionRunOptions):
    """Ask the questions of a collection, and say why turns are lost."""

    group = "run"

    output_dir: Annotated[Path | None, Flag(metavar="DIR")] = Field(
        None, description="folder for answers, scores and reports; not given: the next of results/NAME/1, 2, ..."
    )
    against: Annotated[Path | None, Flag(metavar="DIR")] = Field(
        None, description="folder of an earlier run: show which verdicts changed since"
    )
    min_truthfulness: Annotated[float | None, BeforeValidator(parse_truthfulness), Flag(metavar="SHARE")] = Field(
        None,
        description="end with status 1 if truthfulness is below this, such as 0.6 or 60%, for continuous integration",
    )


def main(arguments: Sequence[str] | None = None, console: Console | None = None) -> int:
    """Ask, judge, explain and compare; return the exit status (see ``--help``)."""
    options = CollectionCheckOptions.parse(arguments, epilog=_HOW)
    console = console or make_console(aside=options.as_json)

    def run() -> int:
        return _check(options, console)

    return run_to_exit_status(run, console)


def _check(options: CollectionCheckOptions, console: Console) -> int:
    questions = load_questions(options.collection)
    if options.resume and options.output_dir is None:
        raise EvaluationError("--resume needs --output-dir: the folder of the run that goes on")
    before = None if options.against is None else _read_entry(options.against)
    folder = options.output_dir or choose_folder(options.collection)
    status = evaluate(options.make_run_options(folder), console)
    if status not in (0, TOO_MANY_ERRORS):
        return status
    judged_questions = read_judged_questions(folder, questions, options.collection)
    config, _ = prepare(options.make_run_options(folder))
    indexed = config.read_indexed()
    lost = lost_turns.find_lost_turns(judged_questions, str(options.collection), indexed, config.get_k)
    shown = lost_turns.summarise_answers_shown(judged_questions, indexed)
    content = lost_turns.build_content(judged_questions, lost, shown)
    for table in lost_turns.build_tables(lost, _MAX_CHARACTERS):
        table.show(console)
    console.print(str(content["summary"]), markup=False, highlight=False)
    if shown is not None:
        console.print(str(shown), markup=False, highlight=False)
    publish(folder / "lost", content, f"Lost turns of {questions.name}", lost_turns.build_tables(lost), console)
    if before is not None:
        _compare(before, _read_entry(folder), folder, console)
    if options.as_json:
        print_json({"output_dir": str(folder), "scores": read_json(folder / SCORES), **content})
    return max(status, _check_truthfulness(folder, options.min_truthfulness, console))


def _check_truthfulness(folder: Path, minimum: float | None, console: Console) -> int:
    reached = float(read_json(folder / SCORES)["all"]["truthfulness_score"])
    if minimum is None or reached >= minimum:
        return 0
    console.print(
        f"error: truthfulness is {100 * reached:.1f}%, and --min-truthfulness asks for {100 * minimum:.1f}%; the tables above list the "
        "lost turns",
        style="red", markup=False, soft_wrap=True,
    )  # fmt: skip
    return TOO_UNTRUTHFUL


def _read_entry(folder: Path) -> Entry:
    """Read a judged run.

    Raises:
        EvaluationError: The folder has none.
    """
    turns = tuple(read_turn_table(folder))
    run = SavedRun(folder, read_manifest(folder), frozenset(judged.turn.key for judged in turns))
    return Entry(str(folder), turns, (run,))


def _compare(before: Entry, after: Entry, folder: Path, console: Console) -> None:
    """Show and write the verdicts that changed.

    Raises:
        EvaluationError: The runs have no question in common, or other judges.
    """
    judges = [str(read_about(entry.folders[0]).get("judge", "")) for entry in (before, after)]
    if judges[0] != judges[1]:
        raise EvaluationError(
            f"{before.label} was judged by {judges[0]!r}, this run by {judges[1]!r}; name the same judge with --eval-model"
        )
    changes = flips.find_flips(before, after)
    for table in flips.build_tables(before, after, changes, _MAX_CHARACTERS):
        table.show(console)
    content = flips.build_content(before, after, changes, f"judge: {judges[0]}")
    publish(
        folder / "flips",
        content,
        f"{before.label} → {after.label}",
        flips.build_tables(before, after, changes),
        console,
    )


if __name__ == "__main__":
    sys.exit(main())
