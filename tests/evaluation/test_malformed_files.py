"""Every kind of malformed file, given to every command that reads such a file: it is read, or one line says what is wrong with it."""

from __future__ import annotations

import codecs
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.asking import prompts
from agents.base.files import format_os_error, is_file_error
from agents.crag_agent import CragAgent
from agents.methods import domains
from agents.profiles.profile import PRESETS, PROFILES, PROMPTS, SettingsError, load_profile
from agents.record import BoxFound, Decision, EvidenceFound, Signal, StageRecord, TurnRecord
from agents.search.index_sources import SourceError, read_images, read_pages
from agents.search.own_sources import read_documents, read_table
from agents.settings import agent_config, run_config
from agents.settings.presets import load_settings
from agents.settings.run_config import RunConfig
from apps.answering import AnswererOptions, CannotStartError, start
from apps.preflight import submission
from evaluation.files.responses import RESPONSES
from evaluation.judge import asking
from evaluation.judge.local_judge import load_cut
from evaluation.judge.organiser_prompt import read_organiser
from evaluation.records import JudgeError
from evaluation.studies import calibrate, compare, flips, gate_study, leaderboard, variant_runs
from tests.evaluation.runs_of_scripts import run_it, scripted_world
from tests.evaluation.worlds import ScriptedCragAgent
from tests.property.fuzzing import THOROUGH
from training.chat_examples import TrainingDataError, read_examples
from training.recipes import load_recipe

DEEP = 100_000
KINDS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "blank lines": lambda _: b"\n\n \n",
    "NUL": lambda _: bytes(1000),
    "binary": lambda _: bytes(range(256)) * 4,
    "not UTF-8": lambda whole: whole + "caf\xe9\n".encode("latin-1"),
    "not UTF-8 at the beginning": lambda whole: b"\xe9" + whole,
    "UTF-16": lambda whole: whole.decode().encode("utf-16"),
    "byte order mark": lambda whole: codecs.BOM_UTF8 + whole,
    "lists nested deep": lambda _: b"[" * DEEP + b"]" * DEEP,
    "lists nested deep, open": lambda _: b"[" * DEEP,
    "objects nested deep": lambda _: b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "a value nested deep": lambda whole: whole.replace(b"{", b'{"a":' + b"[" * 500 + b"]" * 500 + b",", 1),
    "a TOML value nested deep": lambda whole: b"a = " + b"[" * DEEP + b"\n" + whole,
    "front matter nested deep": lambda _: b"---\na: " + b"[" * DEEP + b"\n---\n=== user\nx\n",
    "front matter that is no YAML": lambda _: b"---\nmodel: [chat\n: :\n---\n=== user\nx\n",
    "front matter with keys that are no text": lambda _: b"---\n1: 2\ncontent: 3\nhandler: 4\n---\n=== user\nx\n",
    "no user": lambda _: b"---\nmodel: chat\n---\n=== system\nx\n",
    "a template nested deep": lambda _: b"---\nmodel: chat\n---\n=== user\n" + b"{{" + b"(" * 20_000,
    "number": lambda _: b"5\n",
    "text": lambda _: b'"text"\n',
    "list": lambda _: b"[1, 2]\n",
    "empty object": lambda _: b"{}\n",
    "number of many digits": lambda _: b'{"a": ' + b"9" * 5000 + b"}\n",
    "cut off": lambda whole: whole[: len(whole) * 2 // 3],
    "twice": lambda whole: whole + whole,
    "surrogates": lambda whole: whole.replace(b"number", b"n\\ud800mber").replace(b"s", b"\\udfff"),
    "surrogates as bytes": lambda whole: whole.replace(b"number", b"n\xed\xa0\x80mber"),
    "a line of 5 MB": lambda whole: whole + b"x" * 5_000_000,
    "columns": lambda whole: whole.replace(b",", b";").replace(b":", b","),
}
_JSON, _PROMPT = (".json", ".jsonl"), (".j2", ".md")
ONLY: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("lists nested deep", "objects nested deep", "a value nested deep", "number", "text", "list"), _JSON
    ),
    **dict.fromkeys(("empty object", "number of many digits", "surrogates"), _JSON),
    **dict.fromkeys(
        ("front matter nested deep", "front matter that is no YAML", "no user", "a template nested deep"), _PROMPT
    ),
    "front matter with keys that are no text": _PROMPT,
    "a TOML value nested deep": (".toml",),
    "columns": (".csv", ".jsonl"),
}
VALUES = (
    "null",
    "true",
    "-1",
    "1e999",
    "NaN",
    "1" + "0" * 400,
    '"x"',
    "[]",
    "{}",
    "[[[1]]]",
    '"\\ud800"',
    '[{"a": [null]}]',
)
PLACES: dict[str, Callable[[Path], object]] = {
    "a folder": lambda path: (path / "inside").mkdir(parents=True),
    "a link to nowhere": lambda path: path.symlink_to(path.with_name("nowhere")),
    "a link to itself": lambda path: path.symlink_to(path),
}


