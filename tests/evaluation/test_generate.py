from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from agents.base_agent import Message
from agents.record import TurnRecord, Unanswered
from evaluation.files.manifest import MANIFEST
from evaluation.files.responses import RESPONSES
from evaluation.files.run_log import RUN_LOG, read_run_log, summarise_latency
from evaluation.files.traces import TRACE, read_traces
from evaluation.records import I_DONT_KNOW, EvaluationError, Session
from evaluation.rules import OURS, STARTER_KIT, Rules
from evaluation.run import calls
from evaluation.run.batches import Slot, schedule
from evaluation.run.calls import Call, CallResult, MakeCall, ask
from evaluation.run.generate import generate
from tests.evaluation.slow_agent_run import TURNS
from tests.evaluation.worlds import PLAIN, OneColour, ScriptedAgent, sessions

FIELDS = [
    "session_id", "interaction_id", "turn_idx", "is_ego", "image_quality", "query_category", "domain", "dynamism", "query",
    "ground_truth", "agent_response", "total_turn_count", "interaction_id_history",
]  # fmt: skip


def _run(agent: ScriptedAgent, folder: Path, dialogs: Sequence[Session] | None = None, resume: bool = False) -> Any:
    return generate(agent, dialogs or sessions(TURNS), OneColour(), PLAIN, folder, resume=resume, progress=False)


def _lines(folder: Path, name: str = RESPONSES) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that nothing interrupts."""
    folder = tmp_path_factory.mktemp("whole")
    _run(ScriptedAgent(), folder)
    return folder


@pytest.fixture(scope="module")
def whole(finished: Path) -> bytes:
    """Its answers."""
    return (finished / RESPONSES).read_bytes()


def test_every_turn_is_written_in_the_organisers_fields(tmp_path: Path) -> None:
    result = _run(ScriptedAgent(), tmp_path)
    lines = _lines(tmp_path)
    assert [list(line) for line in lines] == [FIELDS] * sum(TURNS)
    assert [turn.to_dict() for turn in result.turns] == lines
    last = next(line for line in lines if line["interaction_id"] == "s4t5")
    assert last["interaction_id_history"] == [f"s4t{turn}" for turn in range(5)]
    assert (last["turn_idx"], last["total_turn_count"], last["is_ego"]) == (5, 6, True)
    assert _lines(tmp_path, RUN_LOG)[0]["batch_size"] == 4


class Backwards:
    """Answerer that takes the last dialog first, one turn a call, as replicas may."""

    def __init__(self) -> None:
        self.agent = ScriptedAgent()

    def get_batch_size(self) -> int:
        return self.agent.get_batch_size()

    def answer(self, batches: Sequence[Sequence[Slot]], make: MakeCall) -> Iterator[tuple[Call, CallResult]]:
        for slot in sorted((slot for batch in batches for slot in batch), key=lambda slot: (-slot.session, slot.turn)):
            call = make([slot])
            yield call, ask(self.agent, call)


def test_whoever_answers_in_another_order_leaves_the_same_file(whole: bytes, tmp_path: Path) -> None:
    generate(Backwards(), sessions(TURNS), OneColour(), PLAIN, tmp_path, progress=False)
    assert (tmp_path / RESPONSES).read_bytes() == whole


@pytest.mark.parametrize("rules", [OURS, STARTER_KIT])
def test_after_a_long_call_answers_are_kept_by_turn(
    rules: Rules, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release's batches are kept: they are what its evaluator measures."""
    agent, quick = ScriptedAgent(), ScriptedAgent()
    generate(quick, sessions(TURNS), OneColour(), PLAIN, tmp_path / "quick", progress=False, rules=rules)
    monkeypatch.setattr(calls, "LONG_CALL_SECONDS", 0.0)
    generate(agent, sessions(TURNS), OneColour(), PLAIN, tmp_path / "slow", progress=False, rules=rules)
    sizes = [len(call) for call in agent.calls]
    assert sizes == ([4] + [1] * (sum(TURNS) - 4) if rules is OURS else [len(call) for call in quick.calls])
    assert (tmp_path / "slow" / RESPONSES).read_bytes() == (tmp_path / "quick" / RESPONSES).read_bytes()


