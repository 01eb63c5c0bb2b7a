"""A run from end to end: answers, judgements, scores, report. What local_evaluation.py and the demo call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from agents.base_agent import BaseAgent
from evaluation.data.crag_dataset import CragDataset
from evaluation.files.manifest import add_to_manifest, note_commit, read_manifest, write_manifest
from evaluation.files.outputs import write_outputs
from evaluation.files.run_log import read_run_log
from evaluation.files.traces import TRACE, read_traces
from evaluation.judge.judging import Judge, judge_turns
from evaluation.records import AnsweredTurn, Session
from evaluation.report.console_tables import print_conversations, print_latency, print_scores
from evaluation.report.html_report import REPORT, ReportPart, photos_of, write_report
from evaluation.run.generate import Generation, ReplyCounts, generate
from evaluation.run.truncation import load_truncator
from evaluation.scores.scoring import MissRule


def prepare_output(output_dir: Path, resume: bool) -> Path:
    """Make the output folder and clear the traces of an earlier run; returns where the agent is to write its own."""
    output_dir.mkdir(parents=True, exist_ok=True)
    trace = output_dir / TRACE
    if not resume:
        trace.unlink(missing_ok=True)
    return trace


def answer_sessions(
    agent: BaseAgent,
    dataset: CragDataset,
    sessions: Sequence[Session],
    output_dir: Path,
    console: Console,
    *,
    about: Mapping[str, Any],
    tokenizer: str | None = None,
    resume: bool = False,
    progress: bool = True,
    warm_up: Callable[[], object] | None = None,
    replies: ReplyCounts | None = None,
    models: Callable[[], Mapping[str, str]] | None = None,
) -> Generation:
    """Let the agent answer the sessions into ``output_dir``.

    Args:
        about: What the run is made with; kept in run.json, where the data set and the tokenizer are added.
        tokenizer: See ``truncation.load_truncator``.
        warm_up: Called before the first question, unless every one is answered already.
        replies: Hits and misses so far of the reply cache that the agent uses; None where it has none.
        models: Role to name of the models that the agent has loaded, for run.json.

    Raises:
        EvaluationError: The answers to resume from do not fit, or there is no such tokenizer.
    """
    truncator = load_truncator(tokenizer)
    console.print(f"answers are cut at {truncator.limit} tokens by {truncator.name}", markup=False)
    write_manifest(output_dir, {**about, "dataset": dataset.name, "tokenizer": truncator.name}, resume)

    def begin() -> None:
        note_commit(output_dir)
        if warm_up is not None:
            warm_up()

    made = generate(
        agent,
        sessions,
        dataset,
        truncator,
        output_dir,
        resume=resume,
        progress=progress,
        warm_up=begin,
        replies=replies,
    )
    loaded = models() if models is not None else {}
    if loaded:  # none where every answer was there already: what made them is noted
        add_to_manifest(output_dir, {"models": dict(loaded)})
    if made.failures:
        console.print(
            f'[red]{made.failures} turns ended as "I don\'t know" because the agent failed; '
            "the reasons are in run_log.jsonl[/]"
        )
    if made.interrupted:
        console.print(f"stopped after {len(made.turns)} of {made.total} turns; go on with --resume")
    return made


def judge_answers(
    turns: Sequence[AnsweredTurn],
    judge: Judge,
    output_dir: Path,
    console: Console,
    *,
    dataset: CragDataset | None = None,
    answers_dir: Path | None = None,
    name: str = "Scores",
    miss_rule: MissRule = "either",
    workers: int = 1,
    progress: bool = True,
    display: int = 0,
) -> ReportPart:
    """Judge answers, write the tables and scores into ``output_dir`` and print them.

    Args:
        dataset: Where accept forms, facts of turns and photos come from; none is used where it is None.
        answers_dir: Folder of the run that made the answers (run.json, run_log.jsonl, trace.jsonl); ``output_dir``
            where None.

    Returns:
        The judged turns, ready for a report.

    Raises:
        JudgeError: The judge is not to be had.
    """
    source = answers_dir or output_dir
    judged = judge_turns(
        turns,
        judge,
        accept=dataset.accept if dataset is not None else None,
        facts=dataset.facts if dataset is not None else None,
        miss_rule=miss_rule,
        workers=workers,
        progress=progress,
    )
    costs = read_run_log(source)
    part = ReportPart(
        name=name,
        turns=judged,
        photos=photos_of(dataset.sessions, dataset) if dataset is not None else {},
        traces=read_traces(source / TRACE),
        costs=costs,
    )
    about = {**read_manifest(source), "judge": judge.name, "miss_rule": miss_rule}
    if part.latency is not None:
        about["latency"] = part.latency.to_dict()
    failed = sum(turn.judge_failed for turn in judged)
    if failed:
        about["judge_failures"] = failed
    scores = write_outputs(output_dir, judged, about, costs)
    print_conversations(console, judged, display)
    print_scores(console, scores, name)
    console.print(f"judge: {judge.name}", markup=False)
    if failed:
        console.print(f"[red]{failed} answers count as wrong because the judge gave no usable reply[/]")
    if part.latency is not None:
        print_latency(console, part.latency)
    cut_short = sum(trace.cut_short for trace in part.matched.values())
    if cut_short:
        console.print(f"[red]{cut_short} turns went without some of their stages, because the time was up[/]")
    errors = [trace.error for trace in part.matched.values() if trace.error]
    if errors:
        console.print(
            f"{len(errors)} turns met an error inside the agent, such as: {errors[0]}", style="red", markup=False
        )
    return part


def report(output_dir: Path, parts: Sequence[ReportPart], about: Mapping[str, Any], console: Console) -> Path:
    """Write report.html into ``output_dir`` and say where it lies."""
    path = write_report(output_dir / REPORT, parts, about)
    console.print(f"report: {path}", markup=False, soft_wrap=True)
    return path
