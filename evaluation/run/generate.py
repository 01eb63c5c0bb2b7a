"""Runs an agent over a data set as the evaluator does, and writes each answer down as soon as it is made."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from PIL import Image
from tqdm import tqdm

from agents.base_agent import BaseAgent, Message
from agents.secrets import scrubbed
from evaluation.data.dataset_images import ImageSource
from evaluation.files.responses import RESPONSES, JsonLinesWriter, repair
from evaluation.files.run_log import RUN_LOG
from evaluation.records import (
    I_DONT_KNOW,
    AnsweredTurn,
    EvaluationError,
    QuestionTurn,
    RunLogLine,
    Session,
    answered,
)
from evaluation.rules import OURS, Rules
from evaluation.run.batches import Slot, queue_schedule, schedule
from evaluation.run.truncation import Truncator

log = logging.getLogger(__name__)


ReplyCounts = Callable[[], tuple[int, int]]
"""Hits and misses of a reply cache so far."""


@dataclass(frozen=True)
class Generation:
    """What a run made.

    Attributes:
        turns: Every answered turn, in the order of asking.
        total: How many turns there are to answer.
        interrupted: Whether it was stopped by Ctrl-C.
        failures: Turns of this process that ended as "I don't know" because the agent failed.
    """

    turns: list[AnsweredTurn]
    total: int
    interrupted: bool
    failures: int


def generate(
    agent: BaseAgent,
    sessions: Sequence[Session],
    images: ImageSource,
    truncator: Truncator,
    output_dir: Path,
    *,
    conversations: int | None = None,
    rules: Rules = OURS,
    resume: bool = False,
    progress: bool = True,
    warm_up: Callable[[], object] | None = None,
    replies: ReplyCounts | None = None,
) -> Generation:
    """Ask every turn once and write the answers to ``output_dir/response.jsonl``.

    A batch that raises, or gives a wrong number of answers, is recorded as "I don't know" with the reason in
    run_log.jsonl; the run goes on. Without ``resume`` an earlier file is set aside as ``response.previous.jsonl``.
    ``warm_up`` is called before the first question, unless every one is answered already; ``replies`` before and after each call.

    Args:
        conversations: How many sessions are asked, from the first; None: all. By the rules of a release more are begun and some not
            ended (``queue_schedule``).
        rules: In which order turns are asked.

    Raises:
        EvaluationError: The file to resume from is damaged or belongs to other questions, or the batch size is wrong.
    """
    order = queue_schedule if rules.organiser_batches else schedule
    try:
        batches = order([len(session.turns) for session in sessions], agent.get_batch_size(), conversations)
    except ValueError as error:
        raise EvaluationError(f"the agent's get_batch_size(): {error}") from error
    responses, run_log = output_dir / RESPONSES, output_dir / RUN_LOG
    if resume:
        asked_for = [slot for batch in batches for slot in batch]
        answers = _earlier_answers(
            responses, {_key(sessions, slot): _at(sessions, slot)[1].query for slot in asked_for}
        )
        repair(run_log)
    else:
        answers = {}
        _set_aside(responses)
        run_log.unlink(missing_ok=True)

    total = sum(map(len, batches))
    failures = asked = 0
    interrupted = False
    bar = tqdm(total=total, initial=len(answers), desc="answers", unit="turn", disable=not progress)
    with bar, JsonLinesWriter(responses) as out, JsonLinesWriter(run_log) as costs:
        try:
            for batch in batches:
                open_slots = [slot for slot in batch if _key(sessions, slot) not in answers]
                if not open_slots:
                    continue
                if warm_up is not None and asked == 0:
                    warm_up()
                before = replies() if replies is not None else None
                made = _ask(agent, sessions, images, open_slots, answers, asked)
                if replies is not None and before is not None:
                    hits, misses = (after - earlier for after, earlier in zip(replies(), before, strict=True))
                    made = [(answer, replace(cost, reply_hits=hits, reply_misses=misses)) for answer, cost in made]
                asked += 1
                for slot, (answer, cost) in zip(open_slots, made, strict=True):
                    session, turn = _at(sessions, slot)
                    answer = truncator.truncate(answer)
                    costs.write(asdict(cost))
                    out.write(answered(session, turn, answer).to_dict())
                    answers[_key(sessions, slot)] = answer
                    failures += cost.error is not None
                costs.sync()
                out.sync()
                bar.update(len(open_slots))
        except KeyboardInterrupt:
            interrupted = True
    turns = [
        answered(*_at(sessions, slot), answers[_key(sessions, slot)])
        for batch in batches
        for slot in batch
        if _key(sessions, slot) in answers
    ]
    return Generation(turns, total, interrupted, failures)


def _ask(
    agent: BaseAgent,
    sessions: Sequence[Session],
    images: ImageSource,
    slots: Sequence[Slot],
    answers: dict[tuple[str, str], str],
    number: int,
) -> list[tuple[str, RunLogLine]]:
    """One call of the agent: an answer and its cost for each slot."""
    queries: list[str] = []
    pictures: list[Image.Image | None] = []
    histories: list[list[Message]] = []
    notes: list[str | None] = []
    for slot in slots:
        session, turn = _at(sessions, slot)
        loaded = images.image(session)
        if loaded.note:
            log.warning("%s", loaded.note)
        queries.append(turn.query)
        # A copy, so that an agent that changes its image does not change it for the next turn of the dialog.
        pictures.append(loaded.image.copy() if loaded.image is not None else None)
        histories.append(_history(session, turn, answers))
        notes.append(loaded.note)

    start = time.perf_counter()
    replies: list[str] = []
    error: str | None = None
    try:
        replies = agent.batch_generate_response(queries, pictures, histories)
        if not isinstance(replies, list | tuple) or len(replies) != len(slots):
            what = f"{len(replies)} answers" if isinstance(replies, list | tuple) else type(replies).__name__
            error = f"the agent returned {what} for {len(slots)} questions"
    except Exception as problem:  # one failing batch must not cost the answers of the others
        log.exception("the agent failed in batch %d", number)
        error = scrubbed(f"{type(problem).__name__}: {problem}")
    seconds = time.perf_counter() - start
    if error is not None:
        log.error("batch %d recorded as %r: %s", number, I_DONT_KNOW, error)
        replies = [I_DONT_KNOW] * len(slots)

    made = []
    for position, (slot, reply, note) in enumerate(zip(slots, replies, notes, strict=True)):
        session, turn = _at(sessions, slot)
        problem_here = error
        if not isinstance(reply, str):
            problem_here = f"the agent returned {type(reply).__name__} instead of text"
            log.error("%s, %s: %s", session.session_id, turn.interaction_id, problem_here)
            reply = I_DONT_KNOW
        reply = reply.encode("utf-8", errors="replace").decode()  # lone surrogates cannot be written
        made.append(
            (
                reply,
                RunLogLine(
                    session_id=session.session_id,
                    interaction_id=turn.interaction_id,
                    batch=number,
                    turn=position,
                    batch_size=len(slots),
                    seconds=round(seconds / len(slots), 4),
                    batch_seconds=round(seconds, 4),
                    error=problem_here,
                    image_note=note,
                ),
            )
        )
    return made


def _at(sessions: Sequence[Session], slot: Slot) -> tuple[Session, QuestionTurn]:
    session = sessions[slot.session]
    return session, session.turns[slot.turn]


def _key(sessions: Sequence[Session], slot: Slot) -> tuple[str, str]:
    session, turn = _at(sessions, slot)
    return session.session_id, turn.interaction_id


def _history(session: Session, turn: QuestionTurn, answers: dict[tuple[str, str], str]) -> list[Message]:
    messages: list[Message] = []
    for earlier in session.turns[: turn.index]:
        messages.append({"role": "user", "content": earlier.query})
        messages.append({"role": "assistant", "content": answers[session.session_id, earlier.interaction_id]})
    return messages


def _earlier_answers(path: Path, asked: Mapping[tuple[str, str], str]) -> dict[tuple[str, str], str]:
    """Answers of the run that was cut off, by (session_id, interaction_id).

    Args:
        asked: Query by (session_id, interaction_id).
    """
    answers: dict[tuple[str, str], str] = {}
    for number, record in enumerate(repair(path), 1):
        key = (record.get("session_id", ""), record.get("interaction_id", ""))
        response = record.get("agent_response")
        if not isinstance(response, str):
            raise EvaluationError(f"{path}, answer {number}: no agent_response")
        if asked.get(key) != record.get("query"):
            raise EvaluationError(
                f"{path}, answer {number} is not of these questions (session {key[0]}, interaction {key[1]}); "
                "resume with the data set, split and number of conversations of the first run, or start a new one"
            )
        answers[key] = response
    return answers


def _set_aside(path: Path) -> None:
    if path.exists() and path.stat().st_size > 0:
        path.replace(path.with_name("response.previous.jsonl"))
        log.warning("%s held answers of an earlier run; they are now in response.previous.jsonl", path)