def test_histories_hold_our_own_truncated_answers(tmp_path: Path) -> None:
    agent = ScriptedAgent()
    _run(agent, tmp_path)
    answers = {line["interaction_id"]: line["agent_response"] for line in _lines(tmp_path)}
    history = agent.histories["question 3 of 2?"]
    assert [message["role"] for message in history] == ["user", "assistant"] * 3
    assert [message["content"] for message in history[::2]] == [f"question {turn} of 2?" for turn in range(3)]
    assert [message["content"] for message in history[1::2]] == [answers[f"s2t{turn}"] for turn in range(3)]
    assert PLAIN.count(answers["s2t2"]) == PLAIN.limit
    assert agent.histories["question 0 of 2?"] == []


@pytest.mark.hostile("runs killed at any point, and resumed")
def test_a_killed_run_is_resumed_to_the_same_bytes(tmp_path: Path, whole: bytes) -> None:
    batches = 2
    command = [sys.executable, "-m", "tests.evaluation.slow_agent_run", str(tmp_path), str(batches)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.kill()
        process.wait()
    saved = (tmp_path / RESPONSES).read_bytes()
    assert whole.startswith(saved)
    assert len(saved.splitlines()) == 4 * batches
    agent = ScriptedAgent()
    _run(agent, tmp_path, resume=True)
    assert (tmp_path / RESPONSES).read_bytes() == whole
    assert sum(len(call) for call in agent.calls) == sum(TURNS) - 4 * batches


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(data=st.data())
def test_files_cut_anywhere_are_resumed_to_the_same_bytes(
    tmp_path: Path, finished: Path, whole: bytes, data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(whole)))
    (tmp_path / RESPONSES).write_bytes(whole[:cut])
    log = (finished / RUN_LOG).read_bytes()
    (tmp_path / RUN_LOG).write_bytes(log[: data.draw(st.integers(0, len(log)))])
    agent = ScriptedAgent()
    _run(agent, tmp_path, resume=True)
    assert (tmp_path / RESPONSES).read_bytes() == whole
    num_kept = len(whole[:cut].splitlines()) - (0 if whole[:cut].endswith((b"\n", b"}")) or cut == 0 else 1)
    assert sum(len(call) for call in agent.calls) == sum(TURNS) - num_kept


def test_resuming_answers_of_other_questions_is_refused(tmp_path: Path, whole: bytes) -> None:
    (tmp_path / RESPONSES).write_bytes(whole)
    with pytest.raises(EvaluationError, match="not of these questions"):
        _run(ScriptedAgent(), tmp_path, sessions([1, 1]), resume=True)
    assert (tmp_path / RESPONSES).read_bytes() == whole


def test_resuming_answers_to_a_question_whose_truth_was_edited_is_refused(tmp_path: Path, whole: bytes) -> None:
    """The table of results would have the new truth, the file of answers the old one."""
    first, *rest = whole.splitlines(keepends=True)
    edited = json.dumps({**json.loads(first), "ground_truth": "another"}).encode() + b"\n"
    (tmp_path / RESPONSES).write_bytes(b"".join([edited, *rest]))
    with pytest.raises(
        EvaluationError, match=r"answer 1 \(.+\) is to a question whose truth was edited since; start a new"
    ):
        _run(ScriptedAgent(), tmp_path, resume=True)


def test_a_file_broken_in_the_middle_is_refused(tmp_path: Path, whole: bytes) -> None:
    lines = whole.splitlines(keepends=True)
    lines[1] = lines[1][:30] + b"\n"
    (tmp_path / RESPONSES).write_bytes(b"".join(lines))
    with pytest.raises(EvaluationError, match="line 2"):
        _run(ScriptedAgent(), tmp_path, resume=True)


