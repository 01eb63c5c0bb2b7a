"""What a stage from outside of this project finds shows in page, server and report, and a gate may be fitted on it."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from PIL import Image

from agents.crag_agent import CragAgent
from agents.methods.gate import Gate
from agents.models.base import ChatRequest
from agents.profiles.model_set import ModelSet
from agents.profiles.profile import Profile
from agents.settings.presets import load_settings
from agents.turn import IDK
from apps.answering import Answerer, Question
from apps.details import render_details
from apps.serving.protocol import build_reply
from evaluation.data.dataset_images import LoadedImage
from evaluation.files.manifest import MANIFEST
from evaluation.files.outputs import write_outputs
from evaluation.files.traces import TRACE, read_traces
from evaluation.judge.judging import judge_turns
from evaluation.judge.rule_judge import RuleJudge
from evaluation.records import AnsweredTurn, Session
from evaluation.report.html_report import ReportPart, write_report
from evaluation.run.generate import generate
from evaluation.studies import calibrate
from evaluation.studies.decisions import Turns, read_decisions
from tests.agent.scripted import ScriptedChat
from tests.evaluation.worlds import PLAIN, sessions

MODULE = '''
"""How bright the photo is, and where: a stage of somebody else's."""

from collections.abc import Sequence

from agents.record import BoxFound, EvidenceFound, SignalKind
from agents.stage import Context, Stage
from agents.turn import Turn


SHARPNESS = SignalKind("outside.sharpness", "brightness of the first pixel, 0 to 1")
BLUR = SignalKind("outside.blur", "its darkness, 0 to 1", negative=True)


class Sharpness(Stage):
    """Tells two signals, a box and a check."""

    signals = (SHARPNESS, BLUR)

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        for turn in turns:
            bright = turn.image.convert("L").getpixel((0, 0)) / 255
            turn.record(
                signals=SHARPNESS.entry(bright) | BLUR.entry(1 - bright),
                boxes=[BoxFound(4, 4, 40, 30, "brightest part")],
                checks={"in focus": bright > 0.5},
                evidence=[EvidenceFound("Words on the sign.", "image")],
            )
            turn.note(lens="50 mm")
'''
PHOTO = Image.new("RGB", (64, 48), "white")


def write_stage(folder: Path, code: str) -> None:
    """The stage and a preset that names it; a module keeps its name for as long as the process lives."""
    module = f"outside_{folder.name}"
    (folder / f"{module}.py").write_text(code, encoding="utf-8")
    (folder / "own.toml").write_text(f'stages = ["{module}:Sharpness", "answer", "finalise"]\n', encoding="utf-8")


@pytest.fixture
def presets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the stage and a preset that names it, both outside of the repository."""
    write_stage(tmp_path, MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def knows_even_ones(request: ChatRequest) -> str:
    """The truth of ``sessions`` where the number is even."""
    number = int(request.messages[-1].content.rsplit(" of ", 1)[1].split("?")[0])
    return f"truth {number} 0" if number % 2 == 0 else "something else"


def make_agent(presets: Path, *overrides: str) -> CragAgent:
    models = ModelSet(
        Profile(name="scripted", models={}), Path("unused"), ready={"chat": ScriptedChat(knows_even_ones)}
    )
    return CragAgent(settings=load_settings("own", "embedded", presets, overrides=list(overrides)), models=models)


class BrightWhereEven:
    """Photos of sessions with an even number are bright, others dark; each a little otherwise."""

    def image(self, session: Session) -> LoadedImage:
        number = int(session.session_id[1:])
        shade = (0 if number % 2 else 235) + number
        return LoadedImage(Image.new("RGB", (64, 48), (shade, shade, shade)))


def generate_answers(agent: CragAgent, folder: Path) -> list[AnsweredTurn]:
    folder.mkdir()
    listen = partial(agent.trace_to, None)
    dialogs = sessions([1] * 16)
    return generate(agent, dialogs, BrightWhereEven(), PLAIN, folder, progress=False, listen=listen).turns


def test_page_and_server_show_it(presets: Path) -> None:
    [outcome] = Answerer(make_agent(presets)).answer([Question("question 0 of 2?", PHOTO)])
    details = render_details(outcome, PHOTO)
    for phrase in ("outside.sharpness", "in focus", "1 crop", "Words on the sign.", "data:image/jpeg"):
        assert phrase in details
    reply = build_reply("id", 0, "model", outcome)["crag"]
    assert reply["checks"]["outside.sharpness"] == 1.0 and reply["checks"]["in focus"] is True
    assert [*reply["crops"]] == [{"left": 4, "top": 4, "right": 40, "bottom": 30, "phrase": "brightest part"}]
    assert reply["sources"][0]["text"] == "Words on the sign."


def test_report_and_decisions_read_it(presets: Path) -> None:
    folder = presets / "run"
    turns = generate_answers(make_agent(presets), folder)
    judged = judge_turns(turns, RuleJudge())
    assert [turn.correct for turn in judged] == [True, False] * 8
    write_outputs(folder, judged, {"judge": "rule"})
    photos = {turn.session_id: lambda: PHOTO for turn in turns}
    part = ReportPart("demo", judged, photos, read_traces(folder / TRACE))
    report = write_report(presets / "report.html", [part], {}).read_text()
    for phrase in ("outside.sharpness", "in focus: yes", "in focus: no", "Words on the sign.", "50 mm"):
        assert phrase in report
    assert report.count('class="crops"') == 16
    table = Turns.from_decisions(read_decisions(folder, RuleJudge()))
    assert "outside.blur" in table.negative_signals and "outside.sharpness" not in table.negative_signals


def test_calibrate_finds_the_signals_of_an_outside_stage_and_a_preset_decides_by_them(presets: Path) -> None:
    """A name without a dot is as good as any, once the stage declares it."""
    write_stage(presets, MODULE.replace("outside.", "").replace("lens=", "camera="))
    folder = presets / "run"
    turns = generate_answers(make_agent(presets), folder)
    write_outputs(folder, judge_turns(turns, RuleJudge()), {"judge": "rule"})
    manifest = {"preset": str(presets / "own.toml"), "profile": "embedded", "dataset": "single-turn@v1/validation"}
    (folder / MANIFEST).write_text(json.dumps(manifest))
    options = ["--preset", str(presets / "own.toml"), "--cache", str(presets), "--gate", str(presets / "gate.json")]
    assert calibrate.main(["--runs", str(folder), *options, "--folds", "3", "--repeats", "1"]) == 0
    gate = Gate.load(presets / "gate.json")
    assert {"sharpness", "blur"} <= {*gate.features}
    again = generate_answers(make_agent(presets, f"finalise.gate={presets / 'gate.json'}"), presets / "again")
    assert [turn.agent_response for turn in again] == [
        f"truth {number} 0" if number % 2 == 0 else IDK for number in range(16)
    ]
