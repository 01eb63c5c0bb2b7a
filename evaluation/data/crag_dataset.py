"""Loads CRAG-MM data sets, from the hub or from local folders in the same layout."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import datasets
from pydantic import TypeAdapter, ValidationError

from agents.base.files import first_fault
from evaluation.data.dataset_images import EGO_IMAGES, ImageCache, LoadedImage, decode_cell
from evaluation.data.rows import find_label_features, to_session
from evaluation.records import (
    DEFAULT_REVISION,
    AnsweredTurn,
    EvaluationError,
    Session,
    TurnFacts,
    has_question,
    index_questions,
)
from evaluation.rules import OURS, Rules

_Value = TypeVar("_Value")
DatasetType = Literal["single-turn", "multi-turn"]
HUB_ORGANISATION = "crag-mm-2025"
_SHARD = re.compile(r"^(?P<split>.+?)(?:-\d{5}-of-\d{5})?\.parquet$")
_KEPT_IMAGES = 32


@dataclass(frozen=True)
class LocalSource:
    """Parquet files of a local data set.

    Attributes:
        splits: Files of each split, sorted.
        folders: From the folder that has ``data/`` up to the one that the user named. Each may have ``image_cache/``,
            ``accept.json`` and ``content_ids.json``.
    """

    splits: Mapping[str, Sequence[Path]]
    folders: tuple[Path, ...]


def repository_name(dataset_type: DatasetType) -> str:
    """Return the name of the public data set of this type, without the organisation."""
    return f"crag-mm-{dataset_type}-public"


def find_local(path: Path, dataset_type: DatasetType, revision: str) -> LocalSource:
    """Find the parquet files of a local data set.

    Args:
        path: Folder with ``crag-mm-{single,multi}-turn-public/<revision>/data/*.parquet``, or any folder on the way down to ``data``.
        dataset_type: Which of the two data sets.
        revision: Revision of the data set.

    Raises:
        EvaluationError: There is no such folder, revision or file.
    """
    if not path.is_dir():
        raise EvaluationError(f"data set folder {path} does not exist; correct the path")
    folder, chain = path, [path]
    for step in (repository_name(dataset_type), revision):
        if not list_parquet_files(folder) and (folder / step).is_dir():
            folder = folder / step
            chain.insert(0, folder)
    files = list_parquet_files(folder)
    if not files:
        others = sorted(
            str(file.parent.relative_to(path)) for file in path.glob("**/data") if list_parquet_files(file.parent)
        )
        hint = f"; there is {', '.join(others)}" if others else ""
        raise EvaluationError(f"no parquet files of {dataset_type} revision {revision} under {path}{hint}")
    return LocalSource(group_by_split(files), tuple(chain))


def group_by_split(files: Sequence[Path]) -> dict[str, list[Path]]:
    """Group parquet files by the split that their names begin with."""
    splits: dict[str, list[Path]] = {}
    for file in files:
        if match := _SHARD.match(file.name):
            splits.setdefault(match["split"], []).append(file)
    return splits


def list_parquet_files(folder: Path) -> list[Path]:
    """Return the parquet files in ``data/`` below a folder, else those in the folder itself, sorted."""
    return sorted((folder / "data").glob("*.parquet")) or sorted(folder.glob("*.parquet"))


class CragDataset:
    """Sessions of one split, with their images decoded on demand.

    Args:
        table: The split as ``datasets`` loads it.
        name: Name in messages and in the scores.
        images: Source of the images that rows give by URL.
        accept: Short right answers by interaction_id (``accept.json``), for the rule judge.
        facts: Facts about turns by interaction_id (``content_ids.json``), for scores of groups.
        rules: Which sessions are skipped, and how egocentric images are changed.
    """

    def __init__(
        self,
        table: datasets.Dataset,
        name: str,
        images: ImageCache,
        accept: Mapping[str, Sequence[str]],
        facts: Mapping[str, TurnFacts],
        rules: Rules,
    ) -> None:
        self.name = name
        self.accept = {key: tuple(forms) for key, forms in accept.items()}
        self.facts = facts
        self._images = images
        self._fit = EGO_IMAGES[rules.ego_image]
        lacking = {"session_id", "turns"} - set(table.column_names)
        if lacking:
            raise EvaluationError(f"{name} is no CRAG-MM data set: it has no column {', '.join(sorted(lacking))}")
        if "image" not in table.column_names:  # such a data set has all images by URL
            table = table.add_column("image", [None] * len(table), feature=datasets.Image(decode=False))
        labels = find_label_features(table.features)
        rows = table.remove_columns("image")
        skipped = rules.skipped_sessions
        self.sessions: tuple[Session, ...] = tuple(
            # A skipped session keeps its place in the organiser's queue: here as a session without turns.
            Session(row["session_id"], (), position)
            if row.get("session_id") in skipped
            else to_session(row, position, labels, rules)
            for position, row in enumerate(rows)
            if rules.organiser_batches or row.get("session_id") not in skipped
        )
        # Images are decoded on demand, so that a broken one costs its session alone. The cast also accepts columns of bytes or paths.
        self._cells = table.select_columns("image").cast_column("image", datasets.Image(decode=False))
        self._load = lru_cache(maxsize=_KEPT_IMAGES)(self._load_image)

    def image(self, session: Session) -> LoadedImage:
        """Return the image of a session as the evaluator passes it, or None with a note."""
        return self._load(session)

    def load_original(self, session: Session) -> LoadedImage:
        """Return the image of a session in its own size, or None with a note."""
        loaded = decode_cell(self._cells[session.row]["image"])
        if loaded is None and session.image_url:
            loaded = self._images.load(session.image_url)
        if loaded is None:
            return LoadedImage(None, f"session {session.session_id} has neither image nor image_url")
        if loaded.image is None:
            return LoadedImage(None, f"session {session.session_id}: {loaded.note}")
        return loaded

    def identify_photo(self, session: Session) -> str:
        """Return a name for the photo of a session that all sessions about it share; "" without a photo. Nothing is decoded."""
        cell = self._cells[session.row]["image"] or {}
        if cell.get("bytes"):
            return hashlib.sha256(cell["bytes"]).hexdigest()
        return str(cell.get("path") or session.image_url or "")

    def select_accept(self, turns: Iterable[AnsweredTurn]) -> dict[str, Sequence[str]]:
        """Return the accept forms of those turns whose question and truth are this data set's, by interaction_id."""
        return self._select(self.accept, turns)

    def select_facts(self, turns: Iterable[AnsweredTurn]) -> dict[str, TurnFacts]:
        """Return the facts about those turns whose question and truth are this data set's, by interaction_id."""
        return self._select(self.facts, turns)

    def _select(self, values: Mapping[str, _Value], turns: Iterable[AnsweredTurn]) -> dict[str, _Value]:
        questions = index_questions(self.sessions)
        own = {turn.interaction_id for turn in turns if has_question(turn, questions.get(turn.key))}
        return {key: value for key, value in values.items() if key in own}

    def _load_image(self, session: Session) -> LoadedImage:
        loaded = self.load_original(session)
        if loaded.image is None or session.image_url:
            return loaded
        return LoadedImage(self._fit(loaded.image), loaded.note)


