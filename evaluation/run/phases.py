"""The steps of a run: answers, judgements, scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from agents.base.files import one_line
from agents.record import REQUEST_IMAGES, TurnRecord
from agents.unanswered import explain_error, name_cause
from evaluation.data.crag_dataset import CragDataset
from evaluation.data.sampling import Sample
from evaluation.files.manifest import WITHOUT_PICTURE, add_to_manifest, read_manifest, record_start, write_manifest
from evaluation.files.outputs import ACCEPTED, write_outputs
from evaluation.files.run_log import count_missing_pictures, read_run_log
from evaluation.files.traces import TRACE, find_failing_stages, read_traces
from evaluation.judge.inactivity import GIVE_UP_AFTER
from evaluation.judge.judging import Judge, judge_turns
from evaluation.judge.spending import Paid
from evaluation.progress import MakeBar, turn_bar
from evaluation.records import (
    LABELS,
    MAX_ANSWER_TOKENS,
    AnsweredTurn,
    Key,
    NoVerdictError,
    RunLogLine,
    Session,
    count_strange,
    index_questions,
    place_turn,
)
from evaluation.report.console_tables import (
    print_conversations,
    print_latency,
    print_origins,
    print_process,
    print_scores,
)
from evaluation.report.html_report import ReportPart, make_photo_loaders
from evaluation.rules import OURS, Rules
from evaluation.run.generate import Generation, generate
from evaluation.run.truncation import load_truncator

if TYPE_CHECKING:
    from evaluation.run.launching import LaunchedAgent


def answer_sessions(
    launched: LaunchedAgent,
    dataset: CragDataset,
    output_dir: Path,
    console: Console,
    *,
    about: Mapping[str, Any],
    sample: Sample | None = None,
    tokenizer: str | None = None,
    conversations: int | None = None,
    rules: Rules = OURS,
    resume: bool = False,
    progress: bool = True,
    bars: MakeBar = turn_bar,
    max_failures: int = 0,
) -> Generation:
    """Let an agent answer the sessions of a data set into ``output_dir``, with its records.

    ``about`` is what the run is made with. run.json gets it together with data set, sample, tokenizer and rules, and the number of
    turns without their picture. Without a ``sample`` the first sessions are asked. See ``generate`` and
    ``truncation.load_truncator`` for the other arguments.

    Raises:
        EvaluationError: The answers to resume from do not fit, or there is no such tokenizer.
    """
    output_dir.mkdir(parents=True, exist_ok=True)
    truncator = load_truncator(tokenizer)
    console.print(
        f"answers are cut at {MAX_ANSWER_TOKENS} tokens, <|begin_of_text|> among them, by {truncator.name}",
        markup=False,
    )
    if truncator.cut is None:
        console.print(
            "this is not the evaluator's tokenizer, which may cut answers elsewhere: name Llama-3.2's with --tokenizer",
            style="yellow",
            markup=False,
        )
    made_with = {**about, "dataset": dataset.name, "tokenizer": truncator.name, "rules": rules.name}
    if sample is not None:
        made_with["sample"] = sample.description
    if resume:  # other settings are refused before anything is loaded
        write_manifest(output_dir, made_with, resume)

    def begin() -> None:
        if not resume:
            write_manifest(output_dir, made_with, resume)
        record_start(output_dir)

    sessions = dataset.sessions if sample is None else sample.sessions
    listen = None if launched.listen is None else partial(launched.listen, pictures=output_dir / REQUEST_IMAGES)
    generation = generate(
        launched.agent, sessions, dataset, truncator, output_dir, conversations=conversations, rules=rules,
        resume=resume, progress=progress, bars=bars, warm_up=launched.warm_up, begin=begin, replies=launched.replies,
        evidence=launched.evidence, listen=listen, max_failures=max_failures,
    )  # fmt: skip
    if models := launched.models():  # nothing is loaded if every answer was there already; run.json has the models then
        add_to_manifest(output_dir, {"models": models})
    missing = count_missing_pictures(generation.turns, read_run_log(output_dir))
    # Without any it replaces the count that a resumed run noted earlier.
    add_to_manifest(output_dir, {WITHOUT_PICTURE: None if missing is None else asdict(missing)})
    if generation.interrupted:
        console.print(f"stopped after {len(generation.turns)} of {generation.total} turns; continue with --resume")
    return generation


def print_missing_pictures(console: Console, turns: Sequence[AnsweredTurn], costs: Mapping[Key, RunLogLine]) -> None:
    """Print how many of these turns were asked without their picture, if any."""
    missing = count_missing_pictures(turns, costs)
    if missing is not None:
        console.print(str(missing), style="red", markup=False, soft_wrap=True)


def print_errors(console: Console, turns: Sequence[AnsweredTurn], traces: Mapping[Key, TurnRecord]) -> None:
    """Print how many of these turns are errors and why, if any, and the stages that failed on every turn."""
    causes = Counter(turn.error_cause for turn in turns if turn.error_cause is not None)
    if causes:
        counted = ", ".join(f"{name_cause(cause)}: {number}" for cause, number in causes.most_common())
        reasons = filter(None, (explain_error(traces[turn.key]) for turn in turns if turn.key in traces))
        example = next((f"; such as: {why}" for why in reasons), "; the reasons are in run_log.jsonl")
        console.print(
            f"{causes.total()} of {len(turns)} turns are errors, which scores count by their text, I don't know ({counted}){example}",
            style="red", markup=False, soft_wrap=True,
        )  # fmt: skip
    for stage, reason in find_failing_stages(traces[turn.key] for turn in turns if turn.key in traces).items():
        console.print(f"stage {stage} failed on every turn: {reason}", style="red", markup=False, soft_wrap=True)


@dataclass(frozen=True)
class Judging:
    """How answers are judged.

    Attributes:
        workers: Judgements asked for at the same time.
        progress: Whether there is a progress bar.
        display: Number of dialogs that are printed.
        bars: Makes the progress bar.
        max_failures: See ``judge_turns``.
    """

    judge: Judge
    rules: Rules = OURS
    workers: int = 1
    progress: bool = False
    display: int = 0
    bars: MakeBar = turn_bar
    max_failures: int = GIVE_UP_AFTER


def judge_answers(
    turns: Sequence[AnsweredTurn],
    judging: Judging,
    output_dir: Path,
    console: Console,
    dataset: CragDataset | None = None,
    name: str = "Scores",
    *,
    answers_dir: Path | None = None,
) -> ReportPart:
    """Judge answers, write the tables and scores, and print them.

    Args:
        turns: Answered turns.
        judging: How they are judged.
        output_dir: Folder for tables and scores.
        console: Gets the scores.
        dataset: Source of accept forms, facts and labels of turns, and photos.
        name: Title of the scores.
        answers_dir: Folder of the run that made the answers (run.json, run_log.jsonl, trace.jsonl); None: no such records.

    Returns:
        The judged turns, ready for a report.

    Raises:
        JudgeError: The judge is not available.
        NoVerdictError: It judges nothing.
    """
    accept = {} if dataset is None else dataset.select_accept(turns)
    judged = judge_turns(
        turns if dataset is None else add_labels(turns, dataset.sessions), judging.judge, accept=accept,
        facts=None if dataset is None else dataset.select_facts(turns),
        rules=judging.rules, workers=judging.workers, progress=judging.progress, bars=judging.bars,
        max_failures=judging.max_failures,
    )  # fmt: skip
    unjudged = [turn.reason for turn in judged if turn.judge_failed]
    if unjudged and len(unjudged) == sum(turn.semantic is not None for turn in judged):
        raise NoVerdictError(
            f"the judge gave no verdict on any of {len(unjudged)} answers ({one_line(unjudged[0])}); without one there is no score: mend "
            "that, then run the same command with --resume"
        )
    costs = {} if answers_dir is None else read_run_log(answers_dir)
    traces = {} if answers_dir is None else read_traces(answers_dir / TRACE)
    made_with = {} if answers_dir is None else read_manifest(answers_dir)
    about = {**made_with, "judge": judging.judge.name, ACCEPTED: len(accept), "rules": judging.rules.name}
    photos = make_photo_loaders(dataset.sessions, dataset) if dataset is not None else {}
    part = ReportPart(name, judged, photos, traces, costs, judging.rules, dict(about), accept)
    about.pop(WITHOUT_PICTURE, None)  # this counts all turns of the run
    if part.missing is not None:
        about[WITHOUT_PICTURE] = asdict(part.missing)
    if part.latency is not None:
        about["latency"] = asdict(part.latency)
    if unjudged:
        about["judge_failures"] = len(unjudged)
    if isinstance(judging.judge, Paid):
        about["judge_cost"] = judging.judge.spending.report()
    scores = write_outputs(output_dir, judged, about, costs, judging.rules)
    print_conversations(console, judged, judging.display)
    print_scores(console, scores, name)
    print_origins(console, part.counted, part.find_origin)
    print_process(console, part.process)
    if part.answer_shown is not None:
        console.print(str(part.answer_shown), markup=False, highlight=False)
    console.print(f"judge: {judging.judge.name}; rules: {judging.rules.name}", markup=False)
    if unjudged:
        console.print(
            f"{len(unjudged)} answers are not judged and count as wrong ({one_line(unjudged[0])}); the same command with --resume asks for "
            "them again",
            style="red", markup=False, soft_wrap=True,
        )  # fmt: skip
    if isinstance(judging.judge, Paid):
        console.print(f"judge: {judging.judge.spending}", markup=False, highlight=False)
    if part.latency is not None:
        print_latency(console, part.latency)
    print_missing_pictures(console, turns, costs)
    cut_short = sum(trace.was_cut_short for trace in part.matched.values())
    if cut_short:
        console.print(f"[red]{cut_short} turns went without some of their stages, because the time was up[/]")
    print_errors(console, turns, part.matched)
    failed_keys = {turn.key for turn in turns if turn.error_cause is not None}
    survived = [trace.error for key, trace in part.matched.items() if trace.error and key not in failed_keys]
    if survived:
        message = f"{len(survived)} turns met an error inside the agent and went on, such as: {survived[0]}"
        console.print(message, style="red", markup=False)
    return part


def add_labels(turns: Sequence[AnsweredTurn], sessions: Sequence[Session]) -> list[AnsweredTurn]:
    """Replace the labels of turns by the data set's names, and their places by those in its dialogs.

    Answers saved by the organiser's code hold the numbers of its ClassLabels.
    """
    questions = index_questions(sessions)

    def complete(turn: AnsweredTurn) -> AnsweredTurn:
        question = questions.get(turn.key)
        if question is None:
            return turn
        labels = {name: label for name in LABELS if (label := getattr(question, name))}
        return replace(place_turn(turn, question), **labels)

    return [complete(turn) for turn in turns]


def find_mismatches(turns: Sequence[AnsweredTurn], dataset: CragDataset | None) -> list[str]:
    """Say in what saved answers do not fit the data set, and how many turns of their dialogs are missing.

    Without a data set only the numbers of turns that the answers themselves state are compared.
    """
    mismatches = []
    questions = {} if dataset is None else index_questions(dataset.sessions)
    if dataset is not None:
        num_unknown, num_changed = count_strange(turns, questions)
        if num_unknown:
            mismatches.append(
                f"{num_unknown} of {len(turns)} answers are to no question of {dataset.name}, which says nothing about them: check "
                "--split, --revision and --dataset-type"
            )
        if num_changed:
            mismatches.append(
                f"{num_changed} of {len(turns)} answers have another question or truth than {dataset.name} and are judged by their own"
            )
    sizes = {turn.session_id: max(1, questions.get(turn.key, turn).total_turn_count) for turn in turns}
    num_missing = sum(sizes.values()) - len(turns)
    if num_missing > 0:
        mismatches.append(
            f"{num_missing} turns of these {len(sizes)} sessions have no answer here; scores are of the turns that have one"
        )
    return mismatches