def test_every_earlier_run_of_a_folder_is_kept_with_its_records(tmp_path: Path) -> None:
    """Whatever was kept before; a run without an answer leaves nothing to keep."""
    names = (RESPONSES, RUN_LOG, TRACE, MANIFEST)

    def run(number: int) -> dict[str, bytes]:
        _run(ScriptedAgent(lambda query, _: f"{query} {number}"), tmp_path, sessions([1]))
        for name in (TRACE, MANIFEST):
            (tmp_path / name).write_text(f"{name} {number}")
        return {name: (tmp_path / name).read_bytes() for name in names}

    runs = [run(number) for number in range(3)]
    for _ in range(2):
        generate(ScriptedAgent(), [], OneColour(), PLAIN, tmp_path, progress=False)
    for number, files in zip(("", ".2", ".3"), runs, strict=True):
        kept = {name: tmp_path / f".previous{number}.".join(name.rsplit(".", 1)) for name in names}
        assert {name: path.read_bytes() for name, path in kept.items()} == files
    assert len([*tmp_path.glob("*.previous*")]) == 3 * len(names)


@pytest.mark.parametrize("end", [EvaluationError("the models cannot be used"), KeyboardInterrupt()])
def test_a_run_that_asks_nothing_leaves_the_earlier_run_as_it_was(tmp_path: Path, end: BaseException) -> None:
    _run(ScriptedAgent(), tmp_path)
    (tmp_path / TRACE).write_text("a trace")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}

    def fail() -> None:
        raise end

    with pytest.raises(type(end)):
        generate(ScriptedAgent(), sessions(TURNS), OneColour(), PLAIN, tmp_path, progress=False, warm_up=fail)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_an_answer_that_is_no_unicode_does_not_end_the_run(tmp_path: Path) -> None:
    _run(ScriptedAgent(lambda query, history: "It is \ud83d high."), tmp_path, sessions([1, 1]))
    assert [line["agent_response"] for line in _lines(tmp_path)] == ["It is \ufffd high."] * 2


class MoodyAgent(ScriptedAgent):
    """Agent that misbehaves in its second call."""

    def __init__(self, mood: str) -> None:
        super().__init__()
        self.mood = mood

    def batch_generate_response(
        self,
        queries: Sequence[str],
        images: Sequence[Image.Image | None],
        message_histories: Sequence[Sequence[Message]] | None = None,
        **kwargs: Any,
    ) -> Any:
        answers: list[Any] = super().batch_generate_response(queries, images, message_histories)
        if len(self.calls) == 2:
            if self.mood == "raises":
                raise RuntimeError("out of memory")
            if self.mood == "paints":
                for image in images:
                    assert image is not None
                    image.paste("black", (0, 0, *image.size))
            return {"short": answers[:-1], "long": [*answers, "x"], "none": None, "hole": [*answers[:-1], None]}.get(
                self.mood, answers
            )
        return answers


@pytest.mark.parametrize(
    ("mood", "lost", "reason"),
    [
        ("raises", 4, "RuntimeError: out of memory"),
        ("short", 4, "3 answers for 4 questions"),
        ("long", 4, "5 answers for 4 questions"),
        ("none", 4, "NoneType for 4 questions"),
        ("hole", 1, "NoneType instead of text"),
    ],
)
def test_a_failing_batch_costs_its_own_answers_alone(tmp_path: Path, mood: str, lost: int, reason: str) -> None:
    result = _run(MoodyAgent(mood), tmp_path)
    assert result.errors == lost
    lines = _lines(tmp_path)
    assert len(lines) == sum(TURNS)
    assert sum(line["agent_response"] == I_DONT_KNOW for line in lines) == lost
    errors = [line["error"] for line in _lines(tmp_path, RUN_LOG) if line["error"]]
    assert len(errors) == lost
    assert all(reason in error for error in errors)


