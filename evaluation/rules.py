"""What the two releases of the organiser's evaluation do differently from each other and from us, in one value that a run carries.

``STARTER_KIT`` is the challenge's starter kit, ``RESEARCH_RELEASE`` facebookresearch/CRAG-MM of February 2026; docs/rules.md has
the differences in a table and says why ours are stricter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

MissRule = Literal["either", "starter-kit", "research-release"]
"""What says "I don't know": see ``scoring.is_miss``."""

EgoImage = Literal["as it is", "fitted", "stretched"]
"""What becomes of an image without address: nothing; shrunk to fit 960x1280, its aspect kept; resized to 960x1280 exactly."""

JudgeStyle = Literal["structured", "explained"]
"""The form of a judge's reply: a JSON object, or an explanation that ends in a verdict."""

KNOWN_BAD_SESSIONS = frozenset({"04d98259-27af-41b1-a7be-5798fd1b8e95", "695b4b5c-7c65-4f7b-8968-50fe10482a16"})
"""Sessions of the public data sets that the research release leaves out."""

MOVED_IMAGES: Mapping[str, str] = {
    "0df99a9a-6a5d-4ff4-b8e4-e3ee90209dfe": (
        "https://web.archive.org/web/20250521025904/https://upload.wikimedia.org/wikipedia/commons/1/13/"
        "BMW_5_SERIES_LWB_SEDAN_(G30)_China_(82).jpg"
    )
}
"""Sessions whose ``image_url`` is dead, with the URL that the research release puts in its place."""


@dataclass(frozen=True)
class Rules:
    """The rules of one evaluation.

    Attributes:
        name: How ``--rules`` calls them.
        miss_rule: What says "I don't know".
        known_miss_is_correct: Whether "I don't know" is correct, besides being a miss, where the ground truth says it.
        totals_after_stop: Whether the totals are taken after the early stop of dialogs; the conversation score always is.
        rate_of_none: The rates and the mean conversation score of no turns at all; their truthfulness is 0.
        blank_address_is_ego: Whether a row with ``image_url`` "" is egocentric, as one with None is.
        ego_image: What becomes of an image without address ("" or None) before the agent gets it.
        skipped_sessions: Sessions that are not asked.
        moved_images: Session to the address that replaces its ``image_url``.
        organiser_batches: Whether turns are asked in the order of the organiser's queue (``batches.queue_schedule``).
        organiser_tables: Whether the turn tables hold the organiser's columns alone, in their values and order.
        rule_judge: Whether ``--eval-model None`` is the rule judge; else none at all, exact answers alone being correct.
        judge_model: The judge where ``--eval-model`` is not given and there is a key.
        judge_reply: The form of its reply; None: by the model's name.
        judge_workers: Judgements asked for at the same time, where ``--num-workers`` is not given.
        displayed: Dialogs printed, where ``--display-conversations`` is not given.
    """

    name: Literal["ours", "starter-kit", "research-release"] = "ours"
    miss_rule: MissRule = "either"
    known_miss_is_correct: bool = False
    totals_after_stop: bool = False
    rate_of_none: float = 0.0
    blank_address_is_ego: bool = True
    ego_image: EgoImage = "fitted"
    skipped_sessions: frozenset[str] = KNOWN_BAD_SESSIONS
    moved_images: Mapping[str, str] = field(default_factory=lambda: MOVED_IMAGES)
    organiser_batches: bool = False
    organiser_tables: bool = False
    rule_judge: bool = True
    judge_model: str = "gpt-4o-mini"
    judge_reply: JudgeStyle | None = None
    judge_workers: int = 8
    displayed: int = 0

    def __str__(self) -> str:
        """As it is written on a command line."""
        return self.name


OURS = Rules()

STARTER_KIT = Rules(
    name="starter-kit",
    miss_rule="starter-kit",
    known_miss_is_correct=True,
    totals_after_stop=True,
    rate_of_none=math.nan,
    blank_address_is_ego=False,
    ego_image="as it is",
    skipped_sessions=frozenset(),
    moved_images={},
    organiser_batches=True,
    organiser_tables=True,
    rule_judge=False,
    judge_reply="structured",
    displayed=10,
)

RESEARCH_RELEASE = Rules(
    name="research-release",
    miss_rule="research-release",
    known_miss_is_correct=True,
    rate_of_none=math.nan,
    blank_address_is_ego=False,
    ego_image="stretched",
    organiser_batches=True,
    organiser_tables=True,
    rule_judge=False,
    judge_model="gpt-4o",
    judge_reply="explained",
    judge_workers=1,
    displayed=10,
)

RULES: Mapping[str, Rules] = {rules.name: rules for rules in (OURS, STARTER_KIT, RESEARCH_RELEASE)}
"""What ``--rules`` knows."""
