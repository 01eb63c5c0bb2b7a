"""A stage's context with less to do: fewer crops, queries, pairs, examples and tokens."""

from __future__ import annotations

import dataclasses
import math

from agents.brief_models import BriefModels
from agents.settings import Settings
from agents.stage import Context


def reduced(context: Context) -> Context:
    """The context in which a stage runs when there is no time for all of it; stages need not know."""
    share = context.settings.reduced.tokens
    models = BriefModels(context.models, lambda tokens: max(1, math.ceil(share * tokens)))
    return dataclasses.replace(context, settings=reduced_settings(context.settings), models=models)


def reduced_settings(settings: Settings) -> Settings:
    """The settings with every count brought down to the preset's table ``reduced``, and rules in place of models where both work."""
    least = settings.reduced
    return settings.model_copy(
        update={
            "understand": settings.understand.model_copy(update={"rewrite": "rules"}),
            "draft": settings.draft.model_copy(update={"examples": 0}),
            "ground": settings.ground.model_copy(update={"most_crops": min(settings.ground.most_crops, least.crops)}),
            "queries": settings.queries.model_copy(
                update={"most": min(settings.queries.most, least.queries), "split": "none"}
            ),
            "evidence": settings.evidence.model_copy(
                update={"most_chunks": min(settings.evidence.most_chunks, least.chunks)}
            ),
            "two_stage_rerank": settings.two_stage_rerank.model_copy(
                update={"k1": min(settings.two_stage_rerank.k1, max(1, least.chunks // 2))}
            ),
            "entries": settings.entries.model_copy(
                update={"most": min(settings.entries.most, least.entries), "fetch": False}
            ),
        }
    )
