"""Semantic coherence filtering on questions of one and of several sources, as in its paper's table 1.

    python -m lab.benchmarks.coherence_variants --split validation

Every question is searched for once, and each variant filters and reads the same evidence: the paper's fixed corpus. Earlier turns of
a dialog are answered by the ground truth. Single Modality are the questions whose answer is in one source (the knowledge graph, a
page, or the picture). Multi Modality are those whose answer needs both graph and pages (content_ids.json of the data set's folder).
Unanswerable questions are left out. EM is the judge's verdict, since answers are sentences. F1 is that of words, the best over the ground
truth and its accept forms. Evidence is the share of the questions with an accept form in what was shown to the model that answers.
"""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

from pydantic import Field
from tqdm import tqdm

from agents.base.command_options import Flag
from agents.search.gateway import SearchGateway
from agents.settings.presets import Settings
from agents.settings.run_config import RunConfig
from agents.turn import Turn
from evaluation.commands import make_console
from evaluation.judge.judging import judge_turns
from evaluation.judge.plain_text import normalise_text, tokenise_content
from evaluation.judge.rule_judge import RuleJudge
from evaluation.records import JudgedTurn, make_answered_turn
from evaluation.scores.scoring import truthfulness_change
from evaluation.studies.result_tables import ResultTable, format_rate, format_with_interval
from lab.benchmarks.common import ProfileOptions, make_turn, run, run_stages
from mini_crag_mm.loader import KINDS, AskedTurn, PreparedSet

PRESET = "coherence"
STAGE = "coherence"
_BATCH = 8
SINGLE, MIXED = "Single Modality", "Multi Modality"
GROUPS = {SINGLE: ("kg", "web", "image"), MIXED: ("both",), "Overall": ("kg", "web", "image", "both")}
_METRICS = {"L1": "l1", "Euclidean": "euclidean", "cosine": "cosine"}
VARIANTS: dict[str, tuple[str, ...] | None] = {
    "Baseline (no filtering)": None,
    **{f"Stage 1 ({name})": ("coherence.second=none", f"coherence.metric={key}") for name, key in _METRICS.items()},
    **{
        f"Stage 2 ({name} + pairwise)": ("coherence.second=pairwise", f"coherence.metric={key}")
        for name, key in _METRICS.items()
    },
    "Stage 2 (graph)": ("coherence.second=graph",),
}
"""Settings of each row; None leaves the stage out."""


@dataclass(frozen=True)
class MeasuredAnswer:
    """Result of a variant on one question."""

    judged: JudgedTurn
    source: str
    f1: float
    in_evidence: bool | None


def word_f1(answer: str, right_answers: Sequence[str]) -> float:
    """Compute the F1 of the content words of an answer, 0 to 1: the best over the right answers."""
    answer_words = Counter(tokenise_content(normalise_text(answer)))

    def against(text: str) -> float:
        right = Counter(tokenise_content(normalise_text(text)))
        shared = (answer_words & right).total()
        return 2 * shared / (answer_words.total() + right.total()) if shared else 0.0

    return max(map(against, right_answers), default=0.0)


def has_accept_form(evidence: str, accept: Sequence[str]) -> bool:
    """Return whether a text contains an accept form."""
    text = f" {normalise_text(evidence)} "
    return any(form and f" {form} " in text for form in map(normalise_text, accept))


def compare_variants(
    questions: Sequence[tuple[AskedTurn, Turn]], settings: Mapping[str, Settings], **parts: Any
) -> dict[str, list[MeasuredAnswer]]:
    """Run each variant on one batch of questions with fresh turns.

    Args:
        questions: The questions with their turns.
        settings: Settings by label; all have the same stages before the one that is compared.
        parts: Those of ``agents.runner.pipeline.Pipeline``.
    """
    names = next(variant.stages for variant in settings.values() if STAGE in variant.stages)
    before, after = names[: names.index(STAGE)], names[names.index(STAGE) :]

    turns = run_stages([turn for _, turn in questions], next(iter(settings.values())), before, **parts)
    measurements = {}
    for label, variant in settings.items():
        own = run_stages(
            [dataclasses.replace(turn, records=[], _notes={}, _findings={}) for turn in turns], variant, after, **parts
        )
        for turn in own:
            if turn.error is not None:
                print(f"{label}: {turn.error}", file=sys.stderr)
        measurements[label] = [
            _measure_turn(question, turn) for (question, _), turn in zip(questions, own, strict=True)
        ]
    return measurements


