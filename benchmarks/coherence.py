"""Semantic coherence filtering on questions that need one source and on those that need several: the layout of its paper's table 1.

``python -m benchmarks.coherence --dataset .cache/datasets --split validation --tasks single,multi --out results/coherence``
(``--mixed-only``: only sessions with a question of several sources)

Single Modality are the questions whose answer lies in one source (the knowledge graph, a page, or the picture), Multi Modality those whose
answer takes both graph and pages (content_ids.json of the data set's folder). EM is the judge's verdict, since answers are sentences; F1
is that of words, the best over the ground truth and its accept forms. Evidence is the share of the questions with an accept form in
what the reader was given. What nothing answers is left out.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow
from pyarrow import parquet
from rich.console import Console

from evaluation.figures import truthfulness_change
from evaluation.plain_text import content, plain
from evaluation.records import EvaluationError
from evaluation.result_tables import ResultTable, rate, with_interval
from evaluation.run_log import read_run_log
from evaluation.runs import Result, add_options, run_all
from evaluation.scores import JudgedTurn
from evaluation.traces import TRACE, match_traces, read_traces
from evaluation.variants import Variant

PRESET = "coherence"
GROUPS = {
    "Single Modality": ("kg", "web", "image"),
    "Multi Modality": ("both",),
    "Overall": ("kg", "web", "image", "both"),
}
_STAGE_1 = tuple(
    Variant(f"Stage 1 ({name})", PRESET, settings=("coherence.second=none", f"coherence.metric={metric}"))
    for name, metric in (("L1", "l1"), ("Euclidean", "euclidean"), ("cosine", "cosine"))
)
_STAGE_2 = tuple(
    Variant(
        f"Stage 2 ({name} + pairwise)", PRESET, settings=("coherence.second=pairwise", f"coherence.metric={metric}")
    )
    for name, metric in (("L1", "l1"), ("Euclidean", "euclidean"), ("cosine", "cosine"))
)
VARIANTS = (
    Variant("Baseline (no filtering)", PRESET, without=("coherence",)),
    *_STAGE_1,
    *_STAGE_2,
    Variant("Stage 2 (graph)", PRESET, settings=("coherence.second=graph",)),
)


@dataclass(frozen=True)
class Measured:
    """What a variant reached on one question."""

    judged: JudgedTurn
    f1: float
    in_evidence: bool | None


def word_f1(answer: str, wanted: Sequence[str]) -> float:
    """F1 of the content words of an answer, 0 to 1: the best over the right answers."""
    said = Counter(content(plain(answer)))

    def against(text: str) -> float:
        right = Counter(content(plain(text)))
        shared = (said & right).total()
        return 2 * shared / (said.total() + right.total()) if shared else 0.0

    return max(map(against, wanted), default=0.0)


def holds(evidence: str, accept: Sequence[str]) -> bool:
    """Whether an accept form stands in a text."""
    given = f" {plain(evidence)} "
    return any(form and f" {form} " in given for form in map(plain, accept))


def measured(result: Result, accept: Mapping[str, Sequence[str]]) -> list[Measured]:
    """The questions of a run with what was measured of each."""
    turns = [judged.turn for judged in result.turns]
    traces = match_traces(turns, read_traces(result.folder / TRACE), read_run_log(result.folder))
    found = []
    for judged in result.turns:
        turn = judged.turn
        forms = accept.get(turn.interaction_id, ())
        trace = traces.get((turn.session_id, turn.interaction_id))
        shown = "\n".join(chunk.text for chunk in trace.evidence) if trace is not None else ""
        f1 = 0.0 if judged.miss else word_f1(turn.agent_response, (turn.ground_truth, *forms))
        found.append(Measured(judged, f1, holds(shown, forms) if trace is not None and forms else None))
    return found


def table(rows: Mapping[str, Sequence[Measured]], sources: Mapping[str, str]) -> ResultTable:
    """One row a variant; F1, EM and evidence for each group, and the change of truthfulness against the first row."""
    headings = ["Scoring Strategy"]
    for group in GROUPS:
        headings += [f"{group} F1", f"{group} EM", f"{group} evidence"]
    headings.append("Multi Modality truthfulness, change")
    cells = []
    base: list[JudgedTurn] | None = None
    for label, items in rows.items():
        row = [label]
        for names in GROUPS.values():
            own = [item for item in items if sources.get(item.judged.turn.interaction_id) in names]
            known = [item.in_evidence for item in own if item.in_evidence is not None]
            row += [
                rate(fmean(item.f1 for item in own)) if own else "-",
                rate(fmean(item.judged.correct for item in own)) if own else "-",
                rate(fmean(known)) if known else "-",
            ]
        mixed = [item.judged for item in items if sources.get(item.judged.turn.interaction_id) == "both"]
        row.append("" if base is None else with_interval(*truthfulness_change(base, mixed), signed=True))
        base = mixed if base is None else base
        cells.append(tuple(row))
    counts = Counter(sources.get(item.judged.turn.interaction_id) for item in next(iter(rows.values()), ()))
    title = f"{sum(counts[name] for name in GROUPS['Single Modality'])} single, {counts['both']} mixed questions (%)"
    return ResultTable(title, tuple(headings), tuple(headings), tuple(cells))


def with_mixed_questions(dataset: Path, revision: str, mixed: Set[str], out: Path) -> Path:
    """A copy of the data sets with only the sessions in which a question of these interaction ids is asked.

    Raises:
        EvaluationError: The folder holds no data set of the revision.
    """
    files = sorted(dataset.glob(f"crag-mm-*-public/{revision}/data/*.parquet"))
    if not files:
        raise EvaluationError(f"{dataset} holds no data set of revision {revision}")
    out.mkdir(parents=True, exist_ok=True)
    for file in files:
        table = parquet.read_table(file)
        wanted = [any(name in mixed for name in _interaction_ids(turns)) for turns in table["turns"].to_pylist()]
        target = out / file.relative_to(dataset)
        target.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(table.filter(pyarrow.array(wanted, pyarrow.bool_())), target)
    for name in ("accept.json", "content_ids.json"):
        shutil.copy(dataset / name, out / name)
    shutil.copytree(dataset / "image_cache", out / "image_cache", dirs_exist_ok=True)
    return out


def _interaction_ids(turns: Any) -> list[str]:
    """Of the turns of a row: a dict of columns (v0.1.2) or a list of dicts (v0.1.1)."""
    return list(turns["interaction_id"]) if isinstance(turns, dict) else [turn["interaction_id"] for turn in turns]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the variants, print the table and write it; 0, 1 where a run failed, 2 for what cannot be done."""
    options = _parser().parse_args(arguments)
    console = Console(width=220)
    try:
        if options.dataset is None:
            raise EvaluationError("which questions need both sources is known of the mini set alone: --dataset PATH")
        path = options.dataset / "content_ids.json"
        sources = {name: item["source"] for name, item in json.loads(path.read_text(encoding="utf-8")).items()}
        if options.mixed_only:
            mixed = {name for name, source in sources.items() if source == "both"}
            options.dataset = with_mixed_questions(options.dataset, options.revision, mixed, options.out / "dataset")
        results = run_all(VARIANTS, options, console)
        from evaluation.datasets import (
            read_accept,
        )  # imports Hugging Face's libraries, which the runs have to set up first

        accept = read_accept([options.dataset])
        rows: dict[str, list[Measured]] = {}
        for result in results.made:
            rows.setdefault(result.variant.label, []).extend(measured(result, accept))
    except (EvaluationError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        console.print("stopped; the same command goes on from here")
        return 130
    if not rows:
        return 1
    made = table(rows, sources)
    made.show(console)
    (options.out / "coherence.md").write_text(made.markdown(), encoding="utf-8")
    return 1 if results.failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--mixed-only", action="store_true", help="ask only sessions with a question of several sources"
    )
    add_options(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
