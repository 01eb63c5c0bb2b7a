"""Stage 4b: which searches a question needs (QA-Dragon, section 3.3 and appendix A)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from agents.methods.question_kinds import question_kind
from agents.settings import ToolSettings
from agents.stage import Context
from agents.texts.replies import json_object
from agents.turn import Tools, Turn

_PACKAGED = re.compile(
    r"\b(?:packag(?:e|es|ed|ing)|packets?|cartons?|wrappers?|jars?|canned|(?:can|tin|tube|bottle|box|bag|pack|bar) of"
    r"|brand of|logo|labell?ed)\b",
    re.IGNORECASE,
)


def rule_tools(turn: Turn, settings: ToolSettings) -> Tools:
    """The paper's decision logic without a model: rules 1 to 4 of its prompt.

    1. An object that the draft names exactly needs no image search. 2. What cannot be seen needs text search. 3. Calculation
    and translation need neither. 4. Books, packaged goods with a logo and plants need no image search: the domain tells, or
    the words of the question.
    """
    kind = question_kind(turn.question)
    if kind.text or kind.calculation:
        return Tools(image=False, text=False)
    named = turn.draft is not None and turn.draft.object_name is not None
    skipped = turn.domain in settings.skip_image_domains or (
        settings.skip_packaged and _PACKAGED.search(turn.question) is not None
    )
    return Tools(image=turn.needs_image and not named and not skipped, text=turn.needs_external is not False)


class ToolRouter:
    """A model decides, held to a schema; the rules decide where it cannot be asked or does not say."""

    name: ClassVar[str] = "tools"
    least_seconds: ClassVar[float] = 0.5
    wanted_seconds: ClassVar[float] = 1.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``tools`` of the turns that are not answered directly."""
        settings = context.settings.tools
        concerned = [turn for turn in turns if turn.route != "direct"]
        for turn in turns:
            turn.tools = Tools(image=False, text=False) if turn.route == "direct" else rule_tools(turn, settings)
        if settings.by == "model" and concerned:
            self._ask(concerned, context)
        for turn in turns:
            turn.note(image_search=turn.tools.image, text_search=turn.tools.text)

    def _ask(self, turns: Sequence[Turn], context: Context) -> None:
        prompt = context.prompts["tool_router"]
        replies = context.models.chat(prompt.settings.model).chat(
            [
                prompt.request(
                    image=turn.image, question=turn.question, reasoning=turn.draft.reasoning if turn.draft else ""
                )
                for turn in turns
            ],
            context.deadline,
        )
        for turn, reply in zip(turns, replies, strict=True):
            found = json_object(reply.text) or {}
            image, text = found.get("need_image_search"), found.get("need_text_search")
            if isinstance(image, bool) and isinstance(text, bool):
                turn.tools = Tools(image=image and turn.image is not None, text=text)
