"""Whether the chat model sees is a fact of its profile, and every preset asks a model that sees as one that sees."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from agents.asking.prompts import PromptError, PromptLibrary
from agents.models.base import ChatRequest
from agents.profiles.profile import load_profile
from agents.settings.run_config import RunConfig, preset_names, profile_names
from agents.settings.stage_needs import create_stages
from agents.turn import Evidence

BLIND = ["embedded", "embedded_batch", "embedded_smollm2"]
SEEING = [name for name in profile_names() if name not in BLIND]
TALL = Evidence("The tower is 330 m high.", "web", "Eiffel Tower")
TURN: dict[str, Any] = {"question": "How tall?", "history": (), "entity": "Eiffel Tower", "answer": "330 m"}

_FORBIDS = re.compile(r"\b(?:information|evidence|it|they) do(?:es)? not answer\b")
"""What a prompt says that refuses whatever the evidence does not hold, though the photo may show it."""
_FROM_SOURCES_ALONE = {
    "cited_answer",  # MAVIS: each sentence has to cite a document
    "cited_answer_reasoned",
    "entry_answer",  # CoRe-MMRAG, step 3: what the reference says, beside an answer of the model's own
    "entries_answer",  # its 1-Stage and Oracle: the same of all entries at once
}


def answering_prompts(config: RunConfig) -> set[str]:
    stages = [stage for stage in create_stages(config.settings) if "candidate" in stage.fills]
    return {ask.prompt for stage in stages for ask in stage.list_asks()} - _FROM_SOURCES_ALONE


def read_template(config: RunConfig, name: str) -> str:
    return config.prompts[name].path.read_text(encoding="utf-8")


def test_a_profile_says_whether_its_chat_model_sees(tmp_path: Path) -> None:
    assert [name for name in profile_names() if not load_profile(name).sees] == BLIND
    (tmp_path / "told.toml").write_text('sees = false\n[models.chat]\nkind = "own.module:Chat"\n')
    (tmp_path / "like_it.toml").write_text('extends = "told"\n')
    (tmp_path / "other_chat.toml").write_text('extends = "told"\n[models.chat]\nkind = "vllm"\npath = "a/b"\n')
    assert [load_profile(name, tmp_path).sees for name in ("told", "like_it", "other_chat")] == [False, False, True]
    profile = load_profile("told", tmp_path)
    assert type(profile).model_validate_json(profile.model_dump_json()).sees is False


@pytest.mark.parametrize("profile", SEEING)
@pytest.mark.parametrize("preset", preset_names())
def test_no_answering_prompt_forbids_a_model_that_sees_to_answer_from_the_picture(preset: str, profile: str) -> None:
    config = RunConfig.read(preset, profile)
    assert [name for name in answering_prompts(config) if _FORBIDS.search(read_template(config, name))] == []


@pytest.mark.parametrize("profile", BLIND)
@pytest.mark.parametrize("preset", preset_names())
def test_a_blind_model_is_asked_by_the_templates_that_are_named(preset: str, profile: str) -> None:
    config = RunConfig.read(preset, profile)
    names = {ask.prompt for stage in create_stages(config.settings) for ask in stage.list_asks()}
    assert {name: config.prompts[name].path.stem for name in names} == {name: name for name in names}
    assert _FORBIDS.search(read_template(config, "answer_with_evidence")), "what it was told of the photo is uncertain"


def build_request(config: RunConfig, name: str, evidence: tuple[Evidence, ...]) -> ChatRequest:
    return config.prompts[name].request(**TURN, evidence=evidence)


@pytest.mark.parametrize("profile", BLIND)
def test_a_verdict_in_the_answers_conversation_begins_with_its_messages(profile: str) -> None:
    """An engine with a prefix cache reads photo and evidence once for both."""
    config = RunConfig.read("best", profile)
    answer, verify = config.settings.answer, config.settings.verify  # type: ignore[attr-defined]
    pairs = [
        (answer.prompt, verify.prompt, (TALL,)),
        (answer.prompt_without_evidence, verify.prompt_without_evidence or verify.prompt, ()),
    ]
    for asking, judging, evidence in pairs:
        messages = build_request(config, asking, evidence).messages
        assert build_request(config, judging, evidence).messages[: len(messages)] == messages


def test_a_variant_takes_the_place_of_a_template_with_the_limit_that_was_set_for_it(tmp_path: Path) -> None:
    (tmp_path / "plain.j2").write_text("---\nmax_tokens: 52\nseen: sharp\n---\n=== user\nfrom the information\n")
    (tmp_path / "sharp.j2").write_text("---\nmax_tokens: 64\n---\n=== user\nfrom the photo\n")
    (tmp_path / "lost.j2").write_text("---\nseen: gone\n---\n=== user\nx\n")
    blind, sees = PromptLibrary(tmp_path), PromptLibrary(tmp_path, sees=True)
    requests = [library["plain"].request() for library in (blind, sees)]
    assert [(each.messages[0].content, each.max_tokens) for each in requests] == [
        ("from the information", 52),
        ("from the photo", 64),
    ]
    limited = PromptLibrary(tmp_path, {"plain": 7}, sees=True)
    assert (limited["plain"].request().max_tokens, limited["sharp"].request().max_tokens) == (7, 64)
    with pytest.raises(PromptError, match="gone"):
        sees["lost"]
