"""Replies that Qwen2.5-Coder-1.5B-Instruct, the embedded profile's model, really gave, read by the parsers of the stages.

``real_replies.jsonl`` holds each with what is to be read, written by hand. More are collected by
``python -m lab.benchmarks.readable_replies --replies FILE``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agents.asking.ask import ReplyForm, read
from agents.asking.prompts import PromptLibrary
from agents.models.base import ChatReply
from agents.profiles.profile import PROMPTS
from agents.settings.run_config import RunConfig, preset_names
from agents.settings.stage_needs import create_stages
from agents.stage import stage_class, stage_names
from tests.support.read_replies import as_json

CORPUS = [
    json.loads(line) for line in Path(__file__).with_name("real_replies.jsonl").read_text(encoding="utf-8").splitlines()
]
PICTURE_DESCRIPTION = "image_in_words"  # shown to a model, never replied to


def _forms() -> dict[str, ReplyForm[Any]]:
    """The form of reply of each prompt, as the stages of all presets ask for it, and with the options that no preset sets."""
    configs = (RunConfig.read(preset, profile) for preset in preset_names() for profile in ("gpu", "embedded"))
    stages = [stage for config in configs for stage in create_stages(config.settings)]
    for name in stage_names():
        kind = stage_class(name)
        for option, value in (
            ("by", "model"),
            ("flags", "model"),
            ("split", "model"),
            ("rewrite", "model"),
            ("method", "chain_of_thought"),
        ):
            if option in kind.Options.model_fields:
                stages.append(kind(kind.Options.model_validate({option: value})))
    return {ask.prompt: ask.form for stage in stages for ask in stage.list_asks()}


FORMS = _forms()


@pytest.mark.parametrize("line", CORPUS, ids=lambda line: f"{line['prompt']}: {line['reply'][:30]!r}")
def test_what_a_model_really_said_is_read(line: dict[str, Any]) -> None:
    answer = read(FORMS[line["prompt"]], ChatReply(line["reply"], line["finish"]))
    assert answer.readable is line.get("readable", line["read"] is not None)
    assert (as_json(answer.value) if answer.readable else None) == line["read"]


def test_every_prompt_is_asked_by_a_stage_that_says_how_its_reply_is_read() -> None:
    library = PromptLibrary(PROMPTS)
    variants = {library[name].settings.seen for name in FORMS} - {None}  # stand in for others where the model sees
    assert set(FORMS) | variants == {path.stem for path in PROMPTS.glob("*.j2")} - {
        PICTURE_DESCRIPTION,
    }
