"""The stages by name, and how one is run: nothing that a stage does may cost the batch its answers."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from agents.models.base import ModelError
from agents.secrets import scrubbed
from agents.stage import Context, Stage
from agents.stages.answer import Answer
from agents.stages.chain_of_verification import VerificationChain
from agents.stages.choose_entry import ChooseEntry
from agents.stages.cite import Cite
from agents.stages.cited_answer import CitedAnswer
from agents.stages.coherence import CoherenceStage
from agents.stages.consistency import Consistency
from agents.stages.documents import DocumentsStage
from agents.stages.domain import DomainRouter
from agents.stages.draft import DraftStage
from agents.stages.dual_answer import DualAnswer
from agents.stages.entries import EntriesStage
from agents.stages.entry_answer import EntryAnswer
from agents.stages.evidence import EvidenceStage
from agents.stages.finalise import Finalise
from agents.stages.four_steps import FourStepsStage
from agents.stages.ground import Ground
from agents.stages.image_search import ImageSearch
from agents.stages.image_text import ImageText
from agents.stages.knowledge import KnowledgeStage
from agents.stages.objects import Objects
from agents.stages.parametric_answer import ParametricAnswer
from agents.stages.queries import Queries
from agents.stages.reconcile import Reconcile
from agents.stages.rerank import Rerank
from agents.stages.route import RouteStage
from agents.stages.select_entity import SelectEntity
from agents.stages.summarise import Summarise
from agents.stages.tools import ToolRouter
from agents.stages.two_stage_rerank import TwoStageRerank
from agents.stages.understand import Understand
from agents.stages.verify import Verify
from agents.stages.web_search import WebSearch
from agents.turn import Turn

_log = logging.getLogger(__name__)
_LONGEST_REASON = 500  # characters; an error may quote megabytes of what it choked on

STAGES: dict[str, type[Stage]] = {
    stage.name: stage
    for stage in (
        Understand, DomainRouter, DraftStage, RouteStage, Summarise, ToolRouter, Objects, Ground, ImageSearch, SelectEntity, ImageText,
        Queries, WebSearch, EvidenceStage, Rerank, TwoStageRerank, DocumentsStage, CoherenceStage, KnowledgeStage, EntriesStage,
        FourStepsStage, ParametricAnswer, ChooseEntry, EntryAnswer, Answer, CitedAnswer, DualAnswer, Reconcile, Verify, Consistency,
        VerificationChain, Cite, Finalise,
    )
}  # fmt: skip
"""Every stage, in the order the data flows."""


def run_stage(stage: Stage, turns: Sequence[Turn], context: Context) -> None:
    """Run one stage over all turns and close its trace entry on each.

    Where less time is left than the stage needs at least it is skipped (never one that needs none). A stage that raises is noted, and the
    batch goes on. Calls of the evaluator go through ``agents.latency.guard``, which plans more finely.
    """
    if stage.least_seconds > 0 and not context.deadline.allows(stage.least_seconds):
        reason = f"{max(0.0, context.deadline.left()):.2f} s left, needs {stage.least_seconds} s"
        for turn in turns:
            turn.close_stage(stage.name, 0.0, skipped=reason)
        return
    perform(stage, turns, context)


def perform(stage: Stage, turns: Sequence[Turn], context: Context, *, reduced: str | None = None) -> bool:
    """Run one stage, whatever time is left; where it fails for the batch, each turn is tried alone.

    Args:
        reduced: Why the stage runs reduced, for the trace; None where it runs whole.

    Returns:
        Whether it failed for any turn.
    """
    started = time.perf_counter()
    failures = _failures(stage, turns, context)
    seconds = time.perf_counter() - started
    for turn in turns:
        failed = failures.get(id(turn))
        if failed is not None:
            turn.error = turn.error or f"{stage.name}: {failed}"
        if reduced is not None:
            turn.note(reduced=reduced)
        turn.close_stage(stage.name, seconds, skipped=failed and f"failed: {failed}")
    return bool(failures)


def _failures(stage: Stage, turns: Sequence[Turn], context: Context) -> dict[int, str]:
    """What went wrong, by id of the turn."""
    reason, engine = _attempt(stage, turns, context)
    if reason is None:
        return {}
    if engine or len(turns) == 1:
        return dict.fromkeys(map(id, turns), reason)
    alone: dict[int, str] = {}
    for turn in turns:  # one of them may be to blame
        if not context.deadline.allows(stage.least_seconds):
            alone[id(turn)] = reason
            continue
        own, engine = _attempt(stage, [turn], context)
        if own is not None:
            alone[id(turn)] = own
    return alone


def _attempt(stage: Stage, turns: Sequence[Turn], context: Context) -> tuple[str | None, bool]:
    """Why a stage failed, None where it did not; and whether an engine said that it cannot answer anyone."""
    try:
        stage.run(turns, context)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the boundary that keeps one stage's fault from costing the batch its answers
        _log.exception("stage %s failed", stage.name)
        return scrubbed(f"{type(error).__name__}: {error}")[:_LONGEST_REASON], isinstance(error, ModelError)
    return None, False
