"""Stage 4a: the branch of a turn (QA-Dragon, section 3.2), and whether it needs external or present knowledge (CRUISE, section 3.1)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from agents.methods.question_kinds import question_kind
from agents.methods.routing import Router, RuleRouter, trace_features
from agents.methods.trained_router import TrainedRouter
from agents.settings import ROOT, RouteSettings
from agents.stage import Context
from agents.texts.replies import labelled, yes_or_no
from agents.turn import Tools, Turn

_NUMBERING = re.compile(r"^\s*\(?\d+[.)]\s*", re.MULTILINE)

_trained = lru_cache(maxsize=4)(TrainedRouter.load)


def open_router(settings: RouteSettings) -> Router:
    """The trained router where the settings name one, else the rules.

    Raises:
        agents.linear_head.HeadError: The file that the settings name is missing or malformed.
    """
    if settings.trained is not None:
        return _trained(ROOT / Path(settings.trained))
    return RuleRouter(settings.least_mean_probability)


def rule_flags(question: str) -> tuple[bool, bool]:
    """Whether a question needs external knowledge, and whether it asks for the present, by its words."""
    kind = question_kind(question)
    return not kind.self_contained, kind.now


def parse_flags(reply: str) -> tuple[bool | None, bool | None]:
    """The two flags of a reply to ``prompts/query_flags.j2``; None where one is not said.

    Small models leave out the labels or number the lines; two lines without labels are taken in order.
    """
    text = _NUMBERING.sub("", reply)
    said = [labelled(text, label) for label in ("external", "current")]
    if said == [None, None]:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) == 2:
            said = list(lines)
    external, now = (yes_or_no(value) if value is not None else None for value in said)
    return external, now


class RouteStage:
    """The branch by rules or by the trained router; the flags by rules or by one batched call to a small text model."""

    name: ClassVar[str] = "route"
    least_seconds: ClassVar[float] = 0.0
    wanted_seconds: ClassVar[float] = 0.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``route``, ``needs_external``, ``real_time`` and, where no search is needed, ``tools``; without draft it is ``rag``."""
        settings = context.settings.route
        router = open_router(settings)
        for turn in turns:
            features = trace_features(turn.question, turn.draft, turn.domain)
            turn.route = router.route(features)
            turn.needs_external, turn.real_time = rule_flags(turn.question)
            turn.note(route=turn.route, features=features.as_dict())
        if settings.flags == "model":
            self._ask(turns, context)
        for turn in turns:
            if settings.skip_search and turn.needs_external is False:
                turn.tools = Tools(image=False, text=False)
            turn.note(needs_external=turn.needs_external, real_time=turn.real_time)

    @staticmethod
    def _ask(turns: Sequence[Turn], context: Context) -> None:
        """What the model does not say stays as the rules have it."""
        prompt = context.prompts["query_flags"]
        replies = context.models.chat(prompt.settings.model).chat(
            [prompt.request(question=turn.question) for turn in turns], context.deadline
        )
        for turn, reply in zip(turns, replies, strict=True):
            external, now = parse_flags(reply.text)
            if external is not None:
                turn.needs_external = external
            if now is not None:
                turn.real_time = now
            turn.note(flags_reply=reply.text)
