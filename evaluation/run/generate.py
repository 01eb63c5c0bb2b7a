"""Runs an agent over a data set as the evaluator does, and writes down each answer as soon as it is made."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from agents.base.files import one_line, well_formed
from agents.base_agent import BaseAgent, Message
from agents.record import Unanswered
from evaluation.data.dataset_images import ImageSource
from evaluation.files.manifest import MANIFEST
from evaluation.files.responses import RESPONSES, JsonLinesWriter, cut_tail, repair, rewrite
from evaluation.files.run_log import RUN_LOG, read_run_log
from evaluation.files.traces import TRACE, append_records, drop_other_records
from evaluation.progress import Bar, MakeBar, turn_bar
from evaluation.records import I_DONT_KNOW, AnsweredTurn, EvaluationError, Key, RunLogLine, Session, make_answered_turn
from evaluation.rules import OURS, Rules
from evaluation.run.batches import Slot, schedule, schedule_by_queue
from evaluation.run.calls import Answering, Call, CallResult, Listen, OneAgent, ReplyCounts
from evaluation.run.provided_evidence import ProvidedEvidence
from evaluation.run.truncation import Truncator

ANSWERS = "answers"
"""Name on the progress bar."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Generation:
    """Result of a run.

    Attributes:
        turns: Every answered turn, in the order of asking.
        total: Number of turns to answer.
        interrupted: Whether Ctrl-C ended the run.
    """

    turns: list[AnsweredTurn]
    total: int
    interrupted: bool

    @property
    def errors(self) -> int:
        """Number of turns that are errors."""
        return sum(turn.error_cause is not None for turn in self.turns)


@dataclass(frozen=True)
class _Answers:
    """Answers of call ``number`` with their costs, and the records of their turns."""

    number: int
    lines: Sequence[tuple[AnsweredTurn, RunLogLine]]
    records: Sequence[Mapping[str, Any]]


@dataclass
class _AnswerLog:
    """Answers of a run so far, which are written down as soon as they are made.

    Those of calls that fail on every turn wait until a call succeeds, and are dropped if the model turns out dead.
    """

    answers: dict[Key, str]  # those kept of an earlier run too; later turns of a dialog are told them
    responses: JsonLinesWriter
    costs: JsonLinesWriter
    trace: Path
    bar: Bar
    errors: dict[Key, str] = field(default_factory=dict)
    _backlog: list[_Answers] = field(default_factory=list)

    def add(self, answers: _Answers, failure: str | None, max_failures: int) -> None:
        """Add the answers of a call.

        Raises:
            EvaluationError: It is the last of ``max_failures`` calls in a row that failed on every turn.
        """
        for line, _ in answers.lines:
            self.answers[line.key] = line.agent_response
            if line.error_cause is not None:
                self.errors[line.key] = line.error_cause
        self._backlog.append(answers)
        if not max_failures or failure is None:
            self.write()
        elif len(self._backlog) >= max_failures:
            raise EvaluationError(
                f"stopped: the last {len(self._backlog)} calls of the agent failed on every turn ({one_line(failure)}); the "
                "answers made before are kept: mend that, then continue with --resume (--max-failures 0 goes on regardless)"
            )

    def write(self) -> None:
        """Write down the answers that wait."""
        for answers in self._backlog:
            for line, cost in answers.lines:
                self.costs.write(asdict(cost))
                self.responses.write(line.to_line())
            keys = [line.key for line, _ in answers.lines]
            append_records(self.trace, keys, answers.records, answers.number)
            self.bar.update(len(answers.lines))
        self._backlog.clear()
        self.costs.sync()
        self.responses.sync()

    def drop(self) -> None:
        """Forget the answers that wait: their turns are asked again."""
        for line, _ in (pair for answers in self._backlog for pair in answers.lines):
            del self.answers[line.key]


