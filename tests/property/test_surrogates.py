"""Halves of surrogate pairs, which JSON can write and no file in UTF-8 can hold, from saved answers to tables and report."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from agents.base.files import parse_json, well_formed, write_whole
from agents.record import VERSION
from agents.runner.trace import TraceWriter
from agents.turn import Turn
from evaluation.files.outputs import ALL_TURNS, SCORES, read_turn_table, write_outputs
from evaluation.files.responses import RESPONSES, JsonLinesWriter, read_lines, read_responses
from evaluation.files.run_log import RUN_LOG, read_run_log
from evaluation.files.traces import TRACE, read_traces
from evaluation.judge.judging import judge_turns
from evaluation.judge.rule_judge import RuleJudge
from evaluation.records import JudgeItem, Verdict
from evaluation.report.html_report import REPORT
from evaluation.run import command
from evaluation.studies import leaderboard
from tests.property.fuzzing import fuzzed

pieces = st.sampled_from(
    ["\ud800", "\udfff", "\ud83d", "\ude00", "\ud83d\ude00", "😀", "a", "\n", ",", '"', "&", "\u2028", "\r", "é"]
)
texts = st.lists(pieces, min_size=1, max_size=6).map("".join)
FIELDS = ("session_id", "interaction_id", "query", "ground_truth", "agent_response", "domain", "image_quality")


def _whole(text: str) -> str:
    """By the definition: pairs are one character, halves are U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


@fuzzed(200)
@given(texts)
def test_texts_become_well_formed_and_stay_so(text: str) -> None:
    clean_text = well_formed(text)
    assert clean_text == _whole(text) == well_formed(clean_text)
    assert parse_json(json.dumps({text: [text, {"a": text}]})) == {clean_text: [clean_text, {"a": clean_text}]}
    if clean_text == text:
        assert clean_text is text


@fuzzed(40)
@given(st.lists(st.fixed_dictionaries(dict.fromkeys(FIELDS, texts)), min_size=1, max_size=3))
def test_saved_answers_are_judged_written_and_read_again(lines: list[dict[str, str]]) -> None:
    """Read, judged, written as tables, scores, traces and log, shown, read back."""
    records: list[dict[str, Any]] = [
        line | {"interaction_id": f"{number}{line['interaction_id']}"} for number, line in enumerate(lines)
    ]
    with tempfile.TemporaryDirectory() as folder_name:
        folder = Path(folder_name)
        (folder / RESPONSES).write_text("".join(json.dumps(record) + "\n" for record in records), encoding="ascii")
        cost = {"batch": 0, "turn": 0, "batch_size": 1, "seconds": 1, "batch_seconds": 1}
        with JsonLinesWriter(folder / RUN_LOG) as log, JsonLinesWriter(folder / TRACE) as traces:
            for record in records:
                log.write({**record, **cost, "error": record["query"], "image_note": record["domain"]})
                stage = {
                    "stage": "evidence",
                    "seconds": 0.1,
                    "evidence": [{"text": record["query"], "title": record["domain"]}],
                }
                keys = {name: record[name] for name in ("session_id", "interaction_id", "query")}
                traces.write({**keys, "version": VERSION, "answer": record["agent_response"], "stages": [stage]})
        turns = read_responses(folder / RESPONSES)
        assert [turn.query for turn in turns] == [_whole(record["query"]) for record in records]
        assert {key: trace.query for key, trace in read_traces(folder / TRACE).items()} == {
            turn.key: turn.query for turn in turns
        }
        assert set(read_run_log(folder)) == {turn.key for turn in turns}
        judged = judge_turns(turns, RuleJudge())
        write_outputs(folder, judged, {"judge": "rule", "preset": records[0]["query"]})
        assert [judged.turn.agent_response for judged in read_turn_table(folder)] == [
            turn.agent_response for turn in turns
        ]
        saved = ["--input-file", str(folder / RESPONSES), "--output-dir", str(folder / "out")]
        always = ["--mode", "evaluate", "--eval-model", "rule", "--no_progress", "--display-conversations", "1"]
        with (folder / "printed").open("w", encoding="utf-8") as printed:
            assert command.main([*always, *saved], Console(file=printed)) == 0
            assert (
                leaderboard.main([f"a={folder}", f"b={folder / RESPONSES}", "--no-progress"], Console(file=printed))
                == 0
            )
        for name in (ALL_TURNS, SCORES, REPORT):
            assert (folder / "out" / name).read_text(encoding="utf-8")


class SurrogateJudge:
    """Its words hold half a pair, as a server's JSON may."""

    name, parallel = "surrogates", False

    def judge(self, item: JudgeItem) -> Verdict:
        return Verdict(True, "it is \ud800 right")


def test_a_judge_may_say_them_too(tmp_path: Path) -> None:
    record = {"session_id": "s", "interaction_id": "i", "query": "q", "ground_truth": "t", "agent_response": "a"}
    (tmp_path / RESPONSES).write_text(json.dumps(record))
    judged = judge_turns(read_responses(tmp_path / RESPONSES), SurrogateJudge())
    write_outputs(tmp_path, judged, {})
    assert read_turn_table(tmp_path)[0].reason == "it is \ufffd right"


def test_logs_and_traces_are_written_with_them(tmp_path: Path) -> None:
    with JsonLinesWriter(tmp_path / RUN_LOG) as log:
        log.write({"error": "ValueError: \ud800"})
    assert read_lines(tmp_path / RUN_LOG) == [{"error": "ValueError: \ufffd"}]
    TraceWriter(tmp_path / TRACE).write([Turn("How \ud800 high?", None)], 1.0)
    [record] = read_traces(tmp_path / TRACE).values()
    assert record.query == "How \ufffd high?"
    write_whole(tmp_path / "page.html", "\udfff")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == "\ufffd"
