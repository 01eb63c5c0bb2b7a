"""Stage 7: what is asked of the web (QA-Dragon, sections 3.5.1 and 3.5.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from agents.methods.bridging import hop_questions
from agents.stage import Context
from agents.texts.replies import json_object, strings
from agents.turn import Turn


class Queries:
    """The question as it stands or with the entity's name; split into one query for each inference step where asked for."""

    name: ClassVar[str] = "queries"
    least_seconds: ClassVar[float] = 0.0
    wanted_seconds: ClassVar[float] = 0.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``queries``: the main query first, each once; and ``hops`` where rules split."""
        settings = context.settings.queries
        concerned = [turn for turn in turns if turn.tools.text]
        for turn in concerned:
            main = turn.search_text(entity=settings.fuse_entity, summary=settings.fuse_summary)
            if settings.split == "rules" and turn.needs_image:
                shown = turn.entities or (turn.entity,)
                turn.hops = tuple(hop for entity in shown for hop in hop_questions(turn.question, entity))
            turn.queries = _unique([main, *turn.hops], settings.most)
        if settings.split == "model" and concerned:
            self._ask(concerned, context)
        for turn in concerned:
            turn.note(queries=list(turn.queries), hops=list(turn.hops))

    @staticmethod
    def _ask(turns: Sequence[Turn], context: Context) -> None:
        settings = context.settings.queries
        prompt = context.prompts[settings.prompt]
        requests = [
            prompt.request(
                image=turn.image,
                question=turn.question,
                reasoning=turn.draft.reasoning if turn.draft else "",
                entity=turn.entity.name if turn.entity and settings.fuse_entity else None,
                most=settings.most,
            )
            for turn in turns
        ]
        replies = context.models.chat(prompt.settings.model).chat(requests, context.deadline)
        for turn, reply in zip(turns, replies, strict=True):
            found = strings((json_object(reply.text) or {}).get("queries"), settings.most)
            turn.queries = _unique(
                [*turn.queries, *found] if settings.keep_question else found or turn.queries, settings.most
            )


def _unique(queries: Sequence[str], most: int) -> tuple[str, ...]:
    by_words = {" ".join(query.lower().split()).rstrip("?"): query for query in reversed(queries) if query.strip()}
    return tuple(reversed(by_words.values()))[:most]