def generate(
    agent: BaseAgent | Answering,
    sessions: Sequence[Session],
    images: ImageSource,
    truncator: Truncator,
    output_dir: Path,
    *,
    conversations: int | None = None,
    rules: Rules = OURS,
    resume: bool = False,
    progress: bool = True,
    bars: MakeBar = turn_bar,
    warm_up: Callable[[], object] = lambda: None,
    begin: Callable[[], object] = lambda: None,
    replies: ReplyCounts | None = None,
    evidence: ProvidedEvidence | None = None,
    listen: Listen | None = None,
    max_failures: int = 0,
) -> Generation:
    """Ask every turn once and write the answers to ``output_dir/response.jsonl``.

    A batch that raises, or returns a wrong number of answers, is recorded as "I don't know" with the reason in
    run_log.jsonl. So is a turn on which a model, a search or a stage failed. Both are errors (``error_cause``).
    The run goes on, unless ``max_failures`` calls in a row fail. Once all are answered the file is in the order in
    which one agent is asked, whoever answered.

    Args:
        agent: An agent of this process, or several that answer as one.
        sessions: The sessions to ask.
        images: Source of their images.
        truncator: Cuts the answers.
        output_dir: Folder of the run.
        conversations: Number of sessions asked, from the first; None: all. By the rules of a release more are begun and some not
            ended (``schedule_by_queue``).
        rules: In which order turns are asked.
        resume: Continue the run in ``output_dir``. Errors are asked again, with the later turns of their dialogs, whose histories hold
            them. Otherwise the files of an earlier run are set aside, its answers as ``response.previous.jsonl``.
        progress: Whether there is a progress bar.
        bars: Makes the progress bar.
        warm_up: Called before the first question, unless every question is answered already. Until it returns, the files of an earlier
            run stay as they are.
        begin: Called then, before the first answer is written.
        replies: Returns the counts of the reply cache; called before and after each call of an agent of this process.
        evidence: Searches for each turn and passes the evidence with the call; None: the agent searches.
        listen: Makes an agent of this process pass its records, which go to trace.jsonl.
        max_failures: Number of calls in a row that fail on every turn (``CallResult.failure``) and end the run. Their answers are not
            kept. 0: never.

    Raises:
        EvaluationError: The file to resume from is damaged or belongs to other questions, or the batch size is wrong;
            or ``max_failures`` calls in a row failed.
    """
    answering: Answering = (
        OneAgent(agent, replies, listen, keeps_batches=rules.organiser_batches)
        if isinstance(agent, BaseAgent)
        else agent
    )
    order = schedule_by_queue if rules.organiser_batches else schedule
    try:
        batches = order([len(session.turns) for session in sessions], answering.get_batch_size(), conversations)
    except ValueError as error:
        raise EvaluationError(f"the agent's get_batch_size(): {error}") from error
    unanswered = {
        slot: make_answered_turn(sessions[slot.session], sessions[slot.session].turns[slot.turn], "")
        for batch in batches
        for slot in batch
    }
    responses = output_dir / RESPONSES
    answers = _repair_files(output_dir, {line.key: line for line in unanswered.values()}) if resume else {}
    still = [[slot for slot in batch if unanswered[slot].key not in answers] for batch in batches]
    still = [batch for batch in still if batch]
    if still:
        warm_up()
    if not resume:
        _set_files_aside(output_dir)
    if still or not resume:
        begin()
    interrupted = False
    with (
        bars(ANSWERS, len(unanswered), len(answers), is_visible=progress) as bar,
        _note_kept_answers(),
        JsonLinesWriter(responses) as out,
        JsonLinesWriter(output_dir / RUN_LOG) as costs,
    ):
        answer_log = _AnswerLog(answers, out, costs, output_dir / TRACE, bar)
        try:
            results = answering.answer(still, partial(_make_call, sessions, images, answers, evidence))
            for number, (call, reply) in enumerate(results):
                lines = [
                    (replace(line, agent_response=truncator.truncate(answer), error_cause=cost.error_cause), cost)
                    for line, answer, cost in _split_result(
                        [unanswered[slot] for slot in call.slots], call, reply, number
                    )
                ]
                answer_log.add(_Answers(number, lines, reply.records), reply.failure, max_failures)
            answer_log.write()
        except KeyboardInterrupt:
            interrupted = True
            answer_log.drop()
    turns = [
        replace(line, agent_response=answers[line.key], error_cause=answer_log.errors.get(line.key))
        for line in unanswered.values()
        if line.key in answers
    ]
    if len(turns) == len(unanswered) and [turn.key for turn in turns] != list(answers):
        rewrite(responses, [turn.to_line() for turn in turns])
    return Generation(turns, len(unanswered), interrupted)


def _repair_files(output_dir: Path, questions: Mapping[Key, AnsweredTurn]) -> dict[Key, str]:
    """Cut what a stopped run left half-written, and return the answers to keep (``_read_earlier_answers``)."""
    repair(output_dir / RUN_LOG)
    cut_tail(output_dir / TRACE)
    answers = _read_earlier_answers(output_dir / RESPONSES, questions)
    # A turn that is asked again may get no record, if the agent raises: the old one would pass for that of its new answer.
    drop_other_records(output_dir / TRACE, answers)
    return answers


def _set_files_aside(output_dir: Path) -> None:
    """Rename the files of an earlier run that has answers; remove the costs and records of one without."""
    responses = output_dir / RESPONSES
    if not responses.is_file() or not responses.stat().st_size:
        (output_dir / RUN_LOG).unlink(missing_ok=True)
        (output_dir / TRACE).unlink(missing_ok=True)
        return
    names = (RUN_LOG, TRACE, RESPONSES, MANIFEST)
    renamed = ({name: output_dir / _name_previous(name, number) for name in names} for number in itertools.count(1))
    previous = next(paths for paths in renamed if not any(path.exists() for path in paths.values()))
    for name in names:
        if (output_dir / name).exists():
            (output_dir / name).rename(previous[name])
    log.warning("%s held answers of an earlier run; they are now in %s", responses, previous[RESPONSES].name)


