"""Checks that run the agent: the import of ``agents.user_config``, and a batch with no network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from agents.preflight.check import Check, failed, passed
from agents.settings import ROOT

IMPORT_SECONDS = 5.0
"""The evaluator imports the agent in every process it starts; the models are for the constructor."""

TURN_SECONDS, START_SECONDS, ANSWER_TOKENS = 10.0, 600.0, 75
"""Limits of the challenge (CRAG-MM rules)."""

_MOST_SECONDS = 1200

_IMPORT = """
import sys, time
opened = []
sys.addaudithook(lambda event, details: opened.append(str(details[0])) if event == "open" and
                 str(details[0]).endswith((".safetensors", ".gguf", ".onnx", ".bin", ".pth", ".pt", ".npz")) else None)
start, worked = time.perf_counter(), time.process_time()
import agents.user_config
print(time.perf_counter() - start, time.process_time() - worked, "|".join(opened))
"""


def check_import() -> Check:
    """Whether importing the agent is quick and loads no weights.

    What counts is the processor's time: by the clock a busy machine makes any import slow.
    """
    name = "import of agents.user_config"
    done = _python(["-c", _IMPORT], {})
    if done.returncode:
        return failed(name, _last_line(done.stderr), "mend the import")
    clock, worked, weights = done.stdout.rstrip("\n").split("\n")[-1].split(" ", 2)
    if weights:
        return failed(name, f"it opens {weights}", "load models in the constructor, not on import")
    said = f"{float(worked):.2f} s of the processor, {float(clock):.2f} s by the clock"
    if float(worked) > IMPORT_SECONDS:
        return failed(name, f"{said}, more than {IMPORT_SECONDS:.0f}", "import heavy libraries inside functions")
    return passed(name, f"{said}, no weights")


def check_rehearsal(preset: str, task: int, cache: Path | None) -> list[Check]:
    """Whether sixteen turns are answered offline, in time, and within the tokens allowed."""
    command = ["-m", "agents.preflight.rehearsal", "--preset", preset, "--task", str(task)]
    done = _python(command + (["--cache", str(cache)] if cache else []), {"HF_HUB_OFFLINE": "1"})
    if done.returncode:
        return [failed("offline run", _last_line(done.stderr), "python " + " ".join(command))]
    return judge(json.loads(done.stdout.strip().split("\n")[-1]))


def judge(report: dict[str, Any]) -> list[Check]:
    """The checks that a report of the rehearsal allows."""
    return [_offline(report), _times(report), _answers(report)]


def _offline(report: dict[str, Any]) -> Check:
    name = "offline run"
    if report["attempts"]:
        return failed(
            name,
            f"tried to reach: {', '.join(report['attempts'][:3])}",
            "load it from a file; the evaluator has no network",
        )
    if report["start_up_failures"]:
        return failed(name, "; ".join(report["start_up_failures"]), "install what is missing, or leave its stage out")
    if report["without_search"]:
        return failed(name, f"no search: {report['without_search']}", "make demo builds the local indices")
    return passed(name, "no connection was tried, all models loaded")


def _times(report: dict[str, Any]) -> Check:
    turns, seconds, start = report["turns"], report["seconds"], report["start_up"]
    said = (
        f"start-up {start:.1f} of {START_SECONDS:.0f} s, {turns} turns in {seconds:.1f} of {TURN_SECONDS * turns:.0f} s"
    )
    if start > START_SECONDS or seconds > TURN_SECONDS * turns:
        return failed("time", said, "python -m agents.runtime.start_up and the trace show the slow step")
    return passed("time", said)


def _answers(report: dict[str, Any]) -> Check:
    name, answers = "answers", report["answers"]
    if len(answers) != report["turns"] or not all(isinstance(answer, str) and answer.strip() for answer in answers):
        return failed(
            name,
            f"{len(answers)} for {report['turns']} turns, or an empty one",
            "every turn needs an answer or I don't know",
        )
    most = max(report["tokens"])
    said = f"{len(answers)}, the longest of {most} tokens by {report['tokenizer']}"
    if most > ANSWER_TOKENS:
        return failed(name, said, f"shorten answers to {ANSWER_TOKENS} tokens (limits.answer_tokens)")
    return passed(name, said)


def _python(arguments: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=_MOST_SECONDS,
        check=False,
    )


def _last_line(text: str) -> str:
    lines = [line for line in text.strip().split("\n") if line.strip()]
    return lines[-1] if lines else "no output"
