"""Differences between the two releases of the organiser's evaluation and ours, in one value that a run carries.

``STARTER_KIT`` is the challenge's starter kit, ``RESEARCH_RELEASE`` facebookresearch/CRAG-MM of February 2026. docs/rules.md has
the differences in a table and says why ours are stricter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

MissRule = Literal["either", "starter-kit", "research-release"]
"""Which answers count as "I don't know": see ``scoring.is_miss``."""

EgoImage = Literal["as it is", "fitted", "stretched"]
"""Change of an image without address: none; shrink to fit 960x1280, keeping the aspect; resize to 960x1280 exactly."""

JudgeStyle = Literal["structured", "explained"]
"""Form of a judge's reply: a JSON object, or an explanation that ends in a verdict."""

KNOWN_BAD_SESSIONS = frozenset({"04d98259-27af-41b1-a7be-5798fd1b8e95", "695b4b5c-7c65-4f7b-8968-50fe10482a16"})
"""Sessions of the public data sets that the research release leaves out."""

MOVED_IMAGES: Mapping[str, str] = {
    "0df99a9a-6a5d-4ff4-b8e4-e3ee90209dfe": (
        "https://web.archive.org/web/20250521025904/https://upload.wikimedia.org/wikipedia/commons/1/13/"
        "BMW_5_SERIES_LWB_SEDAN_(G30)_China_(82).jpg"
    )
}
"""Sessions whose ``image_url`` is dead, with the address that the research release uses instead."""


@dataclass(frozen=True)
class Rules:
    """Rules of one evaluation.

    Attributes:
        name: Value of ``--rules`` that selects them.
        miss_rule: Which answers count as "I don't know".
        known_miss_is_correct: Whether "I don't know" is correct, besides being a miss, if the ground truth says it.
        totals_after_stop: Whether the totals are taken after the early stop of dialogs; the conversation score always is.
        rate_of_none: Rates and mean conversation score of no turns at all; their truthfulness is 0.
        one_turn_scores_0: Whether the truthfulness of a run of one turn is 0, whatever its answer; that of a group of one never is.
        blank_address_is_ego: Whether a row with ``image_url`` "" is egocentric, as one with None is.
        ego_image: Change of an image without address ("" or None) before the agent gets it.
        skipped_sessions: Sessions left out.
        moved_images: Addresses that replace the ``image_url`` of a session.
        organiser_batches: Whether turns are asked in the order of the organiser's queue (``batches.schedule_by_queue``).
        organiser_tables: Whether the turn tables have the organiser's columns alone, in their values and order, but for a mark of failed
            judgements.
        rule_judge: Whether ``--eval-model None`` is the rule judge. If not there is no judge, and only exact answers are correct.
        judge_reply: Form of a served judge's reply; None: by the model's name.
        exact_verdicts: Form in which a judge's reply is parsed exactly as that release does: the kit takes no JSON in a fence, and for the
            research release "INCORRECT" is "CORRECT".
        judge_workers: Judgements asked for at the same time without ``--num-workers``.
        displayed: Dialogs printed without ``--display-conversations``.
    """

    name: Literal["ours", "starter-kit", "research-release"] = "ours"
    miss_rule: MissRule = "either"
    known_miss_is_correct: bool = False
    totals_after_stop: bool = False
    rate_of_none: float = 0.0
    one_turn_scores_0: bool = False
    blank_address_is_ego: bool = True
    ego_image: EgoImage = "fitted"
    skipped_sessions: frozenset[str] = KNOWN_BAD_SESSIONS
    moved_images: Mapping[str, str] = field(default_factory=lambda: MOVED_IMAGES)
    organiser_batches: bool = False
    organiser_tables: bool = False
    rule_judge: bool = True
    judge_reply: JudgeStyle | None = None
    exact_verdicts: JudgeStyle | None = None
    judge_workers: int = 8
    displayed: int = 0

    def __str__(self) -> str:
        """Return the name, as it is written on a command line."""
        return self.name


OURS = Rules()

STARTER_KIT = Rules(
    name="starter-kit",
    miss_rule="starter-kit",
    known_miss_is_correct=True,
    totals_after_stop=True,
    rate_of_none=math.nan,
    one_turn_scores_0=True,
    blank_address_is_ego=False,
    ego_image="as it is",
    skipped_sessions=frozenset(),
    moved_images={},
    organiser_batches=True,
    organiser_tables=True,
    rule_judge=False,
    judge_reply="structured",
    exact_verdicts="structured",
    displayed=10,
)

RESEARCH_RELEASE = Rules(
    name="research-release",
    miss_rule="research-release",
    known_miss_is_correct=True,
    rate_of_none=math.nan,
    one_turn_scores_0=True,
    blank_address_is_ego=False,
    ego_image="stretched",
    organiser_batches=True,
    organiser_tables=True,
    rule_judge=False,
    judge_reply="explained",
    exact_verdicts="explained",
    judge_workers=1,
    displayed=10,
)

RULES: Mapping[str, Rules] = {rules.name: rules for rules in (OURS, STARTER_KIT, RESEARCH_RELEASE)}
"""Rules by the value of ``--rules``."""


def explain_ego_source(rules: Rules) -> str:
    """Say that answers judged without their data set bring their own ``is_ego``; "" by our rules."""
    if rules.blank_address_is_ego:
        return ""
    return (
        f"without --dataset the ego scores follow is_ego of the file; where a run by our rules wrote it, more pictures are egocentric than "
        f"by those of the {rules.name}"
    )
