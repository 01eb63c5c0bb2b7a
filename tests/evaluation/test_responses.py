from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evaluation.files.responses import RESPONSES, read_responses, repair
from evaluation.records import EvaluationError

REQUIRED = {
    "session_id": "s", "interaction_id": "i", "query": "What?", "ground_truth": "A tower.", "agent_response": "A tower"
}  # fmt: skip


def _write(folder: Path, *lines: Any) -> Path:
    path = folder / "response.jsonl"
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def test_only_five_fields_are_required(tmp_path: Path) -> None:
    lines = [REQUIRED, REQUIRED | {"interaction_id": "j"}, REQUIRED | {"interaction_id": "k", "session_id": "t"}]
    turns = read_responses(_write(tmp_path, *lines))
    assert [turn.turn_idx for turn in turns] == [0, 1, 0]
    assert [turn.total_turn_count for turn in turns] == [2, 2, 1]
    assert [turn.interaction_id_history for turn in turns] == [[], ["i"], []]
    assert not turns[0].is_ego


def test_ids_may_be_numbers_and_the_same_in_two_sessions(tmp_path: Path) -> None:
    """Both releases score such answers."""
    first = REQUIRED | {"session_id": 7, "interaction_id": 1, "interaction_id_history": [0]}
    turns = read_responses(_write(tmp_path, first, first | {"session_id": 8}, REQUIRED))
    assert [turn.key for turn in turns] == [("7", "1"), ("8", "1"), ("s", "i")]
    assert turns[0].interaction_id_history == ["0"]


def test_the_organisers_fields_are_kept(tmp_path: Path) -> None:
    line = REQUIRED | {
        "turn_idx": 3,
        "is_ego": True,
        "image_quality": "blurred",
        "domain": "food",
        "total_turn_count": 6,
    }
    turn = read_responses(_write(tmp_path, line, "", line | {"interaction_id": "j", "is_ego": "False"}))
    assert (turn[0].turn_idx, turn[0].is_ego, turn[0].image_quality, turn[0].domain) == (3, True, "blurred", "food")
    assert not turn[1].is_ego


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("{not json", "line 2: not JSON"),
        ('["a list"]', "line 2: not a JSON object"),
        ({name: value for name, value in REQUIRED.items() if name != "query"}, "line 2: missing query"),
        (REQUIRED | {"agent_response": None, "interaction_id": "j"}, "line 2: missing agent_response"),
        (REQUIRED | {"agent_response": 5, "interaction_id": "j"}, "line 2: agent_response must be text"),
        (REQUIRED, "line 2: i is in line 1 already"),
        (REQUIRED | {"interaction_id": "j", "turn_idx": "first"}, "line 2: turn_idx"),
        (REQUIRED | {"interaction_id": "j", "is_ego": "perhaps"}, "line 2: is_ego"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, bad: Any, message: str) -> None:
    with pytest.raises(EvaluationError, match=message):
        read_responses(_write(tmp_path, REQUIRED, bad))


def test_no_file_and_no_answers_are_said(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="does not exist"):
        read_responses(tmp_path / "none.jsonl")
    with pytest.raises(EvaluationError, match="contains no answers"):
        read_responses(_write(tmp_path, "", ""))
    (tmp_path / "binary.jsonl").write_bytes(b"\xff\xfe{}\n")
    with pytest.raises(EvaluationError, match="line 1"):
        read_responses(tmp_path / "binary.jsonl")


@pytest.mark.parametrize(("tail", "remainder"), [(b'{"torn', b""), (b'{"b": 2}', b'{"b": 2}\n')])
def test_a_torn_tail_is_cut_and_whole_lines_keep_their_bytes(tmp_path: Path, tail: bytes, remainder: bytes) -> None:
    whole = b'{"a":  "\\ud83d"}\n\n{"caf\\u00e9":1}\r\n'  # a lone surrogate has no bytes of its own in UTF-8
    (tmp_path / RESPONSES).write_bytes(whole + tail)
    assert repair(tmp_path / RESPONSES) == [{"a": "\ufffd"}, {"café": 1}] + ([{"b": 2}] if remainder else [])
    assert (tmp_path / RESPONSES).read_bytes() == whole + remainder
    assert [path.name for path in tmp_path.iterdir()] == [RESPONSES]
