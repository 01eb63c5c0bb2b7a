"""Runs an agent of another repository, in that repository's folder and under its interpreter (``foreign_agent`` starts it).

It imports the standard library and Pillow alone, for any Python from 3.9 on, and nothing of this project: both have a package ``agents``.
It also defines the frames of the socket between the two processes: JSON and bytes, since a pickle runs whatever it names.
"""

from __future__ import annotations

import faulthandler
import importlib
import importlib.abc
import importlib.machinery
import json
import operator
import os
import queue
import signal
import socket
import struct
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from PIL import Image

OURS = frozenset({"agents", "apps", "evaluation", "lab", "local_evaluation", "mini_crag_mm", "training"})
"""Top-level modules of this project, which the agent does not see even if its interpreter has them installed."""

MAX_HEADER, MAX_BYTES = 64 << 20, 4 << 30  # bytes of JSON, and of all blobs of a frame
MAX_TRACEBACK = 10_000  # characters that are told of an error; the log has all of them
END_SECONDS = 10.0  # for an agent to end by itself, vLLM's workers included

_KEPT_INFO = ("exif", "transparency")  # of a picture, read by ImageOps.exif_transpose and convert


class FrameError(ValueError):
    """What the other process sent is no frame, or too large."""


class Channel:
    """Frames over a socket: a length, JSON, and blobs whose lengths the JSON has.

    Args:
        connection: The socket.
        check: Called before each block is sent or received, and told whether the socket was idle; raises to give up.
    """

    def __init__(self, connection: socket.socket, check: Callable[[bool], None] | None = None) -> None:
        self._connection, self._check = connection, check
        self._lock = threading.Lock()

    def send(self, header: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> None:
        """Send a frame, whole, whichever thread calls.

        Raises:
            FrameError: It is too large.
            OSError: The other process has ended.
        """
        header_bytes = json.dumps({**header, "blobs": [len(blob) for blob in blobs]}, default=_to_json).encode("ascii")
        if len(header_bytes) > MAX_HEADER or sum(map(len, blobs)) > MAX_BYTES:
            raise FrameError(
                f"too much for one frame: {len(header_bytes)} bytes of JSON, {sum(map(len, blobs))} of pictures"
            )
        with self._lock:
            for block in (struct.pack(">I", len(header_bytes)), header_bytes, *blobs):
                self._send(memoryview(block))

    def receive(self) -> tuple[dict[str, Any], list[bytes]]:
        """Receive a frame.

        Raises:
            EOFError: The other process has closed the socket.
            FrameError: It is no frame.
        """
        (length,) = struct.unpack(">I", self._receive(4))
        if length > MAX_HEADER:
            raise FrameError(f"{length} bytes of JSON")
        try:
            header = json.loads(self._receive(length))
        except (ValueError, RecursionError) as error:
            raise FrameError(f"no JSON: {error}") from error
        sizes = header.pop("blobs", None) if isinstance(header, dict) else None
        if not isinstance(sizes, list) or not all(type(size) is int and size >= 0 for size in sizes):
            raise FrameError("no sizes of blobs")
        if sum(sizes) > MAX_BYTES:
            raise FrameError(f"{sum(sizes)} bytes of blobs")
        return header, [self._receive(size) for size in sizes]

    def close(self) -> None:
        """Close the socket; a second call does nothing."""
        self._connection.close()

    def _send(self, block: memoryview) -> None:
        idle = False
        while block:
            if self._check is not None:
                self._check(idle)
            try:
                block, idle = block[self._connection.send(block) :], False
            except socket.timeout:  # noqa: UP041 - another class until Python 3.10
                idle = True

    def _receive(self, size: int) -> bytes:
        # Grows with what arrives: a length that lies takes no memory.
        block, idle = bytearray(), False
        while len(block) < size:
            if self._check is not None:
                self._check(idle)
            try:
                got = self._connection.recv(min(size - len(block), 1 << 20))
            except socket.timeout:  # noqa: UP041 - another class until Python 3.10
                idle = True
                continue
            except ConnectionError as error:
                raise EOFError("the socket is closed") from error
            if not got:
                raise EOFError("the socket is closed")
            block += got
            idle = False
        return bytes(block)


def _to_json(value: Any) -> Any:
    """Return numbers and arrays of numpy as plain values, and anything else as text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def pack_picture(picture: Image.Image, blobs: list[bytes]) -> dict[str, Any]:
    """Describe a picture, of any mode and to the last bit, and add its pixels to ``blobs``."""
    described: dict[str, Any] = {"mode": picture.mode, "size": picture.size, "pixels": len(blobs)}
    blobs.append(picture.tobytes())
    if picture.palette is not None and picture.mode in ("P", "PA"):
        described["palette"] = [picture.palette.mode, picture.palette.tobytes().hex()]
    for name in _KEPT_INFO:
        value = picture.info.get(name)
        if isinstance(value, bytes):
            described[name] = {"hex": value.hex()}
        elif isinstance(value, (int, tuple)):
            described[name] = value
    return described


def unpack_picture(described: Mapping[str, Any], blobs: Sequence[bytes]) -> Image.Image:
    """Make the picture that ``pack_picture`` described.

    Raises:
        FrameError: It describes none.
    """
    try:
        width, height = described["size"]
        pixels = blobs[described["pixels"]]
        if width < 0 or height < 0 or width * height > max(1, len(pixels)) * 8:
            raise ValueError("fewer pixels than its size says")
        picture = Image.frombytes(described["mode"], (width, height), pixels)
        if "palette" in described:
            mode, palette = described["palette"]
            picture.putpalette(bytes.fromhex(palette), mode)
        for name in _KEPT_INFO:
            if name in described:
                value = described[name]
                value = bytes.fromhex(value["hex"]) if isinstance(value, dict) else value
                picture.info[name] = tuple(value) if isinstance(value, list) else value
    except (KeyError, IndexError, TypeError, ValueError, OverflowError, MemoryError) as error:
        raise FrameError(f"no picture: {error}") from error
    return picture


class Parent:
    """Connection to the evaluating process: its requests, and the searches that it makes for this agent."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.work: queue.Queue[tuple[dict[str, Any], list[bytes]] | None] = queue.Queue()
        self._waiting: dict[int, queue.Queue[dict[str, Any]]] = {}
        self._numbers = iter(range(1 << 62))
        self._lock = threading.Lock()
        threading.Thread(target=self._listen, daemon=True).start()

    def say(self, **header: Any) -> None:
        """Send a frame without blobs."""
        self._channel.send(header)

    def ask(self, request: str, blobs: Sequence[bytes] = (), **more: Any) -> Any:
        """Return what the parent answers to a question.

        Raises:
            Exception: What the parent raised: the same built-in error, else RuntimeError.
        """
        answer: queue.Queue[dict[str, Any]] = queue.Queue()
        with self._lock:
            number = next(self._numbers)
            self._waiting[number] = answer
        self._channel.send({"said": request, "number": number, **more}, blobs)
        reply = answer.get()
        if "error" not in reply:
            return reply["value"]
        kind = {"ValueError": ValueError, "TypeError": TypeError}.get(reply["type"], RuntimeError)
        raise kind(reply["error"])

    def _listen(self) -> None:
        """Take what the parent sends; end this process and its children soon after the parent has gone."""
        try:
            while True:
                header, blobs = self._channel.receive()
                if header.get("do") == "take":
                    self._waiting.pop(header["number"]).put(header)
                else:
                    self.work.put((header, blobs))
        except (EOFError, OSError, FrameError, KeyError):
            self.work.put(None)
            threading.Event().wait(END_SECONDS)
            os.killpg(0, signal.SIGKILL)


class UnifiedSearchPipeline:
    """The organiser's search pipeline by proxy: the parent searches.

    Attributes:
        web_search: Whether texts can be searched for (not in task 1).
        image_search: Whether pictures can be searched for.
        image_collection: True if pictures can be searched for; the collection itself stays with the parent.
    """

    def __init__(self, parent: Parent, web: bool, images: bool) -> None:
        self._parent = parent
        self.web_search, self.image_search, self.image_collection = web, images, images

    def __call__(self, inputs: Any, k: int = 5, **_: Any) -> Any:
        """Return the k nearest results of a text, a picture, its path or URL, or its embedding; a list of results for a list.

        Raises:
            ValueError: It is none of these, or its search is off.
        """
        if isinstance(inputs, (list, tuple)):
            return [self(each, k=k) for each in inputs]
        if isinstance(inputs, str) and _is_file(inputs):
            with Image.open(inputs) as picture:
                picture.load()
                return self(picture, k=k)
        blobs: list[bytes] = []
        if isinstance(inputs, str):
            query: dict[str, Any] = {"text": inputs}
        elif isinstance(inputs, Image.Image):
            query = {"picture": pack_picture(inputs, blobs)}
        elif type(inputs).__name__ == "ndarray":
            query = {"embedding": inputs}
        else:
            raise ValueError(f"cannot search for {type(inputs).__name__}; pass a text, a picture or its embedding")
        return self._parent.ask("search", blobs, query=query, k=int(k))

    def __getattr__(self, name: str) -> Any:
        """Refuse the parts of the organiser's pipeline."""
        raise AttributeError(f"the search pipeline has no {name!r} here: the process of the evaluation searches")


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # too long for a path, or with a zero
        return False


class BaseAgent:
    """Base of agents whose repository has none."""

    def __init__(self, search_pipeline: Any = None, **_: Any) -> None:
        self.search_pipeline = search_pipeline

    def get_batch_size(self) -> int:
        """Return the number of turns of a call."""
        raise NotImplementedError("get_batch_size")

    def batch_generate_response(self, *_: Any, **__: Any) -> list[str]:
        """Answer a batch."""
        raise NotImplementedError("batch_generate_response")


def make_web_search_result(parent: Parent) -> type:
    """Return the kit's ``WebSearchResult``, whose pages the parent reads from its caches."""

    class WebSearchResult:
        """A web result that has its whole page as ``page_content``; "" if no cache has the page."""

        def __init__(self, result: dict[str, Any]) -> None:
            self.result = result

        def __getitem__(self, key: str) -> Any:
            if key == "page_content" and key not in self.result:
                self.result[key] = parent.ask("page", url=str(self.result["page_url"]))
            return self.result[key]

        def __getattr__(self, key: str) -> Any:
            if key.startswith("__") or key == "result":  # asked by copy and pickle before there is a result
                raise AttributeError(key)
            return self[key]

        def get(self, key: str, default: Any = None) -> Any:
            """Return a value of the result, or the default."""
            try:
                return self[key]
            except KeyError:
                return default

        def __contains__(self, key: object) -> bool:
            return key == "page_content" or key in self.result

        def __len__(self) -> int:
            return len(self.result)

        def __iter__(self) -> Iterator[str]:
            return iter(self.result)

        def __repr__(self) -> str:
            return repr(self.result)

    return WebSearchResult


def _refuse(name: str) -> type:
    """Return a stand-in for a part of the kit that its evaluator uses, not its agents."""

    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError(f"{name} of the starter kit is not offered: the evaluation itself reads the data set")

    return type(name, (), {"__init__": refuse, "load_image": staticmethod(refuse)})


def offer_modules(parent: Parent) -> dict[str, dict[str, Any]]:
    """Return the modules of both releases that agents import, by name, with what they define."""
    pages = {"WebSearchResult": make_web_search_result(parent)}
    batches = {name: _refuse(name) for name in ("CRAGTurnBatchIterator", "ImageLoader")}
    loader = {"ImageLoader": batches["ImageLoader"]}
    refused = (
        "display_results",
        "download_image_url",
        "ensure_crag_cache_dir_is_configured",
        "parse_jsonl_to_dict",
        "resize_image_if_needed",
    )
    tools: dict[str, Any] = {
        "is_url": lambda text: str(text).startswith(("http://", "https://")),
        **{name: _refuse(name) for name in refused},
    }
    base = {"BaseAgent": BaseAgent, "Message": dict, "Messages": list}
    return {
        "agents": {},
        "agents.base_agent": base,
        "example_agents": {},
        "example_agents.base_agent": base,
        "crag_web_result_fetcher": pages,
        "crag_batch_iterator": batches,
        "crag_image_loader": loader,
        "utils": tools,
        "utils.utils": tools,
        "utils.crag_web_result_fetcher": pages,
        "utils.crag_batch_iterator": batches,
        "utils.crag_image_loader": loader,
        "cragmm_search": {},
        "cragmm_search.search": {"UnifiedSearchPipeline": UnifiedSearchPipeline},
    }


class _Hide(importlib.abc.MetaPathFinder):
    """Finds modules that this project has too: those of the agent's repository or libraries, never ours."""

    def __init__(self, offer: _Offer) -> None:
        self._offer = offer

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:  # noqa: ARG002 - the interface
        if path is not None or name not in OURS:
            return None
        elsewhere = [each for each in sys.path if not _is_ours(each)]
        spec = importlib.machinery.PathFinder.find_spec(name, elsewhere) or self._offer.find_spec(name)
        if spec is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return spec


def _is_ours(folder: str | Path) -> bool:
    """Return whether this project is installed in a folder, or is a checkout of it."""
    return Path(folder, "agents", "settings", "run_config.py").is_file()


class _Offer(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the kit's modules that nothing else has."""

    def __init__(self, modules: Mapping[str, Mapping[str, Any]]) -> None:
        self._modules = modules

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:  # noqa: ARG002 - the interface
        if name not in self._modules:
            return None
        package = any(other.startswith(f"{name}.") for other in self._modules)
        return importlib.machinery.ModuleSpec(name, self, is_package=package)

    def exec_module(self, module: ModuleType) -> None:
        """Fill a module."""
        vars(module).update(self._modules[module.__name__])


def prepare_imports(root: Path, modules: Mapping[str, Mapping[str, Any]]) -> None:
    """Let the agent's repository be looked in first, this project never, and the kit's modules be found at last."""
    own = Path(__file__).resolve().parent  # Python puts the folder of a script first
    sys.path[:] = [str(root), *(each for each in sys.path if Path(each).resolve() not in (root, own))]
    offer = _Offer(modules)
    sys.meta_path.append(offer)
    if not _is_ours(root):
        sys.meta_path.insert(0, _Hide(offer))


def load_agent(start: Mapping[str, Any], parent: Parent) -> Any:
    """Import and build the agent as its release builds it.

    Args:
        start: ``agent`` ("module:attribute") and ``options``, the arguments of the release, or ``search`` for the pipeline.
        parent: Searches.

    Raises:
        Exception: Whatever the agent raises.
    """
    module, _, attribute = start["agent"].partition(":")
    agent_class = operator.attrgetter(attribute)(importlib.import_module(module))
    options = dict(start["options"])
    if isinstance(agent_class, Mapping):  # the research release's map: the first key that is part of the model's name
        name = str(options.get("model_name", "")).lower()
        agent_class = next((agent for key, agent in agent_class.items() if key in name), None)
        if agent_class is None:
            raise LookupError(f"{start['agent']} has no key that is part of {name!r}")
    if "search" in start:
        search = start["search"]
        options["search_pipeline"] = None if search is None else UnifiedSearchPipeline(parent, **search)
    return agent_class(**options)


def answer(agent: Any, request: Mapping[str, Any], blobs: Sequence[bytes]) -> dict[str, Any]:
    """Return what the agent returns for a batch; for a value that is no text its type."""
    images = [None if each is None else unpack_picture(each, blobs) for each in request["images"]]
    more = request["more"]
    returned = agent.batch_generate_response(request["queries"], images, request["histories"], **more)
    if not isinstance(returned, (list, tuple)):
        return {"returned": type(returned).__name__}
    return {
        "answers": [
            {"text": str(each)} if isinstance(each, str) else {"type": type(each).__name__} for each in returned
        ]
    }


def watch(agent: Any) -> Callable[[], dict[str, list[str]]]:
    """Return the function that says what an agent derived from our own could not do: what failed to load, stages that got no time."""
    if not any(base.__module__ == "agents.crag_agent" for base in type(agent).__mro__):
        return dict
    records: list[dict[str, Any]] = []
    agent.trace_to(None, records.extend)

    def report() -> dict[str, list[str]]:
        stages = [stage for record in records for stage in record["stages"]]
        cut = {
            each["stage"]
            for each in stages
            if each["status"] not in ("ran", "reduced") and each.get("cause") in ("time", "hanging")
        }
        failures = agent.warm_up().failures  # it has warmed up, and only says how
        return {"failures": [f"{step.name}: {step.error}" for step in failures], "cut": sorted(cut)}

    return report


def block_network() -> list[str]:
    """Refuse every connection of this process from now on, for good, but those to sockets of this machine's files.

    Returns:
        The connections that were tried; the list grows with each.
    """
    tried: list[str] = []

    def hook(event: str, details: tuple[Any, ...]) -> None:
        if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
            address = details[event in ("socket.connect", "socket.sendto")]
            if event != "socket.connect" or not isinstance(address, (str, bytes)):
                tried.append(f"{event[len('socket.') :]} {address}")
                raise OSError(f"the network is blocked: {address}")

    sys.addaudithook(hook)
    return tried


def limit_memory(size: int) -> None:
    """Limit the memory that this process and each of its children may take.

    Raises:
        RuntimeError: The platform has no such limit.
    """
    try:
        import resource

        # Not the address space, of which CUDA reserves far more than it takes.
        resource.setrlimit(resource.RLIMIT_DATA, (size, size))
    except (ImportError, OSError, ValueError) as error:
        raise RuntimeError(f"this platform cannot limit the memory of a process: {error}") from error


def explain(error: BaseException) -> dict[str, str]:
    """Return an error in a line and the end of its traceback without the frames of this file; write all of it to the log."""
    traceback.print_exception(type(error), error, error.__traceback__)
    own = error.__traceback__
    while own is not None and own.tb_frame.f_code.co_filename == __file__:
        own = own.tb_next
    lines = traceback.format_exception(type(error), error, own)
    return {"error": f"{type(error).__name__}: {error}", "traceback": "".join(lines)[-MAX_TRACEBACK:]}


def main(descriptor: int) -> None:
    """Do what comes over a socket until its other end is closed."""
    faulthandler.enable()
    root = Path.cwd().resolve()
    parent = Parent(Channel(socket.socket(fileno=descriptor)))
    prepare_imports(root, offer_modules(parent))
    agent: Any = None
    tried: list[str] = []
    look_inside: Callable[[], dict[str, list[str]]] = dict
    while (work := parent.work.get()) is not None:
        request, blobs = work
        try:
            faulthandler.dump_traceback_later(request["seconds"])  # the log shows where an agent hangs
            if request["do"] == "start":
                if request["offline"]:
                    tried = block_network()
                if request["memory"] is not None:
                    limit_memory(request["memory"])
                agent = load_agent(request, parent)
                look_inside = watch(agent) if request["offline"] else look_inside
                reply: dict[str, Any] = {"batch_size": int(agent.get_batch_size())}
            else:
                reply = answer(agent, request, blobs)
            reply["inside"] = look_inside()
        except Exception as error:  # noqa: BLE001 - an agent raises anything, and may answer the next batch
            reply = explain(error)
        finally:
            faulthandler.cancel_dump_traceback_later()
        parent.say(said="done", connections=tried, **reply)


if __name__ == "__main__":
    main(int(sys.argv[1]))
