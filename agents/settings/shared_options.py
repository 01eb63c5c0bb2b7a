"""Options that commands of several packages have in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from agents.base.command_options import Flag, Options


class ModelOptions(Options):
    """Which model takes the place of a profile's (``Profile.with_chat_model``, ``Profile.with_server``)."""

    group = "the model"

    model_name: Annotated[str | None, Flag(metavar="ID_OR_PATH")] = Field(
        None, description="weights, or model of a server, in place of those of the profile's chat model"
    )
    base_url: Annotated[str | None, Flag(metavar="URL")] = Field(
        None,
        description="root of an OpenAI-compatible API, such as http://localhost:8000/v1, for a profile with a server; not given: that of "
        "the profile, else $OPENAI_BASE_URL, else OpenAI's own",
    )


class JsonOptions(Options):
    """For commands whose output programs read."""

    as_json: Annotated[bool, Flag(names=("--json",))] = Field(
        False, description="print JSON alone on standard output; everything else goes to standard error"
    )