def load(
    dataset_type: DatasetType,
    split: str = "validation",
    revision: str = DEFAULT_REVISION,
    path: Path | None = None,
    cache: Path = Path(".cache"),
    online: bool = False,
    rules: Rules = OURS,
) -> CragDataset:
    """Load one split from the hub, or from a local folder.

    Args:
        dataset_type: Which of the two data sets.
        split: Split of the data set.
        revision: Revision of the data set.
        path: Local folder; None: the hub.
        cache: Folder for converted tables (``tables/``) and fetched images (``image_cache/``).
        online: Whether images given by URL may be fetched. Hugging Face's libraries have their own switch for asking a hub.
        rules: See ``CragDataset``.

    Raises:
        EvaluationError: The data set, revision or split does not exist (the message says which ones do) or cannot be read. Or it lacks a
            column, a row is malformed, or ``accept.json`` or ``content_ids.json`` is.
    """
    repository = repository_name(dataset_type)
    folders: tuple[Path, ...] = ()
    if path is None:
        name = f"{HUB_ORGANISATION}/{repository}"
        source: dict[str, Any] = {"path": name, "revision": revision}
        failure = f"{name} (revision {revision}, split {split}) could not be loaded"
        why = "Without network," if online else "No hub is asked while HF_HUB_OFFLINE is set: unset it, or"
        hint = f". {why} name a local copy with --dataset PATH."
    else:
        local = find_local(path, dataset_type, revision)
        folders = local.folders
        if split not in local.splits:
            raise EvaluationError(f"split {split} is not in {folders[0]}; there is {', '.join(sorted(local.splits))}")
        files = [str(file) for file in local.splits[split]]
        name, source = repository, {"path": "parquet", "data_files": {split: files}}
        failure, hint = f"{', '.join(files)} could not be read", ""
        datasets.disable_progress_bars()  # a bar for converting a file that is already here only clutters the terminal
    try:
        table = datasets.load_dataset(**source, split=split, cache_dir=str(cache / "tables"))
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        raise EvaluationError(f"{failure}: {error}{hint}") from error
    images = [folder / "image_cache" for folder in (*folders, cache)]
    return CragDataset(
        table,
        f"{name}@{revision}/{split}",
        ImageCache(images, online),
        read_accept(folders),
        read_facts(folders),
        rules,
    )


def parse_dataset_name(name: str) -> tuple[DatasetType, str, str]:
    """Parse the name by which a run notes its data set: ``crag-mm-TYPE-public@REVISION/SPLIT``.

    Returns:
        Type, revision and split.

    Raises:
        EvaluationError: It is no such name.
    """
    kind = next((kind for kind in get_args(DatasetType) if kind in name), None)
    revision, slash, split = name.partition("@")[2].partition("/")
    if kind is None or not slash:
        raise EvaluationError(
            f"{name!r} does not say which data set it is, as {repository_name('single-turn')}@REVISION/SPLIT"
        )
    return kind, revision, split


def read_accept(folders: Sequence[Path]) -> dict[str, list[str]]:
    """Read ``accept.json`` from the nearest folder that has it: interaction_id -> short right answers.

    Raises:
        EvaluationError: The file is not a JSON object of lists of strings.
    """
    return _read_by_interaction(folders, "accept.json", dict[str, list[str]], "lists of strings")


def read_facts(folders: Sequence[Path]) -> dict[str, TurnFacts]:
    """Read ``content_ids.json`` from the nearest folder that has it: interaction_id -> facts.

    Its other fields are for the lab's benchmarks.

    Raises:
        EvaluationError: The file is not a JSON object of objects, or a fact has another type than in ``TurnFacts``.
    """
    return _read_by_interaction(folders, "content_ids.json", dict[str, TurnFacts], "objects of facts")


def _read_by_interaction(
    folders: Sequence[Path], name: str, kind: type[dict[str, _Value]], description: str
) -> dict[str, _Value]:
    """Read a JSON file from the first folder that has it; empty if none has."""
    file = next((file for folder in folders if (file := folder / name).is_file()), None)
    if file is None:
        return {}
    try:
        return TypeAdapter(kind).validate_json(file.read_bytes(), strict=True)
    except ValidationError as error:
        raise EvaluationError(f"{file} must map interaction ids to {description} ({first_fault(error)})") from error
