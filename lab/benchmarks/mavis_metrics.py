"""The metrics of MAVIS over runs with citations: one row a run, in the columns of its table 4.

``python -m lab.benchmarks.mavis_metrics --runs results/mavis results/mavis_without_ke --dataset .cache/datasets``
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image
from pydantic import Field

from agents.base.cache_folder import DEFAULT_CACHE, CacheOption
from agents.base.command_options import Flag, Options
from evaluation.commands import make_console
from evaluation.data.crag_dataset import CragDataset
from evaluation.files.run_dataset import load_run_dataset
from evaluation.records import REPLIES
from lab.attribution.cited_answers import CitedRun, Which, read_cited
from lab.attribution.mavis import Grader, average_scores, score
from lab.attribution.rule_grader import RuleGrader
from lab.benchmarks.common import build_table, run

Features = Callable[[Sequence[str]], npt.NDArray[np.float32]]
Photos = Callable[[str], Image.Image | None]
_BATCH = 16
MIN_TEXTS = 4
"""With fewer texts on one side there is nothing to cluster."""

_COLUMNS = (
    ("Inf. F1", "informativeness"), ("Complete", "completeness"), ("Relevant", "relevance"), ("Grd. F1", "groundedness"),
    ("Recall", "recall"), ("Precision", "precision"), ("MAUVE", "mauve"),
    ("Text ret.", "text retrieved"), ("Image ret.", "image retrieved"), ("Text used", "text used"), ("Image used", "image used"),
    ("Text util.", "text utilisation"), ("Image util.", "image utilisation"),
    ("Text grd.", "text groundedness"), ("Image grd.", "image groundedness"),
)  # fmt: skip


def _measure(options: MavisOptions) -> int:
    runs = []
    for folder in options.runs:
        data = None if options.dataset is None else load_run_dataset(folder, options.dataset, options.cache)
        for which in options.sentences:
            name = f"{folder.name} ({which})" if len(options.sentences) > 1 else folder.name
            cited = (
                read_cited(folder, which, data.select_accept, index_photos(data)) if data else read_cited(folder, which)
            )
            runs.append((name, cited))
    grader: Grader = RuleGrader()
    if options.grader != RuleGrader.name:
        from lab.attribution.model_grader import ModelGrader  # its library takes half a second to import

        grader = ModelGrader(options.grader, cache=options.cache / REPLIES)
    features = load_smollm2_features(options.cache) if options.features == "smollm2" else None
    rows = [{"run": name, **compute_metrics(cited, grader, features)} for name, cited in runs]
    if options.rows is not None:
        options.rows.write_text(json.dumps({"grader": grader.name, "rows": rows}, indent=2) + "\n", encoding="utf-8")
    title = f"MAVIS metrics, graded by {grader.name}; MAUVE from {options.features}"
    headings = ("run", "answered", *(heading for heading, _ in _COLUMNS))
    cells = [
        (row["run"], f"{row['answers']}/{row['turns']}", *(_cell(name, row[name]) for _, name in _COLUMNS))
        for row in rows
    ]
    make_console().print(build_table(title, headings, cells))
    return 0


def index_photos(data: CragDataset) -> Photos:
    """Return a function from a session's id to its photo; None for other ids."""
    sessions = {session.session_id: session for session in data.sessions}
    return lambda name: data.image(sessions[name]).image if name in sessions else None


def compute_metrics(cited: CitedRun, grader: Grader, features: Features | None) -> dict[str, Any]:
    """Compute the metrics of one run over the turns that it answered."""
    row = average_scores([score(answer, grader) for answer in cited.answers])
    row["mauve"] = None
    if features is not None:
        row["mauve"] = mauve(features([a.text for a in cited.answers]), features([a.truth for a in cited.answers]))
    return {**row, "turns": cited.turns}


def mauve(answers: npt.ArrayLike, truths: npt.ArrayLike, seed: int = 25) -> float | None:
    """Compute MAUVE between answers and ground truths (MAVIS, section 4.3), 0 to 1.

    The paper's features are those of GPT-2 over thousands of texts; here they come from the caller, and over a hundred texts the
    value is a sanity check at most: compare runs over the same questions and features only.

    Args:
        answers: A feature vector of each answer, shape (answers, dimensions).
        truths: The same of the ground truths, shape (truths, dimensions).
        seed: Seed of the clustering; the default is the library's.

    Returns:
        None for fewer than ``MIN_TEXTS`` of either.
    """
    p, q = (np.asarray(features, dtype=np.float32) for features in (answers, truths))
    if min(len(p), len(q)) < MIN_TEXTS:
        return None
    from mauve import compute_mauve  # imports faiss: a second that other metrics need not pay

    return float(compute_mauve(p_features=p, q_features=q, seed=seed, verbose=False).mauve)


def load_smollm2_features(cache: Path) -> Features:
    """Load a function that returns the last hidden state of SmolLM2-135M at the end of each text.

    MAUVE takes them from GPT-2. The shape is (texts, 576).
    """
    import torch

    from agents.models.chat.smollm2 import smollm2_checkpoint
    from agents.models.chat.transformers_checkpoint import load_checkpoint

    checkpoint = load_checkpoint(smollm2_checkpoint(cache), dtype="float32")
    tokenizer, model = checkpoint.tokenizer, checkpoint.model
    tokenizer.padding_side = "left"  # so that the last place of each row is the last token of its text

    def features(texts: Sequence[str]) -> npt.NDArray[np.float32]:
        rows = []
        for start in range(0, len(texts), _BATCH):
            some = list(texts[start : start + _BATCH])
            inputs = tokenizer(some, padding=True, truncation=True, max_length=512, return_tensors="pt")
            with torch.inference_mode():
                states = model(**inputs, output_hidden_states=True, logits_to_keep=1).hidden_states[-1]
            rows.append(states[:, -1].float().numpy())
        return np.concatenate(rows)

    return features


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if name.endswith(("retrieved", "used")) else f"{100 * value:.1f}"


class MavisOptions(Options):
    """Options of the runs to measure."""

    runs: Annotated[tuple[Path, ...], Flag(metavar="DIR")] = Field(description="output folders of runs")
    dataset: Path | None = Field(
        None, description="data set folder, for accept forms and, where a model grades, the photos: it has to see them"
    )
    grader: str = Field("rule", description='"rule", or a model of an OpenAI-compatible server (gpt-4.1)')
    features: Literal["smollm2", "none"] = Field("smollm2", description="features for MAUVE")
    sentences: tuple[Which, ...] = Field(
        ("generated", "checked"), description="sentences to measure: before the check, after it"
    )
    cache: CacheOption = Field(DEFAULT_CACHE, description="folder of converted weights")
    rows: Annotated[Path | None, Flag(names=("--json",), metavar="FILE")] = Field(
        None, description="write the rows there too"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table.

    Returns:
        0, or 2 if a run cannot be read.
    """
    return run(_measure, MavisOptions, arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