def _trace(record: dict[str, Any], place: int) -> dict[str, Any]:
    values = {"p_idk": 0.1 * place, "p_yes": 0.9, "entity_score": 0.5 + 0.05 * place}
    turn_record = TurnRecord(
        query=record["query"],
        question=record["query"],
        answer=record["agent_response"],
        stages=(
            StageRecord("ground", 0.1, boxes=(BoxFound(1, 2, 30, 40, "tower"),), entity="Tower"),
            StageRecord("evidence", 0.2, evidence=(EvidenceFound("High.", title="T", score=0.5),)),
            StageRecord(
                "finalise",
                0.01,
                signals={name: Signal(value) for name, value in values.items()},
                decision=Decision(f"It is {place}", given=True, probability=0.4),
            ),
        ),
        seconds=0.1,
        batch=place // 2,
        turn=place % 2,
        session_id=record["session_id"],
        interaction_id=record["interaction_id"],
    )
    return turn_record.as_json()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A world with a judged run over validation that has traces, and one file of each other kind."""
    with scripted_world(tmp_path_factory.mktemp("world")) as folder:
        assert run_it(folder, folder / "run", "--mode", "generate") == 0
        records = [json.loads(line) for line in (folder / "run" / RESPONSES).read_text().splitlines()]
        traces = (json.dumps(_trace(record, place)) + "\n" for place, record in enumerate(records))
        (folder / "run" / "trace.jsonl").write_text("".join(traces))
        assert run_it(folder, folder / "run", "--resume", "--no-report") == 0
        keys = [record["interaction_id"] for record in records]
        hand = ({**record, "label": "correct", "split": "validation"} for record in records)
        head = {"signals": {"p_idk": {"weight": 1.0, "mean": 0.0, "scale": 1.0}}, "intercept": 0.0}
        files = {
            "accept.json": json.dumps({keys[0]: ["number 0"]}),
            "content_ids.json": json.dumps({keys[0]: {"source": "kg", "hops": 1}}),
            "labels.csv": "interaction_id,label\n" + "".join(f"{key},correct\n" for key in keys),
            "labels.jsonl": "".join(json.dumps(line) + "\n" for line in hand),
            "gate.json": json.dumps(head),
            "preset.toml": (PRESETS / "vlm_only.toml").read_text(),
            "profile.toml": (PROFILES / "embedded.toml").read_text(),
            "answer.j2": (PROMPTS / "judge" / "yes_or_no.j2").read_text(),
            "domain.toml": next((PROMPTS / "domains").glob("*.toml")).read_text(),
            "aicrowd.json": json.dumps({"challenge_id": "multi-turn-qa", "gpu": True, "hf_models": []}),
            "table.csv": "file,entity,height\na.png,Tower,3 m\n",
            "kg.jsonl": json.dumps({"image": "a.png", "image_url": "u", "entities": [{"entity_name": "Tower"}]}) + "\n",
            "pages.jsonl": json.dumps({"page_url": "u", "page_name": "T", "page_snippet": "High."}) + "\n",
            "page.md": "---\ntitle: Tower\n---\n# Tower\nHigh.\n",
            "page.html": "<title>T</title><p>High.</p>",
            "page.pdf": "%PDF-1.4",
            "judge.py": "MESSAGES = 1\n",
            "recipe.toml": "[training]\nepochs = 1\n",
            "examples.jsonl": json.dumps({"messages": []}) + "\n",
            "cut.json": "{}",
        }
        for name, text in files.items():
            (folder / name).write_text(text)
        (folder / "a.png").touch()
        yield folder


Read = Callable[[Path, Path], int]
"""Gives a command the file that was put into a copy of the world; what it writes goes into the other folder. The exit status."""


def _with(file: str, into: str, then: Read) -> Read:
    """Copy the run's folder, with the malformed file among its own."""

    def read(world: Path, out: Path) -> int:
        folder = world / "damaged"
        shutil.copytree(world / "run", folder, ignore=shutil.ignore_patterns(into))
        shutil.move(world / file, folder / into)
        return then(world, out)

    return read