class DyingAgent(ScriptedAgent):
    """Agent that fails from one call on, counted from 1, for a number of calls."""

    def __init__(self, first: int, calls: int = 999) -> None:
        super().__init__()
        self.fails = range(first, first + calls)

    def batch_generate_response(self, *arguments: Any, **kwargs: Any) -> Any:
        answers = super().batch_generate_response(*arguments, **kwargs)
        if len(self.calls) in self.fails:
            raise RuntimeError("the model is gone")
        return answers


def test_a_run_whose_agent_dies_stops_and_goes_on_as_if_nothing_had_been(tmp_path: Path, whole: bytes) -> None:
    agent = DyingAgent(3)
    with pytest.raises(
        EvaluationError, match=r"last 2 calls .* failed on every turn \(RuntimeError: the model is gone\).*--resume"
    ):
        generate(agent, sessions(TURNS), OneColour(), PLAIN, tmp_path, progress=False, max_failures=2)
    assert len(agent.calls) == 4
    assert (tmp_path / RESPONSES).read_bytes() == b"".join(whole.splitlines(keepends=True)[:8])
    assert len(_lines(tmp_path, RUN_LOG)) == 8
    _run(ScriptedAgent(), tmp_path, resume=True)
    assert (tmp_path / RESPONSES).read_bytes() == whole


def test_calls_that_fail_fewer_times_in_a_row_cost_their_own_answers_alone(tmp_path: Path) -> None:
    for first in (1, 2, len(TURNS)):
        agent = DyingAgent(first, 2)
        folder = tmp_path / str(first)
        result = generate(agent, sessions(TURNS), OneColour(), PLAIN, folder, progress=False, max_failures=3)
        assert result.errors == sum(len(call) for call in agent.calls[first - 1 : first + 1]) > 0
        assert [line["interaction_id"] for line in _lines(folder)] == [turn.interaction_id for turn in result.turns]
        assert len(result.turns) == result.total == sum(TURNS)


def test_answers_of_a_dying_agent_are_not_kept_where_ctrl_c_comes_first(tmp_path: Path, whole: bytes) -> None:
    class Stopped(DyingAgent):
        def batch_generate_response(self, *arguments: Any, **kwargs: Any) -> Any:
            if len(self.calls) == 2:
                raise KeyboardInterrupt
            return super().batch_generate_response(*arguments, **kwargs)

    result = generate(Stopped(2), sessions(TURNS), OneColour(), PLAIN, tmp_path, progress=False, max_failures=9)
    assert result.interrupted and len(result.turns) == 4
    assert (tmp_path / RESPONSES).read_bytes() == b"".join(whole.splitlines(keepends=True)[:4])


class RecordingAgent(DyingAgent):
    """Agent that passes a record of each turn; the model fails on those whose query has a text, from ``first`` on the agent itself."""

    def __init__(self, failing: str = "none", first: int = 999) -> None:
        super().__init__(first)
        self.failing = failing

    def listen(self, pass_records: Callable[[list[dict[str, Any]]], None]) -> None:
        self.pass_records = pass_records

    def batch_generate_response(self, queries: Sequence[str], *arguments: Any, **kwargs: Any) -> Any:
        answers = super().batch_generate_response(queries, *arguments, **kwargs)
        causes = [Unanswered.MODEL if self.failing in query else None for query in queries]
        turns = [TurnRecord(query=query, unanswered=why) for query, why in zip(queries, causes, strict=True)]
        self.pass_records([turn.as_json() for turn in turns])
        return [I_DONT_KNOW if why else answer for answer, why in zip(answers, causes, strict=True)]

    def run(self, folder: Path, resume: bool = False) -> Any:
        return generate(
            self, sessions([1, 3, 1]), OneColour(), PLAIN, folder, resume=resume, progress=False, listen=self.listen
        )


