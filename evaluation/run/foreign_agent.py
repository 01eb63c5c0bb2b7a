"""Agents of other repositories: each in a process of its own, under its own interpreter, fed over a socket.

The process (``agent_child``) gets what the organiser's evaluator passes, and searches through this one. It is killed when it takes too
long, and started again for the next batch.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from PIL import Image

from agents.base.cluster import MAX_DEATHS
from agents.base.files import one_line
from agents.base_agent import BaseAgent, Message
from evaluation.files.manifest import current_commit
from evaluation.records import EvaluationError
from evaluation.run import agent_child
from evaluation.run.agent_child import END_SECONDS, Channel, FrameError, pack_picture, unpack_picture

START_SECONDS = 600.0  # the challenge's limit
_POLL_SECONDS = 0.2  # how late a death or the end of time is noticed
_TRACE_SHARE = 0.9  # of its time after which the process writes down where it hangs
_QUOTED_BYTES = 4_000  # of the log, in which its last line is looked for
_PAGES = "CRAG_WEBSEARCH_CACHE_DIR"  # environment variable: the folder that the kit reads pages from

Search = Callable[..., Sequence[Mapping[str, Any]]]
"""The organiser's pipeline: ``search(picture or text, k=)``."""

ReadPage = Callable[[str], str]
"""Returns the whole page at a URL; "" if no cache has it."""


class ForeignAgentError(RuntimeError):
    """The agent raised, its process ended, or it took too long; ``traceback`` is its own, "" if it raised nothing."""

    def __init__(self, message: str, traceback: str = "") -> None:
        super().__init__(message)
        self.traceback = traceback


class NotText:
    """A value that an agent returned in place of text; its type has the name of the value's own."""


@dataclass(frozen=True)
class ForeignAgentPlace:
    """Place and limits of an agent of another repository.

    Attributes:
        root: Folder of the repository, in which the agent works.
        agent: ``module:attribute``, found from ``root``.
        python: Interpreter.
        log: File of what the agent prints.
        seconds: Seconds a turn after which it counts as hung.
        memory: Bytes that its process may take; None: any number.
        offline: Whether its process is refused every connection, and reports what it tried.
        env: Environment of its process; None: that of this one.
    """

    root: Path
    agent: str
    python: Path
    log: Path
    seconds: float
    memory: int | None = None
    offline: bool = False
    env: Mapping[str, str] | None = None

    def describe(self) -> dict[str, Any]:
        """Return what run.json notes of it."""
        commit = current_commit(self.root)
        return {
            "agent_root": str(self.root),
            "agent_python": str(self.python),
            **({"agent_commit": commit} if commit else {}),
        }


def find_python(root: Path, named: Path | None) -> Path:
    """Return the interpreter of a repository: the one that is named, else that of its ``.venv``, else this one.

    Raises:
        EvaluationError: It is no program.
    """
    own = root / ".venv" / "bin" / "python"
    # Not resolved: a virtual environment is known by the path of its interpreter.
    python = (named or (own if own.exists() else Path(sys.executable))).absolute()
    if not os.access(python, os.X_OK) or python.is_dir():
        raise EvaluationError(
            f"--agent-python {python} cannot be run; name an interpreter, such as FOLDER/.venv/bin/python"
        )
    return python


class _Process:
    """The process of an agent, and the frames that it exchanges with this one."""

    def __init__(self, place: ForeignAgentPlace, pages: Path | None) -> None:
        ours, theirs = socket.socketpair()
        self._end = float("inf")
        self._died = False
        place.log.parent.mkdir(parents=True, exist_ok=True)
        with theirs, place.log.open("ab") as output:
            output.write(f"--- {place.agent} under {place.python}\n".encode())
            output.flush()
            try:
                self._process = subprocess.Popen(
                    [str(place.python), agent_child.__file__, str(theirs.fileno())],
                    cwd=place.root,
                    env={
                        "PYTHONUNBUFFERED": "1",
                        **({} if pages is None else {_PAGES: str(pages)}),
                        **(os.environ if place.env is None else place.env),
                    },
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,  # Ctrl-C is for this process; and its own children are killed with it
                )
            except OSError as error:
                ours.close()
                raise ForeignAgentError(f"its process cannot be started: {error}") from error
        ours.settimeout(_POLL_SECONDS)
        self.channel = Channel(ours, self._check)

    def limit(self, seconds: float) -> None:
        """Set the time within which frames are exchanged from now on."""
        self._end = time.monotonic() + seconds

    def _check(self, idle: bool) -> None:
        if time.monotonic() > self._end:
            raise TimeoutError("it takes too long")
        if idle:
            if self._died:
                raise EOFError("its process ended")
            self._died = self._process.poll() is not None  # what it said before is read first

    def describe_end(self) -> str:
        """Return how the process ended, after a moment in which it may do so."""
        try:
            status = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            return "its process closed the connection"
        if status >= 0:
            return f"its process ended with status {status}"
        try:
            return f"its process was ended by {signal.Signals(-status).name}"
        except ValueError:
            return f"its process was ended by signal {-status}"

    def end(self, seconds: float) -> None:
        """End the process, with all that it started: on its own within some seconds, else killed."""
        self.channel.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


