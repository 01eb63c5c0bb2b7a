"""Fits the extractive reader's two regressions (agents/models/data/reader_weights.toml) and says what they are worth.

    python -m training.reader --seed 0

Fitted to: the questions of the mini set's validation split, with the entity given as if the picture had been recognised; hand-written
questions over Wikipedia summaries (training/data/reader_questions.toml); and questions made of the validation split's infobox attributes
(training/data/reader_templates.toml). Each goes through the stages of the preset to what its reader is given; every candidate is
judged by the rule judge. Questions with a right candidate come a second time, without the passages that have it. `public_test` is not used.

Needs the search indices of the validation split: python -m demo.prepare --split validation
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit

from agents.deadline import NO_DEADLINE
from agents.launch import DEFAULT_CACHE, build_models, build_pipeline, prepare, settings_of
from agents.models.base import ModelError
from agents.models.reader import WEIGHTS, ExtractiveReader, Weights, load_weights
from agents.prompts import PromptLibrary
from agents.search.gateway import SearchGateway
from agents.search.types import SearchError
from agents.settings import PROMPTS, SettingsError
from agents.stage import Context
from demo.build.content import ContentError, load_content
from demo.build.kg import read_kg
from demo.build.paths import DemoPaths, write_text
from demo.build.wiki import WikiError, read_pages, read_summaries
from evaluation.rule_judge import RuleJudge
from training.data_hash import training_hash
from training.logistic import TrainingError
from training.reader_fit import Options, Scored, cross_validated, fit_weights, measures, scored
from training.reader_questions import (
    HELD_BACK,
    SPLIT,
    Asked,
    held_back_names,
    made_questions,
    read_templates,
    read_written,
    split_questions,
    written_questions,
)
from training.reader_requests import Example, examples_of, requests_of
from training.remembering import RememberingRegistry

_ABOUT = """\
Weights of the extractive reader. [candidate] is a logistic regression over Features (agents/models/reading/candidates.py):
is this candidate right? [question] is one over its log-odds and traits of the question (agents/models/reader.py): is the best
candidate right? It is fitted to log-odds of questions that the first was not fitted to. Written by the command below."""


@dataclass(frozen=True)
class Report:
    """Measures by what was measured (``fitted, cross-validated on split`` and so on)."""

    rows: Mapping[str, Mapping[str, float]]


def gather(*, made: int, seed: int) -> list[Asked]:
    """All questions that are fitted to.

    Args:
        made: How many of those made of attributes; all of them where it is negative.

    Raises:
        ContentError, TrainingError, WikiError: A file of questions cannot be used; the summaries are not installed.
    """
    held_back = held_back_names(read_pages(split=HELD_BACK), read_kg(HELD_BACK))
    return [
        *split_questions(load_content(DemoPaths().content)),
        *written_questions(read_written(), read_summaries(), held_back),
        *made_questions(read_kg(SPLIT), read_templates(), seed, made),
    ]


def look_up(questions: Sequence[Asked], preset: str, profile: str, cache: Path, progress: bool) -> list[Example]:
    """The questions with what the preset's reader makes of what the preset finds.

    Raises:
        ModelError, SearchError, SettingsError, TrainingError: Something is missing; the message says what.
    """
    models = build_models(profile, cache, RememberingRegistry)
    reader = models.reader
    if not isinstance(reader, ExtractiveReader):
        raise TrainingError(f"the reader of profile {profile!r} has no weights of this kind")
    search = SearchGateway(build_pipeline(profile, split=SPLIT, images=False, cache=cache))
    context = Context(settings_of(preset, profile), models, search, PromptLibrary(PROMPTS), NO_DEADLINE)
    requests = requests_of(questions, context, progress)
    return examples_of(questions, requests, reader, RuleJudge(), progress=progress)


def compared(examples: Sequence[Example], new: Weights, old: Weights | None, held_out: Sequence[Scored]) -> Report:
    """Measures on the questions as they are, without those whose answer was taken away, by source."""
    rows: dict[str, Mapping[str, float]] = {}
    for source in dict.fromkeys(example.asked.source for example in examples):

        def of(results: Sequence[Scored], source: str = source) -> Mapping[str, float]:
            return measures([one for one in results if one.example.asked.source == source and not one.example.ablated])

        rows[f"{source}: fitted, cross-validated"] = of(held_out)
        rows[f"{source}: fitted, on the same questions"] = of(scored(examples, new))
        if old is not None:
            rows[f"{source}: the weights there are"] = of(scored(examples, old))
    return Report(rows)


def weights_document(weights: Weights, metadata: Mapping[str, Any]) -> str:
    """The file, as the reader loads it."""
    document = tomlkit.document()
    for line in _ABOUT.split("\n"):
        document.add(tomlkit.comment(line))
    for part in ("candidate", "question"):
        document.add(tomlkit.nl())
        table = tomlkit.table()
        for name, value in weights[part].items():
            table.add(name, value)
        document.add(part, table)
    document.add(tomlkit.nl())
    table = tomlkit.table()
    for name, entry in metadata.items():
        table.add(name, entry)
    document.add("metadata", table)
    return tomlkit.dumps(document)


def data_hash(examples: Sequence[Example]) -> str:
    """SHA-256 of the questions and of the passages they were asked of."""
    return training_hash(
        [
            (
                example.asked.id,
                str(example.ablated),
                example.asked.query,
                example.asked.truth,
                *example.asked.accept,
                *(f"{passage.title}: {passage.text}" for item in example.requests for passage in item.passages),
            )
            for example in examples
        ]
    )


def fit_and_report(
    examples: Sequence[Example], options: Options, old: Weights | None, *, progress: bool
) -> tuple[Weights, Report]:
    """Weights fitted to all examples, and the comparison.

    Raises:
        TrainingError: There is too little to fit to.
    """
    held_out = cross_validated(examples, options, progress)
    new = fit_weights(examples, options)
    return new, compared(examples, new, old, held_out)


def _print(report: Report) -> None:
    names = list(next(iter(report.rows.values())))
    width = max(len(row) for row in report.rows)
    print(" " * width, *(f"{name:>19s}" for name in names))
    for row, values in report.rows.items():
        print(
            f"{row:{width}s}",
            *(f"{values[name]:19.0f}" if name == "questions" else f"{values[name]:19.3f}" for name in names),
        )


def run(arguments: argparse.Namespace) -> None:
    """Gather, look up, fit, report, write.

    Raises:
        ContentError, ModelError, SearchError, SettingsError, TrainingError, WikiError: The message says what is missing.
    """
    progress = not arguments.no_progress
    old = load_weights(arguments.against) if arguments.against.is_file() else None
    prepare(arguments.cache, arguments.profile)
    questions = gather(made=arguments.made, seed=arguments.seed)
    examples = look_up(questions, arguments.preset, arguments.profile, arguments.cache, progress)
    options = Options(
        arguments.candidate_strength,
        arguments.question_strength,
        arguments.ablated_weight,
        arguments.folds,
        arguments.seed,
    )
    new, report = fit_and_report(examples, options, old, progress=progress)
    counts = Counter(example.asked.source for example in examples if not example.ablated)
    held_out = report.rows["split: fitted, cross-validated"]
    metadata = {
        "command": _command(arguments),
        "data": f"{counts['split']} questions of the mini set's {SPLIT} split, {counts['written']} hand-written and "
        f"{counts['made']} made of its attributes",
        "without_their_answer": sum(example.ablated for example in examples),
        "training_hash": data_hash(examples),
        "cross_validated_on_split": {
            name: round(value, 4) for name, value in held_out.items() if not math.isnan(value)
        },
    }
    print(f"{metadata['data']}; {metadata['without_their_answer']} once more without their answer")
    _print(report)
    if arguments.dry_run:
        print(f"dry run: {arguments.out} is not written")
    else:
        write_text(arguments.out, weights_document(new, metadata))
        print(f"weights: {arguments.out}")


def _command(arguments: argparse.Namespace) -> str:
    """The command with every option that the weights depend on."""
    decisive = (
        "preset", "profile", "made", "candidate_strength", "question_strength", "ablated_weight", "folds", "seed",
    )  # fmt: skip
    options = (f"--{name.replace('_', '-')} {getattr(arguments, name)}" for name in decisive)
    return " ".join(["python -m training.reader", *options])


def _positive(text: str) -> float:
    value = float(text)
    if not (value > 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


def _folds(text: str) -> int:
    value = int(text)
    if value < 2:
        raise argparse.ArgumentTypeError("at least 2 folds are needed")
    return value


def _parser() -> argparse.ArgumentParser:
    default = Options()
    parser = argparse.ArgumentParser(
        prog="python -m training.reader", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--preset", default="best", help="whose search and reranking is read (default: best)")
    parser.add_argument("--profile", default="embedded", help="whose models are used (default: embedded)")
    parser.add_argument(
        "--made", type=int, default=120, help="questions made of attributes; -1 for all (default: %(default)s)"
    )
    parser.add_argument(
        "--out", type=Path, default=WEIGHTS, help="where the weights go (default: where the reader looks)"
    )
    parser.add_argument(
        "--against", type=Path, default=WEIGHTS, help="weights to compare with (default: those there are)"
    )
    parser.add_argument(
        "--candidate-strength", type=_positive, default=default.candidate_strength, metavar="C",
        help="inverse L2 regularisation of the first regression (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--question-strength", type=_positive, default=default.question_strength, metavar="C",
        help="the same of the second (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--ablated-weight", type=_positive, default=default.ablated_weight, metavar="W",
        help="weight of a question without its answer, against 1 of any other (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--folds", type=_folds, default=default.folds, help="of the cross-validation (default: %(default)s)"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="of the made questions, the folds and the solver (default: 0)"
    )
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE, help="folder of indices and converted weights")
    parser.add_argument("--dry-run", action="store_true", help="measure, and write nothing")
    parser.add_argument("--no-progress", action="store_true", help="no progress bars")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    try:
        run(_parser().parse_args(arguments))
    except (ContentError, ModelError, SearchError, SettingsError, TrainingError, WikiError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
