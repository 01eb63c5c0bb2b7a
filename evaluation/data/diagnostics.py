"""Loads CRAG-MM-Diagnostics (arXiv 2607.21155): CRAG-MM's questions with true box and name, and wordings that separate its stages.

The layout is the one that the authors' code reads (github.com/McGill-NLP/crag-mm-diagnostics, data_loader.py). A row has ``id``, ``image``
(or ``image_url``), ``question``, ``answer`` and ``metadata`` with ``target_roi_bbox`` (x1, y1, x2, y2 in pixels of ``image_size``, width
and height), ``target_object_name``, ``textual_only_question``, ``referring_expression_category`` and, for ambiguous questions,
``disambiguated_question``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import datasets
from rapidfuzz import fuzz, process

from evaluation.data.crag_dataset import CragDataset, group_by_split, list_parquet_files
from evaluation.data.dataset_images import ImageCache, LoadedImage, fit_ego
from evaluation.records import EvaluationError, Session
from evaluation.rules import OURS, Rules

Form = Literal["original", "disambiguated", "cropped", "named", "text-only"]
FORMS: tuple[Form, ...] = get_args(Form)
"""Forms of the questions.

As they are; reworded if ambiguous; about the photo cut to the true box; with the true name in the question, beside the photo and without
it.
"""

HUB_ID = "McGill-NLP/crag-mm-diagnostic"
HUB_SPLIT = "test"
INDEX_SPLIT = "public_test"
"""Split of the organiser's indices that have the entities of these questions (the authors' eval_rag.sh)."""

NAME = "crag-mm-diagnostics"
SAME_NAME = 85
"""Least likeness of two names, of 100, to be the same: the authors' 0.85 of ``difflib``, applied here to ``rapidfuzz``."""

Box = tuple[float, float, float, float]
"""Left, top, right and bottom as shares of width and height."""


@dataclass(frozen=True)
class Annotation:
    """Truth about one question: region and name of its entity, and its other wordings ("" for none)."""

    entity: str
    box: Box
    category: str
    named_question: str
    disambiguated_question: str


def is_same_name(true: str, name: str) -> bool:
    """Return whether two names are the same but for case and spelling."""
    return bool(fuzz.ratio(true.lower(), name.lower()) >= SAME_NAME)


def nearest_name(true: str, names: Iterable[str]) -> str | None:
    """Return the most similar name, or None if none is similar enough to be the same."""
    match = process.extractOne(true, list(names), scorer=fuzz.ratio, processor=str.lower, score_cutoff=SAME_NAME)
    return None if match is None else str(match[0])


class DiagnosticsDataset(CragDataset):
    """CRAG-MM-Diagnostics as sessions of one question each, in one form.

    The category of the referring expression replaces the query category, so that tables by category show it. Photos are
    shrunk to fit 960 x 1280, as the authors resize all of them.
    """

    def __init__(
        self, rows: datasets.Dataset, name: str, form: Form, images: ImageCache, split: str, rules: Rules = OURS
    ) -> None:
        lacking = {"id", "question", "answer", "metadata"} - set(rows.column_names)
        if lacking:
            raise EvaluationError(f"{name} is no CRAG-MM-Diagnostics: it has no column {', '.join(sorted(lacking))}")
        self.form = form
        annotations = [*map(_parse_annotation, rows.remove_columns(_select_present(rows, "image")))]
        self.annotations = {str(row): annotation for row, annotation in zip(rows["id"], annotations, strict=True)}
        super().__init__(
            _to_crag_layout(rows, annotations, form), f"{NAME}-{form}@{name}/{split}", images, {}, {}, rules
        )

    def _load_image(self, session: Session) -> LoadedImage:
        if self.form == "text-only":
            return LoadedImage(None, "asked without its photo, as --diagnostics text-only has it")
        loaded = self.load_original(session)
        if loaded.image is None:
            return loaded
        image = loaded.image
        if self.form == "cropped":
            left, top, right, bottom = self.annotations[session.session_id].box
            image = image.crop((left * image.width, top * image.height, right * image.width, bottom * image.height))
        return LoadedImage(fit_ego(image), loaded.note)