def _study(main: Callable[[list[str]], int], words: str) -> Read:
    """Run a study on paths of the world; its files go into the other folder."""
    return lambda world, out: main([*words.format(world=world).split(), "--out", str(out)])


def _run(*arguments: str) -> Read:
    """Run ``local_evaluation.py`` with these arguments, in which ``{world}`` is the folder."""
    return lambda world, out: run_it(world, out, *(argument.format(world=world) for argument in arguments))


def _start(world: Path, _: Path) -> int:
    start(AnswererOptions(preset="vlm_only", no_web=True, no_images=True))
    return 0


def _plainly(read: Callable[[Path], object]) -> Read:
    """For what is tested below its command, whose errors are those that the command tells."""

    def call_reader(world: Path, _: Path) -> int:
        read(world)
        return 0

    return call_reader


ANSWERS, TABLE, SCORES = RESPONSES, "turn_evaluation_results_all.csv", "scores_dictionary.json"
MADE_WITH, COSTS, TRACES = "run.json", "run_log.jsonl", "trace.jsonl"
OF_A_RUN: dict[str, tuple[Read, tuple[str, ...]]] = {
    "evaluate": (
        lambda world, out: run_it(world, out, "--mode", "evaluate", "--input-file", f"{world}/damaged/{RESPONSES}"),
        (ANSWERS, MADE_WITH, COSTS, TRACES),
    ),
    "resume": (lambda world, _: run_it(world, world / "damaged", "--resume"), (ANSWERS, MADE_WITH, COSTS, TRACES)),
    "leaderboard": (_study(leaderboard.main, "a={world}/damaged b={world}/run"), (ANSWERS, MADE_WITH, COSTS, TRACES, TABLE, SCORES)),
    "flips": (_study(flips.main, "a={world}/damaged b={world}/run"), (ANSWERS, TRACES, TABLE)),
    "calibrate": (
        lambda world, _: calibrate.main(f"--runs {world}/damaged --preset best --dry-run --eval-model rule".split()),
        (TRACES, TABLE, SCORES, MADE_WITH),
    ),
}  # fmt: skip
MEASURE = "--measure {0}/run --preset best --gate {0}/gate.json --eval-model rule"
COMPARED = "--presets preset --dataset {world} --tasks multi-turn --eval-model rule --cache {world}/cache"
READERS: dict[str, tuple[str, Read]] = {
    f"{name}: {file}": (f"copy/{file}", _with(f"copy/{file}", file, command))
    for name, (command, files) in OF_A_RUN.items()
    for file in files
}
READERS |= {
    "calibrate: gate": ("gate.json", lambda world, _: calibrate.main(MEASURE.format(world).split())),
    "generate: gate": ("gate.json", _run("--set", "finalise.gate={world}/gate.json", "--mode", "generate")),
    "both: accept.json": ("accept.json", run_it),
    "both: content_ids.json": ("content_ids.json", run_it),
    "generate: preset": ("presets/preset.toml", _run("--preset", "preset", "--mode", "generate")),
    "compare: preset": ("presets/preset.toml", _study(compare.main, COMPARED)),
    "generate: profile": ("profiles/profile.toml", _run("--profile", "profile", "--mode", "generate")),
    "generate: prompt": ("prompts/answer_without_evidence.j2", _run("--preset", "vlm_only", "--mode", "generate")),
    "ask: prompt": ("prompts/answer_without_evidence.j2", _start),
    "domains": ("domains/domain.toml", _plainly(lambda _: domains.load_domains.__wrapped__())),
    "local judge: prompt": ("judges/structured.j2", _plainly(lambda _: asking.judge_prompts()["structured"])),
    "local judge: cut": ("cut.json", _plainly(lambda world: load_cut("cut", world))),
    "organiser's words": ("words/judge.py", _plainly(lambda world: read_organiser(world / "words"))),
    "build_index: table": ("table.csv", _plainly(lambda world: read_table(world / "table.csv", world))),
    "build_index: kg": ("kg.jsonl", _plainly(lambda world: read_images(world / "kg.jsonl", world))),
    "build_index: pages": ("pages.jsonl", _plainly(lambda world: read_pages([world / "pages.jsonl"]))),
    **{
        f"build_index: {name}": (f"documents/{name}", _plainly(lambda world: read_documents(world / "documents")))
        for name in ("page.md", "page.html", "page.pdf")
    },
    "preflight: aicrowd.json": (
        "aicrowd.json",
        _plainly(lambda world: submission.check_submission(world / "aicrowd.json", RunConfig.read("vlm_only", "gpu"))),
    ),
    "training: recipe": ("recipe.toml", _plainly(lambda world: load_recipe(str(world / "recipe.toml")))),
    "training: examples": ("examples.jsonl", _plainly(lambda world: read_examples(world / "examples.jsonl"))),
}  # fmt: skip
EXPECTED_ERRORS = (SettingsError, SourceError, JudgeError, CannotStartError, TrainingDataError, prompts.PromptError)
"""What the commands of ``_plainly`` print in one line."""