def _measure_turn(question: AskedTurn, turn: Turn) -> MeasuredAnswer:
    reply = make_answered_turn(question.session, question.turn, turn.answer)
    [judged] = judge_turns([reply], RuleJudge(), accept={question.turn.interaction_id: question.accept})
    evidence = "\n".join(chunk.text for chunk in turn.shown)
    return MeasuredAnswer(
        judged,
        question.facts["source"],
        0.0 if judged.miss else word_f1(reply.agent_response, (question.turn.ground_truth, *question.accept)),
        has_accept_form(evidence, question.accept) if question.accept else None,
    )


def build_table(rows: Mapping[str, Sequence[MeasuredAnswer]]) -> ResultTable:
    """Build the table, one row a variant.

    It has F1, EM and evidence of each group, and the change of truthfulness against the first row.
    """
    first = next(iter(rows.values()), ())
    groups = {name: sources for name, sources in GROUPS.items() if any(item.source in sources for item in first)}
    figures = (f"{group} {figure}" for group in groups for figure in ("F1", "EM", "evidence"))
    headings = ("Scoring Strategy", *figures, "truthfulness, change")
    cells = []
    for label, items in rows.items():
        row = [label]
        for sources in groups.values():
            own = [item for item in items if item.source in sources]
            flags = [item.in_evidence for item in own if item.in_evidence is not None]
            row += [
                format_rate(fmean(item.f1 for item in own)),
                format_rate(fmean(item.judged.correct for item in own)),
            ]
            row.append(format_rate(fmean(flags)) if flags else "-")
        change = truthfulness_change([item.judged for item in first], [item.judged for item in items])
        row.append("" if items is first else format_with_interval(*change, signed=True))
        cells.append(tuple(row))
    counts = Counter(item.source for item in first)
    title = f"{sum(counts[name] for name in GROUPS[SINGLE])} questions of one source, {counts['both']} of several (%)"
    return ResultTable(title, headings, cells)


def _measure(options: CoherenceOptions) -> int:
    mini = PreparedSet(options.split, options.cache)
    search = mini.search(options.profile)
    launches = {}
    for label, overrides in VARIANTS.items():
        without = (STAGE,) if overrides is None else ()
        set_here = [each for each in options.set if overrides is not None or not each.strip().startswith(f"{STAGE}.")]
        changes = [*(overrides or ()), *set_here]  # what is set of the stage concerns the variants that have it
        launches[label] = RunConfig.read(
            PRESET, options.profile, without=without, overrides=changes, cache=options.cache
        )
    settings = {label: config.settings for label, config in launches.items()}
    shared = next(iter(launches.values()))
    parts = {"models": shared.models(), "search": SearchGateway(search), "prompts": shared.prompts}
    sources = GROUPS[MIXED if options.mixed_only else "Overall"]
    rows: dict[str, list[MeasuredAnswer]] = {label: [] for label in settings}
    for kind in KINDS:
        selection = (question for question in mini.turns(kinds=[kind]) if question.facts["source"] in sources)
        questions = list(islice(selection, options.questions or None))
        with tqdm(total=len(questions), desc=kind, unit="question") as bar:
            for start in range(0, len(questions), _BATCH):
                batch = questions[start : start + _BATCH]
                turns = [make_turn(each) for each in batch]
                for label, measured in compare_variants(
                    list(zip(batch, turns, strict=True)), settings, **parts
                ).items():
                    rows[label] += measured
                bar.update(len(batch))
    table = build_table(rows)
    table.show(make_console())
    if options.out is not None:
        options.out.write_text(table.markdown(), encoding="utf-8")
    return 0


class CoherenceOptions(ProfileOptions):
    """Options of the questions to ask, and of the place of the table."""

    mixed_only: bool = Field(False, description="only questions of several sources")
    questions: Annotated[int, Flag(metavar="N")] = Field(0, description="first N of each data set; 0: all")
    set: Annotated[tuple[str, ...], Flag(metavar="KEY=VALUE", repeated=True)] = Field(
        (), description="a setting of all variants"
    )
    out: Annotated[Path | None, Flag(metavar="FILE")] = Field(None, description="write the table there, in Markdown")


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask, print the table and write it.

    Returns:
        0, or 2 if it cannot be measured.
    """
    return run(_measure, CoherenceOptions, arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