def _name_previous(name: str, number: int) -> str:
    """Return the name under which the ``number``-th earlier run of a folder keeps a file."""
    stem, suffix = name.rsplit(".", 1)
    return f"{stem}.previous.{suffix}" if number == 1 else f"{stem}.previous.{number}.{suffix}"


@contextmanager
def _note_kept_answers() -> Iterator[None]:
    """Add to the error of a full disk that the answers made before are kept."""
    try:
        yield
    except OSError as error:
        error.add_note("the answers made before are kept: then continue with --resume")
        raise


def _split_result(
    lines: Sequence[AnsweredTurn], call: Call, reply: CallResult, number: int
) -> Iterator[tuple[AnsweredTurn, str, RunLogLine]]:
    """Yield each turn of a call with its answer and its cost."""
    if reply.error is not None:
        log.error("batch %d recorded as %r: %s", number, I_DONT_KNOW, reply.error)
    size = len(lines)
    each, whole = round(reply.seconds / size, 4), round(reply.seconds, 4)
    for position, (line, answer, note) in enumerate(zip(lines, reply.answers, call.notes, strict=True)):
        error, cause = reply.error, reply.cause(position)
        if not isinstance(answer, str):
            error = f"the agent returned {type(answer).__name__} instead of text"
            log.error("%s, %s: %s", *line.key, error)
            answer = I_DONT_KNOW
        answer = well_formed(answer)  # the agent sees the same text in a resumed run
        yield line, answer, RunLogLine(
            *line.key, batch=number, turn=position, batch_size=size, seconds=each, batch_seconds=whole,
            error=error, image_note=note, reply_hits=reply.hits, reply_misses=reply.misses,
            cause=Unanswered.AGENT.value if error is not None else cause,
        )  # fmt: skip


def _make_call(
    sessions: Sequence[Session],
    images: ImageSource,
    answers: Mapping[Key, str],
    evidence: ProvidedEvidence | None,
    slots: Sequence[Slot],
) -> Call:
    call = Call(slots, [], [], [], [])
    for slot in slots:
        session = sessions[slot.session]
        loaded = images.image(session)
        if loaded.note:
            log.warning("%s", loaded.note)
        messages: list[Message] = []
        for earlier in session.turns[: slot.turn]:
            messages.append({"role": "user", "content": earlier.query})
            messages.append({"role": "assistant", "content": answers[session.session_id, earlier.interaction_id]})
        call.queries.append(session.turns[slot.turn].query)
        # A copy, so that an agent that changes its image does not change it for the next turn of the dialog.
        call.images.append(loaded.image.copy() if loaded.image is not None else None)
        call.histories.append(messages)
        call.notes.append(loaded.note)
    if evidence is None:
        return call
    turns = [sessions[slot.session].turns[slot.turn] for slot in slots]
    return replace(call, more=evidence.arguments(turns, call.images))


def _read_earlier_answers(path: Path, turns: Mapping[Key, AnsweredTurn]) -> dict[Key, str]:
    """Read the answers of the interrupted run, and take those that are asked again out of the file.

    Args:
        path: The file of answers; its run log lies beside it.
        turns: The turns that are asked.
    """
    answers: dict[Key, str] = {}
    records, costs = repair(path), read_run_log(path.parent)
    first_error: dict[str, int] = {}  # by session: place of its first turn that is an error
    for number, record in enumerate(records, 1):
        key = _read_key(record)
        response = record.get("agent_response")
        if not isinstance(response, str):
            raise EvaluationError(f"{path}, answer {number}: no agent_response")
        if fault := _find_fault(turns.get(key), record):
            raise EvaluationError(f"{path}, answer {number} (session {key[0]}, interaction {key[1]}) {fault}")
        answers[key] = response
        if record.get("error_cause") or (key in costs and costs[key].error_cause):
            first_error[key[0]] = min(turns[key].turn_idx, first_error.get(key[0], turns[key].turn_idx))
    earlier_answers = {
        key: answer for key, answer in answers.items() if turns[key].turn_idx < first_error.get(key[0], len(turns))
    }
    if len(earlier_answers) < len(answers):
        log.warning(
            "%d answers are asked again: errors, and the turns after them in their dialogs",
            len(answers) - len(earlier_answers),
        )
        rewrite(path, [record for record in records if _read_key(record) in earlier_answers])
    return earlier_answers


def _find_fault(turn: AnsweredTurn | None, record: Mapping[str, Any]) -> str:
    """Return why a line is no answer to a turn, and what to do; "" if it is one."""
    if turn is None or turn.query != record.get("query"):
        return (
            "is not of these questions; resume with the data set, split and number of conversations of the first run, "
            "or start a new one"
        )
    # Later turns of the dialog were told the truth, and the answer is judged by it.
    if turn.ground_truth != record.get("ground_truth"):
        return "is to a question whose truth was edited since; start a new run into another folder"
    return ""


def _read_key(record: Mapping[str, Any]) -> Key:
    return str(record.get("session_id", "")), str(record.get("interaction_id", ""))
