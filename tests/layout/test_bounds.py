"""What strangers send is read and printed through functions with bounds: everything else that does so is listed here with its reason.

A call that is not listed fails the test, and so does an entry that is no longer needed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("agents", "apps", "evaluation", "training")

KINDS: Mapping[str, set[str]] = {
    "print": {
        *("print", "rich.print", "rich.console.Console", "logging.basicConfig", "logging.StreamHandler"),
        *("sys.stdout.write", "sys.stderr.write"),
    },
    "decode": {"PIL.Image.open"},
    "parse": {
        "json.load",
        "json.loads",
        ".model_validate_json",
        ".validate_json",
        "pdfplumber.open",
        "pypdfium2.PdfDocument",
        "python_calamine.load_workbook",
        "trafilatura.extract",
    },
    "network": {
        *(f"httpx.{name}" for name in ("get", "post", "head", "stream", "request", "Client", "AsyncClient")),
        *(
            "urllib.request.urlopen",
            "httpcore.ConnectionPool",
            "openai.OpenAI",
            "openai.AsyncOpenAI",
            "socket.create_connection",
        ),
    },
    "walk": {".rglob", "os.walk"},
}

OWN = "a file that this program or its developers wrote"
OWN_PROCESS = "lines of a process that this program started"
CHECKPOINT = "a checkpoint that the user chose"
INDEX = "rows of an index that the user chose"
REPLY = "a reply of the model's server that the user chose, within its time"

ALLOWED: Mapping[str, Mapping[str, str]] = {
    "print": {
        "agents/base/printing.py": "the function itself",
        "apps/preflight/agent_import.py": "JSON for the process that started it",
    },
    "decode": {
        "agents/models/picture_files.py": "the function itself: bytes, pixels, reads and seconds are bounded",
        "evaluation/data/dataset_images.py": "pictures of the organiser's data set",
        "evaluation/data/question_files.py": "the header of a user's own photo",
        "evaluation/report/served_report.py": OWN,
        "evaluation/run/agent_child.py": "a picture that an agent names, in the agent's own process",
        "training/chat_examples.py": OWN,
    },
    "parse": {
        "agents/base/files.py": "the function itself: depth and size of numbers are bounded",
        "agents/base/linear_head.py": OWN,
        "agents/models/chat/gguf_checkpoint.py": CHECKPOINT,
        "agents/models/chat/error_bodies.py": REPLY,
        "agents/models/chat/openai_chat.py": REPLY,
        "agents/models/chat/openai_probe.py": REPLY,
        "agents/models/pretrained.py": CHECKPOINT,
        "agents/runner/trace.py": "lines that this program has just written",
        "agents/search/document_process.py": "a line of the process that started it",
        "agents/search/index_sources.py": "files of the organiser's form that the user names",
        "agents/search/pages/page_text.py": "a page within limits of tags, in own_sources and page_reader",
        "agents/search/documents/sheets.py": "the function itself, in document_process: bytes, cells, seconds and memory are bounded",
        "agents/search/documents/raw_text.py": "what a reader read before, in document_process: its bounds hold",
        "agents/search/documents/pdf.py": "the function itself, in document_process: bytes, pages, seconds and memory are bounded",
        "agents/search/retrieved.py": INDEX,
        "agents/time_limits/subprocess_worker.py": "a line of the process that started it",
        "apps/preflight/image.py": OWN,
        "apps/preflight/rehearsal.py": OWN_PROCESS,
        "apps/preflight/repository.py": OWN_PROCESS,
        "apps/preflight/submission.py": OWN,
        "evaluation/data/crag_dataset.py": "rows of the organiser's data set",
        "evaluation/files/manifest.py": OWN,
        "evaluation/judge/local_judge.py": OWN,
        "evaluation/run/agent_child.py": OWN_PROCESS,
        "training/fit.py": OWN,
        "training/merge.py": CHECKPOINT,
    },
    "network": {
        "agents/search/pages/fetching.py": "the function itself: bytes, seconds, redirects and addresses are bounded",
        "agents/base/cluster.py": "whether a port answers: nothing is read",
        "agents/base/hub_reach.py": "headers alone, within seconds",
        "agents/models/chat/gguf.py": "headers alone, within seconds",
        "agents/models/chat/server_connection.py": REPLY,
        "evaluation/data/dataset_images.py": "bytes and seconds are bounded",
    },
    "walk": {
        "agents/search/collection.py": "the function itself: what leads out of the folder is left out",
        "agents/search/index_builder.py": "an index, which this program wrote",
        "agents/search/kept_readings.py": "this program's own code",
        "apps/preflight/image.py": "a checkout in a new folder",
        "evaluation/judge/organiser_prompt.py": "a checkout that the user names",
    },
}


def list_calls(file: Path) -> Iterator[tuple[str, int]]:
    """The calls of a module with their lines: functions by their full name, methods also by a point and their name."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {each.asname: each.name for each in node.names if each.asname}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            first, point, rest = name.partition(".")
            yield f"{names.get(first, first)}{point}{rest}", node.lineno
            if point:
                yield f".{name.rpartition('.')[2]}", node.lineno


@cache
def list_all_calls() -> Mapping[str, list[tuple[str, int]]]:
    """Return the calls of each module by its path from the root, read once for all kinds."""
    files = [file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]
    return {file.relative_to(ROOT).as_posix(): [*list_calls(file)] for file in files}


@pytest.mark.parametrize("kind", KINDS)
def test_everything_goes_through_a_function_with_a_bound(kind: str) -> None:
    found: dict[str, list[str]] = {}
    for name, calls in list_all_calls().items():
        for call, line in calls:
            if call in KINDS[kind]:
                found.setdefault(name, []).append(f"{name}:{line} {call}")
    assert [calls for name, calls in found.items() if name not in ALLOWED[kind]] == [], "see what this module says"
    assert set(ALLOWED[kind]) - set(found) == set(), "these entries are no longer needed"
