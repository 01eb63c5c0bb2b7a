"""A server of two replicas on a real local cluster, where Ray is installed (`make test-scale`)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

pytest.importorskip("ray", reason="Ray is not installed: make test-scale")
from agents.profiles.profile import Limits
from apps.answering import Answerer, CannotStartError
from apps.outcome import Outcome
from apps.serving.app import Server, ServerLimits
from apps.serving.replica_pool import open_pool
from tests.apps.conftest import KEY, PHOTO, crag_agent, data_url, listening, make_message, red_tower, serving
from tests.apps.test_serve import MODEL

FATAL = "How tall is this, fatally?"
UNHURRIED = Limits(seconds_per_turn=300.0, seconds_per_dialog=3000.0)
"""Processes of Ray start in seconds, on a busy machine in minutes."""


class Mortal(Answerer):
    """Tells its process for each question, and dies of one, once: by SIGKILL, or with the search of its machine."""

    folder: Path
    search: Any

    def answer(self, questions: Any, watch: Any = None) -> list[Outcome]:
        with (self.folder / "asked").open("a") as file:
            file.write("".join(f"{os.getpid()}\t{question.text}\n" for question in questions))
        fatal = self.folder / "fatal"
        if any(question.text == FATAL for question in questions) and fatal.exists():
            import ray

            dying = os.getpid() if fatal.read_text() == "replica" else ray.get(self.search.actor.process.remote())
            fatal.unlink()
            os.kill(dying, signal.SIGKILL)
        return super().answer(questions, watch)


def mortal(folder: Path, search: Any) -> Answerer:
    mortal_agent = Mortal(crag_agent(pipeline=search, limits=UNHURRIED))
    mortal_agent.folder, mortal_agent.search = folder, search
    return mortal_agent


def refused(_: Any) -> Answerer:
    raise CannotStartError("there are no weights")


def ask_server(url: str, question: str) -> dict[str, Any]:
    """Answer and what is told of it, but for times."""
    client = openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0, timeout=600)
    messages: Any = [make_message(question, data_url(PHOTO))]
    completion = client.chat.completions.create(model=MODEL, messages=messages)
    crag: Any = (completion.model_extra or {})["crag"]
    about = {name: value for name, value in crag.items() if name not in ("times", "seconds")}
    return {"answer": completion.choices[0].message.content, **about}


def search_server(url: str) -> dict[str, Any]:
    """What a search for the photo and a query finds."""
    body = {"image": data_url(PHOTO), "query": "tower"}
    reply: dict[str, Any] = httpx.post(
        f"{url}/v1/search", json=body, headers={"Authorization": f"Bearer {KEY}"}, timeout=60
    ).json()
    return reply


def test_two_replicas_answer_as_one_process_whatever_dies(tmp_path: Path) -> None:
    questions = [FATAL, *(f"How tall is number {number}?" for number in range(11))]
    limits = ServerLimits(requests_per_minute=1000)
    with serving(crag_agent(limits=UNHURRIED), limits=limits) as url:
        alone = [ask_server(url, question) for question in questions]
        found = search_server(url)
    assert found["entities"][0]["name"] == "Red Tower" and "1901" in found["passages"][0]["text"]
    assert {one["answer"] for one in alone} == {"300 m"} and alone[0]["entity"] == "Red Tower"
    with open_pool(partial(mortal, tmp_path), red_tower, 2, None) as replicas:
        assert replicas.size == 2
        server = Server(replicas, model=MODEL, key=KEY, limits=limits)
        with listening(server.app) as url, ThreadPoolExecutor(len(questions)) as clients:
            for dying in ("replica", "search"):
                (tmp_path / "fatal").write_text(dying)
                assert [*clients.map(partial(ask_server, url), questions)] == alone
                assert not (tmp_path / "fatal").exists()
                assert search_server(url) == found
    lines = [line.split("\t") for line in (tmp_path / "asked").read_text().splitlines()]
    assert (
        len({process for process, _ in lines} - {str(os.getpid())}) >= 2
    )  # and maybe the one in place of that which died
    assert [question for _, question in lines].count(FATAL) == 4


def test_a_replica_that_cannot_be_built_is_told() -> None:
    with pytest.raises(CannotStartError, match="there are no weights"), open_pool(refused, None, 1, None):
        pass


def test_without_the_flag_ray_is_not_imported(tmp_path: Path) -> None:
    """Nor where the agent cannot start: nothing of it is there."""
    program = (
        "import sys; from apps.serve import main; import apps.serving.app; "
        f"status = main(['--cache', {str(tmp_path)!r}]); print(status, 'ray' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["2", "False"], ran
