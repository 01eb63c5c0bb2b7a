"""Probe the abilities of a model behind a server: ``crag probe --base-url URL --model-name NAME`` (docs/models.md)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from pydantic import Field
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from agents.base.command_options import Flag
from agents.base.console import SafeConsole
from agents.base.files import one_line
from agents.models.base import ModelError
from agents.profiles.profile import SettingsError
from agents.profiles.reach import probe_profile
from agents.settings.run_config import RunConfig, profile_names
from agents.settings.shared_options import JsonOptions, ModelOptions, print_json

if TYPE_CHECKING:
    from agents.models.chat.openai_probe import Probe

_WIDTH = 130  # characters of the table
_VERDICTS = {True: ("yes", "green"), False: ("no", "red"), None: ("unknown", "yellow")}


class ProbeOptions(ModelOptions, JsonOptions):
    """Probe the abilities of a model behind a server in a few small requests.

    The status is 0 if the profile can use it, 1 if not, 2 if it does not answer.
    """

    group = "questions"

    profile: Annotated[str, Flag(metavar="NAME", suggested=tuple(profile_names()))] = Field(
        "server_embedded", description="profile of the chat model, by name or by the path of a .toml file"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Probe the server and print its abilities.

    Returns:
        0; 1 if the profile cannot use the model; 2 if there is no reply or the command line is wrong.
    """
    options = ProbeOptions.parse(arguments)
    try:
        config = RunConfig.of_profile(
            options.profile, chat_model=options.model_name, base_url=options.base_url, server=options.server
        )
        probe = probe_profile(config.profile)
    except (ModelError, SettingsError) as error:
        SafeConsole(stderr=True).print(f"error: {one_line(error)}", style="red", markup=False, soft_wrap=True)
        return 2
    if options.as_json:
        print_json({**asdict(probe), "fault": probe.fault})
    else:
        show(probe, SafeConsole(width=_WIDTH))
    return int(probe.fault is not None)


def show(probe: Probe, console: Console) -> None:
    """Print the findings as a table."""
    table = Table(title=escape(f"{probe.model} at {probe.address}"), title_justify="left")
    for column in ("what", "can it?", "found", "what to do"):
        table.add_column(column, overflow="fold")
    for each in probe.findings:
        verdict, colour = _VERDICTS[each.can]
        # a server's words are no markup: "[/INST]" would be a closing tag
        table.add_row(Text(each.name), Text(verdict, colour), Text(each.detail), Text(each.cure))
    console.print(table)
    console.print(f"{probe.requests} requests, {probe.seconds:.1f} s", style="dim")
    if probe.fault is not None:
        console.print(f"cannot be used: {probe.fault}", style="red", markup=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
