"""A process of its own for test_network: under every profile in turn the public data set is asked for, then a local copy is answered.

Usage: python -m tests.evaluation.every_profile_run FOLDER, with HF_ENDPOINT set to a hub; prints a JSON object by profile.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image
from rich.console import Console

from agents.base_agent import Message
from agents.settings.run_config import profile_names
from evaluation.run.command import main
from tests.evaluation.worlds import ScriptedAgent

NO_SEARCH = ["--suppress-web-search-api", "--suppress-image-search-api"]


class Looking(ScriptedAgent):
    """Agent that notes the size of each picture it gets, None for none."""

    def __init__(self) -> None:
        super().__init__(lambda *_: "I don't know")
        self.seen: list[tuple[int, int] | None] = []

    def batch_generate_response(
        self,
        queries: Sequence[str],
        images: Sequence[Image.Image | None],
        message_histories: Sequence[Sequence[Message]] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        self.seen += [image and image.size for image in images]
        return super().batch_generate_response(queries, images, message_histories, **kwargs)


def run(profile: str, folder: Path) -> dict[str, Any]:
    """Return exit statuses and pictures; a request for the public set has the profile as its revision."""
    options = ["--profile", profile, "--eval-model", "rule", "--no_progress", "--no-report", *NO_SEARCH]
    options += ["--cache", str(folder / "caches" / profile), "--output-dir", str(folder / "results" / profile)]
    console = Console(file=sys.stderr, width=400)
    agent = Looking()
    public = main(["--dataset-type", "single-turn", "--split", "validation", "--revision", profile, *options], console)
    local = ["--dataset-type", "multi-turn", "--dataset", str(folder), *options]
    copied = main(local, console, build=lambda *_, **__: agent)
    return {"public": public, "local": copied, "seen": agent.seen}


if __name__ == "__main__":
    print(json.dumps({profile: run(profile, Path(sys.argv[1])) for profile in profile_names()}))
