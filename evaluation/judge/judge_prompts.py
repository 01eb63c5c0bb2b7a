"""Prompts of the judges: Jinja2 templates in ``prompts/judge``, with a front matter and a section for each message."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import StrictUndefined
from jinja2.sandbox import SandboxedEnvironment

from agents.runtime.files import read_front_matter
from evaluation.records import JudgeError

PROMPTS = Path(__file__).resolve().parents[2] / "prompts" / "judge"
_SECTION = re.compile(r"^=== (system|user)[ \t]*\n", re.MULTILINE)


@dataclass(frozen=True)
class JudgePrompt:
    """Role and text of each message, with placeholders, and how the reply is to be generated, in parameters of the API."""

    sections: tuple[tuple[str, str], ...]
    settings: Mapping[str, Any]
    words = "our words"

    def render(self, **values: object) -> list[dict[str, str]]:
        """Chat messages; the values are filled in after the template was cut into sections (jinja2.UndefinedError: one is missing)."""
        environment = SandboxedEnvironment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
        return [
            {"role": role, "content": environment.from_string(body).render(**values).strip()}
            for role, body in self.sections
        ]


def load_prompt(name: str) -> JudgePrompt:
    """The template ``name`` (without ``.j2``); JudgeError where it is malformed or asks nothing, OSError where it cannot be read."""
    path = PROMPTS / f"{name}.j2"
    try:
        post = read_front_matter(path)
    except ValueError as error:
        raise JudgeError(f"prompt template {error}") from error
    pieces = _SECTION.split(post.content + "\n")
    sections = tuple(zip(pieces[1::2], pieces[2::2], strict=True))
    if not sections:
        raise JudgeError(f"prompt template {path} has no '=== user' line: there is nothing to ask")
    return JudgePrompt(sections, _parameters(dict(post.metadata)))


def _parameters(settings: dict[str, Any]) -> dict[str, Any]:
    """A front matter in parameters of the API: a schema in the form in which the openai library sends a class, under its title."""
    schema = settings.pop("schema", None)
    if schema is None:
        return settings
    strict = {"schema": schema, "name": schema["title"], "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": strict}, "stream": False, **settings}
