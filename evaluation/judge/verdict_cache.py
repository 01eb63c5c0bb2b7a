"""Judgements on disk, one small file each, named by what was judged: a killed judging run loses none."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from evaluation.records import Verdict


class VerdictCache:
    """Verdicts by the content of the request that led to them; safe to use from several threads and processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, request: Mapping[str, Any]) -> Verdict | None:
        """The verdict of a request, or None where it was not judged yet or its file is not readable."""
        try:
            saved = json.loads(self._path(request).read_text(encoding="utf-8"))
            read, written = saved.get("tokens", (0, 0))
            return Verdict(bool(saved["correct"]), str(saved["reason"]), tokens=(int(read), int(written)))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, request: Mapping[str, Any], verdict: Verdict) -> None:
        """Keep a verdict."""
        path = self._path(request)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.part")
        part.write_text(json.dumps(asdict(verdict), ensure_ascii=False), encoding="utf-8")
        part.replace(path)  # a reader sees the whole file or none

    def _path(self, request: Mapping[str, Any]) -> Path:
        """By the SHA-256 of the request: model, style, messages and sampling settings."""
        key = hashlib.sha256(json.dumps(request, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
        return self._folder / key[:2] / f"{key}.json"
