"""Judgements on disk, one small file each, named by what was judged: a killed judging run loses none."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

from evaluation.judge.judging import Verdict


class JudgeCache:
    """Verdicts by the content of the request that led to them; safe to use from several threads and processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @staticmethod
    def key(request: dict[str, Any]) -> str:
        """The SHA-256 of a request: model, style, messages and sampling settings."""
        return hashlib.sha256(json.dumps(request, sort_keys=True, ensure_ascii=False).encode()).hexdigest()

    def get(self, key: str) -> Verdict | None:
        """The verdict of a request, or None where it was not judged yet or its file is not readable."""
        try:
            saved = json.loads(self._path(key).read_text(encoding="utf-8"))
            return Verdict(bool(saved["correct"]), str(saved["reason"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, key: str, verdict: Verdict) -> None:
        """Keep a verdict."""
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.part")
        part.write_text(json.dumps(asdict(verdict), ensure_ascii=False), encoding="utf-8")
        part.replace(path)  # a reader sees the whole file or none

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"
