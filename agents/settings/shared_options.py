"""Options that commands of several packages have in common, and how those with ``--json`` print it."""

from __future__ import annotations

import codecs
import json
import sys
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from agents.base.box_forms import BoxForm
from agents.base.command_options import Flag, Options
from agents.base.files import well_formed
from agents.base.printing import print_text


class ModelOptions(Options):
    """Which model takes the place of a profile's, and how its server is asked (``Profile.with_chat_model``, ``with_server_options``)."""

    group = "the model"

    model_name: Annotated[str | None, Flag(metavar="ID_OR_PATH")] = Field(
        None, description="weights, or model of a server, in place of those of the profile's chat model"
    )
    base_url: Annotated[str | None, Flag(metavar="URL")] = Field(
        None,
        description="root of an OpenAI-compatible API, such as http://localhost:8000/v1, for a profile with a server; default: that of "
        "the profile, then $OPENAI_BASE_URL, then OpenAI's",
    )

    max_connections: Annotated[int | None, Flag(metavar="N")] = Field(
        None, ge=1, description="maximum number of simultaneous requests to the server; default: the profile's, or 8"
    )
    max_retries: Annotated[int | None, Flag(metavar="N")] = Field(
        None,
        ge=0,
        description="maximum number of retries after a failure, besides those that a busy server asks for (Retry-After); "
        "default: the profile's, or 3",
    )
    max_wait: Annotated[float | None, Flag(metavar="SECONDS")] = Field(
        None,
        ge=0,
        allow_inf_nan=False,
        description="maximum seconds that a request waits for a busy server (Retry-After), within the time for the "
        "answer; default: the profile's, or 60",
    )
    reasoning_tokens: Annotated[int | None, Flag(metavar="N")] = Field(
        None,
        ge=0,
        description="tokens per reply for the thoughts of a reasoning model, in addition to the reply's own; default: the profile's, "
        "or 0",
    )

    boxes: BoxForm | None = Field(
        None,
        description="number format of the model's boxes in a photo (docs/models.md); default: the profile's, or none",
    )

    @property
    def server(self) -> dict[str, Any]:
        """Options of models behind a server that take the place of the profile's."""
        options = {
            "concurrency": self.max_connections,
            "attempts": None if self.max_retries is None else self.max_retries + 1,
            "max_wait": self.max_wait,
            "reasoning_tokens": self.reasoning_tokens,
            "boxes": self.boxes,
        }
        return {name: value for name, value in options.items() if value is not None}


class ProbedModelOptions(ModelOptions):
    """``ModelOptions`` of commands that ask the server what it supports before they use it."""

    no_probe: bool = Field(False, description="skip the test of the server's features before the first question")


class JsonOptions(Options):
    """For commands whose output programs read."""

    as_json: Annotated[bool, Flag(names=("--json",))] = Field(
        False, description="print only JSON to standard output, and messages to standard error"
    )


def print_json(content: Mapping[str, Any]) -> None:
    """Print JSON for programs on standard output: as UTF-8, or escaped to ASCII if the locale has another encoding."""
    is_utf8 = codecs.lookup(sys.stdout.encoding or "ascii").name == "utf-8"
    print_text(well_formed(json.dumps(content, indent=2, ensure_ascii=not is_utf8)))
