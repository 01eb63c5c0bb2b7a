"""The evaluation attaches the records of a call to the turns of that call, and reads them back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from agents.base_agent import Message
from agents.profiles.model_set import ModelSet
from agents.record import StageRecord, TurnRecord
from evaluation.files.run_log import read_run_log
from evaluation.files.traces import TRACE, append_records, read_all_traces, read_traces
from evaluation.records import Session
from evaluation.run.batches import Slot
from evaluation.run.calls import Call
from evaluation.run.generate import generate
from evaluation.run.launching import launch_agent, prepare
from evaluation.run.options import parse
from evaluation.run.replicas import Replica
from tests.agent.scripted import ScriptedChat
from tests.evaluation.worlds import PLAIN, OneColour, ScriptedAgent, judged, sessions, write_records

Tell = Callable[[list[dict[str, Any]]], None]


class RecordKeeper(ScriptedAgent):
    """Agent that records each turn: the question is its query, and the answer counts its calls."""

    def __init__(self, *, fails_at: Sequence[int] = (), tells: bool = True, lacks: int = 0) -> None:
        super().__init__(lambda query, _: f"answer to {query}", batch_size=2)
        self.fails_at, self.tells, self.lacks = fails_at, tells, lacks
        self.listener: Tell | None = None

    def listen(self, tell: Tell) -> None:
        self.listener = tell

    def batch_generate_response(
        self,
        queries: Sequence[str],
        images: Sequence[Image.Image | None],
        message_histories: Sequence[Sequence[Message]] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        answers = super().batch_generate_response(queries, images, message_histories, **kwargs)
        number = len(self.calls)
        if number in self.fails_at:
            raise RuntimeError("lost")
        if self.listener is not None and self.tells:
            records = [TurnRecord(query, query, f"call {number}", turn=n) for n, query in enumerate(queries)]
            self.listener([record.as_json() for record in records][self.lacks :])
        return answers


def run_agent(agent: RecordKeeper, folder: Path, dialogs: Sequence[Session], *, resume: bool = False) -> Any:
    generate_answers = partial(generate, agent, dialogs, OneColour(), PLAIN, folder, progress=False)
    return generate_answers(resume=resume, listen=agent.listen)


def same_question(count: int) -> list[Session]:
    """Make sessions of one turn that all ask the same about different photos."""
    return [
        replace(session, turns=(replace(session.turns[0], query="What is this?"),)) for session in sessions([1] * count)
    ]


def test_the_same_question_about_two_photos_has_the_record_of_its_own_call(tmp_path: Path) -> None:
    run_agent(RecordKeeper(), tmp_path, same_question(3))
    traces = read_traces(tmp_path / TRACE)
    assert {key: (record.answer, record.batch, record.turn) for key, record in traces.items()} == {
        ("s0", "s0t0"): ("call 1", 0, 0), ("s1", "s1t0"): ("call 1", 0, 1), ("s2", "s2t0"): ("call 2", 1, 0),
    }  # fmt: skip
    costs = read_run_log(tmp_path)
    assert all((costs[key].batch, costs[key].turn) == (record.batch, record.turn) for key, record in traces.items())


@pytest.mark.parametrize("agent", [RecordKeeper(tells=False), RecordKeeper(lacks=1), RecordKeeper(lacks=2)])
def test_an_agent_that_keeps_no_record_of_each_turn_has_none(tmp_path: Path, agent: RecordKeeper) -> None:
    result = run_agent(agent, tmp_path, same_question(2))
    assert [turn.agent_response for turn in result.turns] == ["answer to What is this?"] * 2
    assert read_traces(tmp_path / TRACE) == {}
    generate(ScriptedAgent(), same_question(2), OneColour(), PLAIN, tmp_path, progress=False)  # nothing to listen to
    assert read_traces(tmp_path / TRACE) == {}


def test_a_batch_that_failed_has_no_record_and_not_that_of_another(tmp_path: Path) -> None:
    result = run_agent(RecordKeeper(fails_at=(2,)), tmp_path, same_question(6))
    assert result.errors == 2
    assert {key[0]: record.answer for key, record in read_traces(tmp_path / TRACE).items()} == {
        "s0": "call 1", "s1": "call 1", "s4": "call 3", "s5": "call 3",
    }  # fmt: skip


def test_a_full_disk_costs_the_trace_and_no_answer(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    record = TurnRecord("q", answer="\ud800").as_json()
    append_records(tmp_path / TRACE, [("s", "i")], [record], 4)
    [trace] = read_traces(tmp_path / TRACE).values()
    assert (trace.answer, trace.batch, trace.key) == ("\ufffd", 4, ("s", "i"))
    append_records(Path("/dev/full"), [("s", "i")], [record], 4)
    assert "the trace of batch 4 cannot be written" in caplog.text


def test_a_replica_brings_the_records_with_its_reply(tmp_path: Path) -> None:
    """What runs in a process of Ray, here without Ray."""
    from agents.crag_agent import CragAgent
    from agents.settings.run_config import RunConfig

    def build(config: RunConfig, pipeline: Any, **_: Any) -> CragAgent:
        models = ModelSet(config.profile, config.cache, ready={"chat": ScriptedChat(lambda _: "a lion")})
        return CragAgent.from_config(config, pipeline, models=models)

    suppressed = ["--suppress-web-search-api", "--suppress-image-search-api"]
    options = parse(["--preset", "vlm_only", "--cache", str(tmp_path), *suppressed])
    replica = Replica(options, build, str(Path.cwd()))
    replica.start()
    for query in ("What is this?", "Who made it?"):
        call = Call([Slot(0, 0)], [query], [Image.new("RGB", (64, 48))], [[]], [None])
        reply = replica.ask(call)
        assert (reply.answers, [record["query"] for record in reply.records]) == (["a lion"], [query])
    config, _ = prepare(options)
    assert launch_agent(options, config, build).listen is not None


def test_lines_that_cannot_be_read_are_left_out_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / TRACE
    assert read_traces(path) == {} == read_all_traces([tmp_path])
    a, b = (TurnRecord("q", session_id=name, interaction_id="0") for name in "ab")
    write_records(path, [a, b, replace(a, answer="later")])
    path.write_bytes(path.read_bytes() + b'\n[1]\n{"query": "c\xff')
    assert read_traces(path, is_required=True) == {("a", "0"): replace(a, answer="later"), ("b", "0"): b}
    [warning] = caplog.messages
    assert "2 lines are left out; of the first: it is no JSON object" in warning


def test_records_of_several_runs_are_read_together(tmp_path: Path) -> None:
    turns = [*judged("cc", "a"), *judged("c", "b")]
    for number, folder in enumerate(("one", "two")):
        (tmp_path / folder).mkdir()
        keys = [turn.turn.key for turn in (turns[:2], turns[2:])[number]]
        write_records(
            tmp_path / folder / TRACE,
            [TurnRecord(stages=(StageRecord(folder),), session_id=s, interaction_id=i) for s, i in keys],
        )
    traces = read_all_traces([tmp_path / "one", tmp_path / "two"])
    assert [traces[turn.turn.key].stages[0].stage for turn in turns] == ["one", "one", "two"]
