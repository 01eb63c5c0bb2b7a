"""How a server is asked can be said on every command that asks one, in place of what the profile says."""

from __future__ import annotations

from typing import Any

import pytest

from agents.base.command_options import Options
from agents.settings.run_config import RunConfig
from agents.settings.shared_options import ModelOptions
from apps.crag import COMMANDS

FLAGS = [
    "--max-connections",
    "2",
    "--max-retries",
    "0",
    "--max-wait",
    "90",
    "--reasoning-tokens",
    "500",
    "--boxes",
    "pixels",
]
OPTIONS = {"concurrency": 2, "attempts": 1, "max_wait": 90.0, "reasoning_tokens": 500, "boxes": "pixels"}


def test_flags_become_options_of_every_model_behind_a_server() -> None:
    options = ModelOptions.parse(FLAGS).server
    assert options == OPTIONS
    models = RunConfig.of_profile("server_embedded", server=options).profile.models
    assert all(models[role].items() >= OPTIONS.items() for role in ("chat", "small_chat"))
    assert "max_wait" not in models["reranker"]


def test_what_is_not_given_is_left_to_the_profile() -> None:
    assert ModelOptions.parse([]).server == {}
    assert ModelOptions.parse(["--max-wait", "0"]).server == {"max_wait": 0.0}


@pytest.mark.parametrize("name", ["ask", "web", "serve", "run", "compare", "ablate", "preflight", "probe"])
def test_every_command_that_asks_a_server_has_them(name: str) -> None:
    (command,) = [each for each in COMMANDS if each.name == name]
    options: type[Options] = getattr(command.load(), command.options)
    assert issubclass(options, ModelOptions)


@pytest.mark.parametrize(
    "wrong", [["--max-connections", "0"], ["--max-wait", "nan"], ["--reasoning-tokens", "-1"], ["--boxes", "xyxy"]]
)
def test_a_number_that_makes_no_sense_is_told(wrong: list[str], capsys: pytest.CaptureFixture[Any]) -> None:
    with pytest.raises(SystemExit):
        ModelOptions.parse(wrong)
    assert wrong[0] in capsys.readouterr().err