@pytest.mark.parametrize(
    ("failing", "lines", "kept"),
    [
        ("question 1 of 1", 5, [("s0", "s0t0"), ("s1", "s1t0"), ("s2", "s2t0")]),  # an error in the middle of a dialog
        ("none", 2, [("s0", "s0t0"), ("s1", "s1t0")]),  # killed after the records of a call, before its answers
    ],
)
def test_the_record_of_an_attempt_goes_with_its_answer(
    tmp_path: Path, failing: str, lines: int, kept: list[tuple[str, str]]
) -> None:
    """The agent that resumes raises and makes no record, which an earlier one would stand in for."""
    RecordingAgent(failing).run(tmp_path)
    answers = (tmp_path / RESPONSES).read_bytes().splitlines(keepends=True)
    (tmp_path / RESPONSES).write_bytes(b"".join(answers[:lines]))
    with (tmp_path / TRACE).open("a") as file:
        file.write('{"no record\n')
    RecordingAgent(first=1).run(tmp_path, resume=True)
    assert len(_lines(tmp_path)) == 5
    assert sorted(read_traces(tmp_path / TRACE)) == kept
    assert '{"no record\n' in (tmp_path / TRACE).read_text()
    RecordingAgent().run(tmp_path, resume=True)
    assert len(read_traces(tmp_path / TRACE)) == 5


def _make_record(*finished: str, status: str = "ran") -> dict[str, Any]:
    exchanges = [{"finish_reason": each, "error": f"{each}!" if each == "error" else None} for each in finished]
    return {"stages": [{"stage": "answer", "status": status, "reason": "no key", "exchanges": exchanges}]}


@pytest.mark.parametrize(
    ("records", "failure"),
    [
        ([], None),
        ([_make_record()], None),  # nothing was asked of a model
        ([_make_record("error", "error")], "error!"),
        ([_make_record("error", "stop")], None),
        ([_make_record("error"), _make_record("length")], None),
        ([_make_record("error"), _make_record("abort")], "error!"),
        ([_make_record("abort")], "no reply in time"),
        ([_make_record(status="failed")], "no key"),
        ([_make_record("stop", status="failed")], None),
    ],
)
def test_a_call_failed_where_no_model_replied_to_any_turn(records: list[dict[str, Any]], failure: str | None) -> None:
    assert CallResult(["x"] * len(records), 1.0, records=records).failure == failure
    assert CallResult([], 1.0, error="raised", records=records).failure == "raised"


def test_an_agent_that_paints_over_its_image_spoils_it_for_nobody(tmp_path: Path) -> None:
    photo = OneColour().image(sessions([2])[0])

    class Same:
        def image(self, session: Session) -> Any:
            return photo

    generate(MoodyAgent("paints"), sessions([2]), Same(), PLAIN, tmp_path, progress=False)
    assert photo.image is not None
    assert photo.image.getpixel((0, 0)) == (255, 0, 0)


def test_a_missing_image_is_noted_and_the_question_asked(tmp_path: Path) -> None:
    generate(ScriptedAgent(), sessions([1, 1]), OneColour(without=["s1"]), PLAIN, tmp_path, progress=False)
    notes = {line["session_id"]: line["image_note"] for line in _lines(tmp_path, RUN_LOG)}
    assert notes == {"s0": None, "s1": "session s1: no picture"}
    assert len(_lines(tmp_path)) == 2


def test_a_wrong_batch_size_is_said_clearly(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="get_batch_size"):
        _run(ScriptedAgent(batch_size=64), tmp_path)


def test_times_are_kept_by_turn_and_held_against_the_limits(tmp_path: Path) -> None:
    _run(ScriptedAgent(), tmp_path)
    costs = read_run_log(tmp_path)
    assert len(costs) == sum(TURNS)
    times = summarise_latency(costs.values())
    assert times is not None
    assert (times.late_batches, times.late_dialogs) == (0, 0)
    slow = _lines(tmp_path, RUN_LOG)
    for line in slow:
        line["batch_seconds"], line["seconds"] = 50.0, 12.5
    (tmp_path / RUN_LOG).write_text("".join(json.dumps(line) + "\n" for line in slow) + '{"half')
    times = summarise_latency(read_run_log(tmp_path).values())
    assert times is not None
    assert times.late_batches == len(schedule(TURNS, 4))
    assert times.late_dialogs == sum(count >= 3 for count in TURNS)