class ForeignAgent(BaseAgent):
    """Agent of another repository, in a process of its own.

    A batch for which the process raises, dies or takes too long raises ``ForeignAgentError``. After the latter two the next batch starts
    it again, but not after ``MAX_DEATHS`` in a row.

    Args:
        place: Where it is, and its limits.
        options: Arguments with which the agent is built.
        search: Searches for it; None: it is built without a search pipeline if ``options`` are given, else with None.
        images: Whether it may search for pictures.
        read_page: Reads pages for the kit's ``WebSearchResult``.
        pages: Folder that a ``WebSearchResult`` of its own reads, unless the environment names one.

    Attributes:
        connections: Connections that an offline agent has tried so far.
        inside: What ``agent_child.watch`` says of an offline agent of ours.

    Raises:
        EvaluationError: It cannot be built.
    """

    def __init__(
        self,
        place: ForeignAgentPlace,
        options: Mapping[str, Any] | None = None,
        search: Search | None = None,
        *,
        images: bool = True,
        read_page: ReadPage = lambda _: "",
        pages: Path | None = None,
    ) -> None:
        super().__init__(search)
        self._place, self._options, self._images = place, options, images
        self._read_page, self._pages = read_page, pages
        self._process: _Process | None = None
        self._deaths = 0
        self.connections: list[str] = []
        self.inside: dict[str, list[str]] = {}
        try:
            self._batch_size = self._start()
        except ForeignAgentError as error:
            self.close()
            raise EvaluationError(
                f"agent {place.agent!r} of {place.root} cannot be built: {error}; its output is in {place.log}. "
                f"It ran under {place.python} (--agent-python)"
            ) from error

    def get_batch_size(self) -> int:
        """See ``BaseAgent``."""
        return self._batch_size

    def batch_generate_response(
        self,
        queries: Sequence[str],
        images: Sequence[Image.Image | None],
        message_histories: Sequence[Sequence[Message]] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Return what the agent returns; a value that is no text as ``NotText``.

        Raises:
            ForeignAgentError: It raised, its process ended, or it took too long.
        """
        if self._process is None:
            if self._deaths >= MAX_DEATHS:
                raise ForeignAgentError(f"its process died {self._deaths} times in a row and is not started again")
            self._start()
        blobs: list[bytes] = []
        packed = [None if image is None else pack_picture(image, blobs) for image in images]
        histories = [list(history) for history in message_histories or [[] for _ in queries]]
        request = {"do": "answer", "queries": list(queries), "images": packed, "histories": histories, "more": kwargs}
        returned = self._request(request, blobs, self._place.seconds * max(1, len(queries)))
        self._deaths = 0
        if "answers" not in returned:
            return _not_text(returned["returned"])
        return [each["text"] if "text" in each else _not_text(each["type"]) for each in returned["answers"]]

    def close(self) -> None:
        """End the process; it has some seconds to do so on its own."""
        if self._process is not None:
            self._process.end(END_SECONDS)
            self._process = None

    def _start(self) -> int:
        """Start the process, let it build the agent, and return the batch size."""
        self._process = _Process(self._place, self._pages)
        place = self._place
        request: dict[str, Any] = {
            "do": "start",
            "agent": place.agent,
            "memory": place.memory,
            "offline": place.offline,
        }
        if self._options is None:
            search = self.search_pipeline
            web = bool(getattr(search, "web_search", True))
            request |= {"options": {}, "search": None if search is None else {"web": web, "images": self._images}}
        else:
            request["options"] = dict(self._options)
        try:
            return int(self._request(request, [], START_SECONDS)["batch_size"])
        except ForeignAgentError:
            if self._process is not None:  # it raised: built anew or not at all
                self._kill()
            raise

    def _request(self, request: Mapping[str, Any], blobs: Sequence[bytes], seconds: float) -> dict[str, Any]:
        """Send a frame, serve the process until it is done, and return what it says then."""
        process = self._process
        assert process is not None
        process.limit(seconds)
        try:
            process.channel.send({**request, "seconds": seconds * _TRACE_SHARE}, blobs)
            while (frame := process.channel.receive())[0].get("said") != "done":
                process.channel.send(self._serve(*frame))
            reply = _check_done(frame[0])
        except TimeoutError:
            self._fail(f"it took more than {seconds:.4g} s and was killed; {self._place.log.name} has where it hung")
        except FrameError as error:
            self._fail(f"a frame cannot be passed: {error}")
        except (EOFError, OSError):
            self._fail(f"{process.describe_end()}; {self._place.log.name} ends with: {self._quote_log()}")
        except BaseException:  # Ctrl-C amid a frame
            self._kill()
            raise
        self.connections, self.inside = list(reply.get("connections", [])), dict(reply.get("inside", {}))
        if "error" in reply:
            where = f"; {self._place.log.name} has its traceback" if request["do"] == "answer" else ""
            raise ForeignAgentError(f"{reply['error']}{where}", reply.get("traceback", ""))
        return reply

    def _fail(self, why: str) -> NoReturn:
        self._kill()
        raise ForeignAgentError(why)

    def _kill(self) -> None:
        self._deaths += 1
        if self._process is not None:
            self._process.end(0.0)
            self._process = None

    def _serve(self, request: Mapping[str, Any], blobs: Sequence[bytes]) -> dict[str, Any]:
        """Return the answer to a question of the process.

        Raises:
            FrameError: It is none.
        """
        take = {"do": "take", "number": request.get("number")}
        try:
            if request.get("said") == "page":
                return {**take, "value": self._read_page(str(request["url"]))}
            if request.get("said") == "search":
                return {**take, "value": self._find(request["query"], blobs, request["k"])}
        except Exception as error:  # noqa: BLE001 - searches raise anything, and the agent decides what that means
            return {**take, "type": type(error).__name__, "error": str(error)}
        raise FrameError("a question of no kind")

    def _find(self, query: Mapping[str, Any], blobs: Sequence[bytes], k: int) -> Sequence[Mapping[str, Any]]:
        """Search as the organiser's pipeline does.

        Raises:
            ValueError: This search is off.
        """
        assert self.search_pipeline is not None
        if "text" not in query and not self._images:
            raise ValueError("image search is off")
        if "text" in query:
            results = self.search_pipeline(str(query["text"]), k=k)
        elif "picture" in query:
            results = self.search_pipeline(unpack_picture(query["picture"], blobs), k=k)
        else:
            results = self.search_pipeline(np.asarray(query["embedding"], dtype=np.float32), k=k)
        return list(results)

    def _quote_log(self) -> str:
        """Return the last line that the process printed; "" if it printed none."""
        with self._place.log.open("rb") as file:
            file.seek(max(0, self._place.log.stat().st_size - _QUOTED_BYTES))
            lines = file.read().decode("utf-8", errors="replace").strip().splitlines()
        return one_line(lines[-1]) if lines else ""


def _not_text(kind: str) -> NotText:
    """Return a value whose type has the name of another."""
    value: NotText = type(kind, (NotText,), {})()
    return value


def _check_done(reply: dict[str, Any]) -> dict[str, Any]:
    """Return what a process says when it is done.

    Raises:
        FrameError: It has another form.
    """
    answers = reply.get("answers", [])
    fits = isinstance(answers, list) and all(
        isinstance(each, dict) and isinstance(each.get("text", each.get("type")), str) for each in answers
    )
    forms = {"error": str, "batch_size": int, "returned": str, "answers": list}
    fits = fits and isinstance(reply.get("traceback", ""), str)
    fits = fits and isinstance(reply.get("connections", []), list) and isinstance(reply.get("inside", {}), dict)
    if not fits or not any(isinstance(reply.get(name), form) for name, form in forms.items()):
        raise FrameError("an answer of another form")
    return reply