@pytest.fixture
def world(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the world, in which presets, profiles and prompts are looked up too."""
    folder = tmp_path / "world"
    shutil.copytree(whole, folder, symlinks=True)
    shutil.copytree(folder / "run", folder / "copy")
    for name, file in {"presets": "preset.toml", "profiles": "profile.toml", "domains": "domain.toml"}.items():
        (folder / name).mkdir()
        shutil.copy(folder / file, folder / name / file)
    _link(PROMPTS, folder / "prompts", but="answer_without_evidence.j2")
    _link(PROMPTS / "judge", folder / "judges", but="structured.j2")
    (folder / "words").mkdir()
    shutil.copy(folder / "judge.py", folder / "words")
    (folder / "documents").mkdir()
    for name in ("page.md", "page.html", "page.pdf"):
        shutil.copy(folder / name, folder / "documents")
    real_settings, real_profile = load_settings, load_profile

    def presets(preset: str, *more: Any, **named: Any) -> Any:
        return real_settings(preset, *more, **named, **({"folder": folder / "presets"} if preset == "preset" else {}))

    def profiles(name: str) -> Any:
        return real_profile(name, folder / "profiles") if name == "profile" else real_profile(name)

    def build(config: RunConfig, *_: Any, **__: Any) -> ScriptedCragAgent:
        for path in sorted((folder / "prompts").glob("*.j2")):
            if not path.is_file() or path.read_bytes() != (PROMPTS / path.name).read_bytes():
                config.prompts[path.stem]
        return ScriptedCragAgent()

    monkeypatch.setattr(run_config, "load_settings", presets)
    monkeypatch.setattr(agent_config, "load_settings", presets)
    monkeypatch.setattr(run_config, "load_profile", profiles)
    monkeypatch.setattr(agent_config, "PROMPTS", folder / "prompts")
    monkeypatch.setattr(domains, "DOMAINS", folder / "domains")
    monkeypatch.setattr(asking, "PROMPTS", folder / "judges")
    monkeypatch.setattr(CragAgent, "from_config", build)
    for module in (leaderboard, variant_runs):
        monkeypatch.setattr(module, "plot_results", lambda *_: [])  # which takes longer than all that is read
    monkeypatch.setattr(gate_study, "plot_gate", lambda *_: [])
    return folder


def _link(prompts: Path, folder: Path, but: str) -> None:
    """A folder of links to prompts, and a copy of the one that a test writes to."""
    folder.mkdir()
    for path in prompts.iterdir():
        (folder / path.name).symlink_to(path)
    (folder / but).unlink()
    shutil.copy(prompts / but, folder / but)


def _collect_output(read: Read, world: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What was printed; fails where an exception passes, or an error is told in several lines or with another status than 2."""
    capsys.readouterr()
    try:
        status = read(world, out)
    except OSError as error:  # below a command, which tells it
        assert is_file_error(error) and "\n" not in format_os_error(error)
        return format_os_error(error)
    except EXPECTED_ERRORS as error:
        assert "\n" not in str(error).strip() or isinstance(error, SourceError), error
        return str(error)
    output = capsys.readouterr().out
    assert "Traceback" not in output
    errors = [line for line in output.splitlines() if line.startswith("error: ")]
    assert (status, len(errors)) in ((0, 0), (2, 1), (1, 1)), output
    if errors:
        assert output.rstrip().endswith(errors[0].rstrip()) or status == 1, output
    return output


def test_the_files_as_they_are_can_be_read(world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Else the tests below would show nothing."""
    for name in (
        "leaderboard: response.jsonl",
        "generate: preset",
        "generate: profile",
        "generate: prompt",
        "calibrate: gate",
    ):
        shutil.rmtree(world / "damaged", ignore_errors=True)
        assert READERS[name][1](world, tmp_path / "out") == 0, name
        shutil.rmtree(world / "copy", ignore_errors=True)
        shutil.copytree(world / "run", world / "copy")
    capsys.readouterr()


def _cases() -> Iterator[tuple[str, str]]:
    """Readers with the kinds that say something of their format, one pair in four; all pairs of any format in a thorough run."""
    for row, (reader, (file, _)) in enumerate(READERS.items()):
        for column, kind in enumerate(KINDS):
            formats = ONLY.get(kind)
            if THOROUGH or ((row + column) % 4 == 0 and (formats is None or Path(file).suffix in formats)):
                yield reader, kind


@pytest.mark.parametrize(("reader", "kind"), _cases())
def test_malformed(reader: str, kind: str, world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, read = READERS[reader]
    content = (world / file).read_bytes()
    (world / file).write_bytes(KINDS[kind](content))
    _collect_output(read, world, tmp_path / "out", capsys)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("reader", READERS)
def test_no_file_at_all(
    reader: str, place: str, world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, read = READERS[reader]
    (world / file).unlink()
    PLACES[place](world / file)
    _collect_output(read, world, tmp_path / "out", capsys)


@pytest.mark.parametrize(
    ("reader", "value"),
    [
        (reader, value)
        for row, reader in enumerate(
            name for name, (file, _) in READERS.items() if file.startswith("copy/") and "json" in file
        )
        for column, value in enumerate(VALUES)
        if THOROUGH or (row + column) % 2 == 0
    ],
)
def test_values_of_other_types(
    reader: str, value: str, world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each field of the second line, or of the object, in turn; those of lists and objects within it too."""
    file, read = READERS[reader]
    lines = (world / file).read_text().splitlines() if file.endswith("l") else [(world / file).read_text()]
    number = min(1, len(lines) - 1)
    fields = [*_places(json.loads(lines[number]))]
    step = 1 if THOROUGH else len(fields)  # every value at another field: each is a run of the command
    for field in fields[VALUES.index(value) % step :: step]:
        changed = _changed(json.loads(lines[number]), field, value)
        (world / "copy").mkdir(exist_ok=True)
        (world / file).write_text("\n".join([*lines[:number], changed, *lines[number + 1 :]]) + "\n")
        shutil.rmtree(world / "damaged", ignore_errors=True)
        _collect_output(read, world, tmp_path / "out", capsys)


def _places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in inside:
        yield (*place, name)
        yield from _places(item, (*place, name))


def _changed(record: Any, place: tuple[Any, ...], value: str) -> str:
    at = record
    for name in place[:-1]:
        at = at[name]
    at[place[-1]] = "HERE"
    return json.dumps(record).replace('"HERE"', value)


def test_a_manifest_that_cannot_be_read_keeps_nobody_from_resuming_unawares(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else the answers of other settings would be mixed with these."""
    shutil.copytree(world / "run", tmp_path / "out")
    (tmp_path / "out" / MADE_WITH).write_text("[" * DEEP)
    assert run_it(world, tmp_path / "out", "--resume") == 2
    output = capsys.readouterr().out
    assert "so the settings of the answers beside it are unknown; remove it to resume without this check" in output
    (tmp_path / "out" / MADE_WITH).unlink()
    assert run_it(world, tmp_path / "out", "--resume") == 0


@pytest.mark.parametrize("name", ["preset", "profile"])
def test_a_name_of_5000_characters(name: str, world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_it(world, tmp_path / "out", f"--{name}", "x" * 5000) == 2
    output = capsys.readouterr().out
    assert output.startswith(f"error: there is no {name} 'xxx") and "known: " in output and len(output) < 600