def load_diagnostics(
    form: Form,
    split: str,
    path: Path | None = None,
    cache: Path = Path(".cache"),
    online: bool = False,
    rules: Rules = OURS,
) -> DiagnosticsDataset:
    """Load the questions from the hub, or from a local folder of parquet files.

    Args:
        form: How the questions are asked.
        split: Split of the searched indices. A local folder's split of this name is loaded, else its ``test``.
        path: Local folder; None: the hub.
        cache: See ``crag_dataset.load``.
        online: See ``crag_dataset.load``.
        rules: See ``CragDataset``.

    Raises:
        EvaluationError: The data set cannot be read, lacks a column, or a row is malformed; or the split's indices do not cover it.
    """
    if path is None:
        if split != INDEX_SPLIT:
            raise EvaluationError(
                f"CRAG-MM-Diagnostics asks about entities of {INDEX_SPLIT}, and --split is {split}; "
                f"give --split {INDEX_SPLIT}"
            )
        name, split_name = "hub", HUB_SPLIT
        source: dict[str, Any] = {"path": HUB_ID}
        hint = ". Without network, name a local copy with --dataset PATH."
    else:
        files = group_by_split(list_parquet_files(path)) if path.is_dir() else {}
        split_name = split if split in files else HUB_SPLIT
        if split_name not in files:
            raise EvaluationError(
                f"{path} has no parquet files of split {split} or {HUB_SPLIT}; name a copy of the data set {HUB_ID} with --dataset"
            )
        name, hint = "local", ""
        source = {"path": "parquet", "data_files": {split_name: [str(file) for file in files[split_name]]}}
        datasets.disable_progress_bars()
    try:
        rows = datasets.load_dataset(**source, split=split_name, cache_dir=str(cache / "tables"))
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        raise EvaluationError(
            f"CRAG-MM-Diagnostics could not be loaded from {path or HUB_ID}: {error}{hint}"
        ) from error
    folders = [folder / "image_cache" for folder in ((cache,) if path is None else (path, cache))]
    return DiagnosticsDataset(rows, name, form, ImageCache(folders, online), split_name, rules)


def _select_present(rows: datasets.Dataset, *columns: str) -> list[str]:
    return [column for column in columns if column in rows.column_names]


def _parse_annotation(row: Mapping[str, Any]) -> Annotation:
    """Parse the metadata of one row.

    Raises:
        EvaluationError: A field that every question has is missing or malformed.
    """
    place, metadata = f"question {row.get('id')}", row.get("metadata")
    try:
        if not isinstance(metadata, Mapping):
            raise TypeError("metadata is no struct")
        width, height = (float(side) for side in metadata["image_size"])
        left, top, right, bottom = (float(edge) for edge in metadata["target_roi_bbox"])
        if not (0 <= left < right <= width and 0 <= top < bottom <= height):
            raise ValueError(f"box {[left, top, right, bottom]} is no region of {width:g} x {height:g} pixels")
        name = str(metadata["target_object_name"] or "")
    except (KeyError, TypeError, ValueError) as error:
        why = f"metadata has no {error}" if isinstance(error, KeyError) else str(error)
        raise EvaluationError(f"CRAG-MM-Diagnostics, {place}: {why}") from error
    return Annotation(
        entity=name,
        box=(left / width, top / height, right / width, bottom / height),
        category=str(metadata.get("referring_expression_category") or ""),
        named_question=str(metadata.get("textual_only_question") or ""),
        disambiguated_question=str(metadata.get("disambiguated_question") or ""),
    )


def _to_crag_layout(rows: datasets.Dataset, annotations: Sequence[Annotation], form: Form) -> datasets.Dataset:
    """Convert the rows to CRAG-MM's layout, with the question of this form."""
    ids = [str(row) for row in rows["id"]]
    questions = [
        _choose_wording(str(question or ""), each, form)
        for question, each in zip(rows["question"], annotations, strict=True)
    ]
    turns = [
        [{"interaction_id": row, "query": question, "query_category": each.category}]
        for row, question, each in zip(ids, questions, annotations, strict=True)
    ]
    answers = [
        [{"interaction_id": row, "ans_full": str(answer or "")}]
        for row, answer in zip(ids, rows["answer"], strict=True)
    ]
    columns: dict[str, Any] = {"session_id": ids, "turns": turns, "answers": answers}
    if "image_url" in rows.column_names:
        columns["image_url"] = [url or None for url in rows["image_url"]]
    table = datasets.Dataset.from_dict(columns)
    if "image" in rows.column_names:
        table = datasets.concatenate_datasets([table, rows.select_columns(["image"])], axis=1)
    return table


def _choose_wording(question: str, annotation: Annotation, form: Form) -> str:
    if form in ("named", "text-only"):
        return annotation.named_question or question
    return (annotation.disambiguated_question or question) if form == "disambiguated" else question
