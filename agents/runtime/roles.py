"""Which model roles the stages of a preset can ask for: what has to be in memory, and in ``aicrowd.json``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agents.prompts import PromptLibrary
from agents.settings import Settings, StageName

Names = Callable[[Settings], tuple[str, ...]]


def _when(condition: bool, *names: str) -> tuple[str, ...]:
    return names if condition else ()


PROMPTS_OF: Mapping[StageName, Names] = {
    "understand": lambda s: _when(s.understand.rewrite == "model", "standalone_question"),
    "draft": lambda _: ("draft",),
    "route": lambda s: _when(s.route.flags == "model", "query_flags"),
    "summarise": lambda _: ("image_summary",),
    "tools": lambda s: _when(s.tools.by == "model", "tool_router"),
    "objects": lambda s: _when(s.objects.by == "model", "object_list", "object_choice"),
    "select_entity": lambda s: _when(s.select_entity.by == "model", "entity_selection"),
    "queries": lambda s: _when(s.queries.split == "model", s.queries.prompt),
    "four_steps": lambda _: ("four_steps",),
    "parametric_answer": lambda _: ("parametric_answer",),
    "choose_entry": lambda s: _when(s.choose_entry.by == "model", "entry_choice"),
    "entry_answer": lambda _: ("entry_answer",),
    "answer": lambda s: (s.answer.prompt, s.answer.prompt_without_evidence),
    "dual_answer": lambda s: (s.answer.prompt, s.answer.prompt_without_evidence),
    "knowledge": lambda _: ("knowledge_extraction",),
    "cited_answer": lambda s: ("cited_answer" if s.cited_answer.method == "vanilla" else "cited_answer_reasoned",),
    "reconcile": lambda s: _when(s.reconcile.by == "model", "reconcile"),
    "verify": lambda s: _when(s.verify.model, s.verify.prompt),
    "consistency": lambda s: _when(s.consistency.by == "model", "consistency_judge"),
    "chain_of_verification": lambda s: _when(s.chain_of_verification.by == "model", "chain_of_verification"),
}
"""Prompts of the stages that ask a chat model; the front matter of a prompt names the role that reads it."""

MODELS_OF: Mapping[StageName, Names] = {
    "domain": lambda _: ("domain_classifier",),
    "ground": lambda _: ("detector",),
    "select_entity": lambda s: _when(s.select_entity.by == "rules", "text_encoder"),
    "image_text": lambda _: ("ocr",),
    "rerank": lambda _: ("reranker",),
    "two_stage_rerank": lambda s: (
        *_when(s.two_stage_rerank.coarse, "coarse_reranker"),
        *_when(s.two_stage_rerank.fine, "fine_reranker"),
    ),
    "coherence": lambda s: ("text_encoder", *_when(s.coherence.second == "graph", "entity_finder")),
    "documents": lambda _: ("reranker",),
    "cite": lambda _: ("reranker",),
    "entries": lambda _: ("reranker",),
}
"""Roles other than chat models, by stage."""


def roles_of(settings: Settings, prompts: PromptLibrary) -> tuple[str, ...]:
    """The roles that the stages of a preset can ask for, each once, in the order of the stages.

    Raises:
        agents.prompts.PromptError: A prompt that a stage needs is missing or malformed.
    """
    found: dict[str, None] = {}
    for stage in settings.stages:
        for name in PROMPTS_OF[stage](settings) if stage in PROMPTS_OF else ():
            found[prompts[name].settings.model] = None
        for role in MODELS_OF[stage](settings) if stage in MODELS_OF else ():
            found[role] = None
    return tuple(found)


def searches_of(settings: Settings) -> tuple[bool, bool]:
    """Whether a preset searches images, and whether it searches the web."""
    return "image_search" in settings.stages, "web_search" in settings.stages


def images_of(settings: Settings) -> int:
    """Most pictures that one prompt of a preset shows: the question's own, and those of knowledge entries or documents."""
    most = 0
    if "entries" in settings.stages and settings.entries.pictures:
        most = settings.entries.most if {"four_steps", "choose_entry"} & set(settings.stages) else 1
    if "cited_answer" in settings.stages and settings.cited_answer.pictures:
        most = max(most, min(settings.cited_answer.documents, settings.image_search.k))
    return 1 + most
