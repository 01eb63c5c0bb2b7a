"""The command ``crag serve`` in a process of its own: where it listens, and what it leaves behind when it is told to stop."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import uvicorn

from agents.profiles.profile import ROOT
from apps import serve
from apps.answering import Answerer, AnswererOptions
from apps.http_server import HttpOptions, listen
from tests.apps.conftest import PHOTO, ScriptedAgent, data_url, make_message

PROGRAM = """
    import sys
    import threading

    from agents.profiles.profile import Limits
    from agents.search.hub import _copies
    from agents.time_limits import signals
    from apps import http_server, serve
    from apps.answering import Answerer
    from tests.apps.conftest import ScriptedAgent
    from tests.apps.held_stage import held

    agent, stage = held(Limits(seconds_per_turn=300.0, seconds_per_dialog=300.0))
    http_server._GRACE_SECONDS = 0.3
    stuck = ScriptedAgent()
    if sys.argv[1] == "stuck":
        agent, stage = stuck, stuck
        stuck.open.clear()

    def start(_):
        _copies()  # of this process alone, as an index is opened
        print("loading", flush=True)
        if sys.argv[1] == "loading":
            threading.Event().wait()
        return Answerer(agent)

    def tell_when_asked():
        stage.entered.wait()
        print("asked", flush=True)

    serve.start = start
    threading.Thread(target=tell_when_asked, daemon=True).start()
    signals.run_program(lambda: serve.main(["--port", "0", "--no-key"]))
"""
BODY = {"model": "crag-mm-best", "messages": [make_message("How tall is this?", data_url(PHOTO))]}


@contextmanager
def running(state: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """The command with its temporary files in a folder; ``state`` is the one that it is to be stopped in."""
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), state]
    environment = {**os.environ, "TMPDIR": str(folder)}
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def read_url(process: subprocess.Popen[str]) -> str:
    """Where it says that it answers."""
    assert process.stderr is not None
    for line in process.stderr:
        if match := re.fullmatch(r"(http://\S+)/v1 answers as crag-mm-best\n", line):
            return match[1]
    raise AssertionError("it ended before it answered")


def wait_for(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdout is not None
    assert f"{line}\n" in process.stdout


@pytest.mark.parametrize(
    ("state", "number"),
    [
        ("loading", signal.SIGTERM),
        ("serving", signal.SIGTERM),
        ("answering", signal.SIGTERM),
        ("answering", signal.SIGINT),
    ],
)
def test_a_server_that_is_told_to_stop_leaves_nothing_behind_and_does_not_wait_for_the_agent(
    state: str, number: signal.Signals, tmp_path: Path
) -> None:
    with running(state, tmp_path) as process, ThreadPoolExecutor(1) as client:
        wait_for(process, "loading")
        if state != "loading":
            url = read_url(process)
            assert httpx.get(f"{url}/health").json()["status"] == "ok"
        if state == "answering":
            reply = client.submit(httpx.post, f"{url}/v1/chat/completions", json=BODY, timeout=60)
            wait_for(process, "asked")
        assert [path.name.startswith("crag-hub-") for path in tmp_path.iterdir()] == [True]
        process.send_signal(number)
        assert process.wait(60) == 0
        assert not [*tmp_path.iterdir()]
        if state == "answering":
            assert reply.result(60).json()["error"]["code"] == "server_stopping"


@pytest.mark.hostile("a server that is told to stop while a call hangs")
def test_a_call_that_cannot_be_ended_does_not_keep_the_process(tmp_path: Path) -> None:
    """Its thread stays in a call, as in a library: the interpreter would wait for it."""
    with running("stuck", tmp_path) as process, ThreadPoolExecutor(1) as client:
        wait_for(process, "loading")
        reply = client.submit(httpx.post, f"{read_url(process)}/v1/chat/completions", json=BODY, timeout=60)
        wait_for(process, "asked")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert reply.result(60).json()["error"]["code"] == "server_stopping"
        assert process.stderr is not None
        stderr = process.stderr.read()
    assert stderr == "ERROR uvicorn.error: Cancel 1 running task(s), timeout graceful shutdown exceeded\n"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[AnswererOptions]:
    """The options of agents that were started."""
    options: list[AnswererOptions] = []

    def start(each: AnswererOptions) -> Answerer:
        options.append(each)
        return Answerer(ScriptedAgent())

    monkeypatch.setattr(serve, "start", start)
    return options


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as free:
            free.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    ("host", "shown"),
    [("127.0.0.1", "127.0.0.1"), ("localhost", "127.0.0.1"), ("::1", "[::1]"), ("0.0.0.0", "0.0.0.0")],
)
def test_the_address_that_is_printed_is_the_one_that_is_bound(
    host: str,
    shown: str,
    started: list[AnswererOptions],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if host == "::1" and not has_ipv6():
        pytest.skip("this machine has no IPv6")
    ports: list[int] = []
    monkeypatch.setattr(uvicorn.Server, "run", lambda _, sockets: ports.append(sockets[0].getsockname()[1]))
    assert serve.main(["--port", "0", "--host", host, "--no-key"]) == 0
    assert ports[0] > 0 and len(started) == 1
    assert capsys.readouterr().err == f"http://{shown}:{ports[0]}/v1 answers as crag-mm-best\n"


@pytest.mark.parametrize("key", ["schlüssel", "ключ", "two words", "a\tb", "a\x7fb"])
def test_a_key_that_no_client_can_send_is_refused_before_models_are_loaded(
    key: str, started: list[AnswererOptions], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CRAG_API_KEY", key)
    monkeypatch.setattr(uvicorn.Server, "run", lambda *_, **__: None)
    assert serve.main(["--port", "0"]) == 2 and not started
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and "CRAG_API_KEY" in line and "printable ASCII" in line and key not in line


def test_a_key_of_ascii_is_taken(
    started: list[AnswererOptions], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CRAG_API_KEY", " sk-~A_1+/= ")
    monkeypatch.setattr(uvicorn.Server, "run", lambda *_, **__: None)
    assert serve.main(["--port", "0"]) == 0 and len(started) == 1
    assert "sk-" not in capsys.readouterr().err


@pytest.mark.parametrize("port", ["99999", "65536", "-1"])
def test_a_number_that_is_no_port_is_refused(
    port: str, started: list[AnswererOptions], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        serve.main([f"--port={port}"])
    assert stopped.value.code == 2 and not started
    assert (
        f"--port: Input should be {'greater' if port == '-1' else 'less'} than or equal to" in capsys.readouterr().err
    )


def test_an_address_that_cannot_be_listened_on_is_told_before_models_are_loaded(
    started: list[AnswererOptions], capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        for host, words in (
            ("127.0.0.1", "Address already in use"),
            ("192.0.2.7", "Cannot assign requested address"),
        ):
            assert serve.main(["--port", str(port), "--host", host, "--no-key"]) == 2
            (line,) = capsys.readouterr().err.splitlines()
            assert line.startswith(f"error: cannot listen on port {port} of {host}: ") and words in line
            assert line.endswith("; choose another with --port or --host")
    assert not started


def test_a_port_that_another_server_took_while_models_were_loaded_is_told_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with listen(HttpOptions(port=0)) as other:

        def start(_: AnswererOptions) -> Answerer:
            other.listen()
            return Answerer(ScriptedAgent())

        monkeypatch.setattr(serve, "start", start)
        port = other.getsockname()[1]
        assert serve.main(["--port", str(port), "--no-key"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: cannot listen on port {port} of 127.0.0.1: ")
