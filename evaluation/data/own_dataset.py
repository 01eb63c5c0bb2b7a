"""A file of one's own questions as a data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets

from evaluation.data import crag_dataset
from evaluation.data.crag_dataset import CragDataset, DatasetType
from evaluation.data.dataset_images import ImageCache, LoadedImage
from evaluation.data.question_files import OwnDialog, find_questions, read_questions
from evaluation.records import I_DONT_KNOW, Session, TurnFacts
from evaluation.rules import OURS, Rules

_OR = " or "
"""Between the accepted answers in the ground truth, which a judge other than the rule judge reads."""


Exhibits = Mapping[Path, Sequence[str]]
"""Names of what each photo of a collection shows, by the resolved path of the photo."""


class OwnQuestions(CragDataset):
    """Questions of a file; those without a photo are asked without one.

    Photos stay as they are, as every application passes them.

    Attributes:
        photos: Path of each session's photo, or None.
    """

    def __init__(
        self, dialogs: list[OwnDialog], name: str, rules: Rules = OURS, exhibits: Exhibits | None = None
    ) -> None:
        accept = {turn.interaction_id: turn.answers for dialog in dialogs for turn in dialog.turns if turn.answers}
        facts = {
            turn.interaction_id: TurnFacts(
                answerable=bool(turn.answers), identity=_asks_name(dialog.photo, turn.answers, exhibits or {})
            )
            for dialog in dialogs
            for turn in dialog.turns
        }
        table = datasets.Dataset.from_list([_to_crag_layout(dialog) for dialog in dialogs], features=_FEATURES)
        own_rules = replace(rules, blank_address_is_ego=False, ego_image="as it is")
        super().__init__(table, name, ImageCache([], online=False), accept, facts, own_rules)
        self.photos = {dialog.session_id: dialog.photo for dialog in dialogs}

    def _load_image(self, session: Session) -> LoadedImage:
        if self.photos[session.session_id] is None:
            return LoadedImage(None)
        return self.load_original(session)


def _asks_name(photo: Path | None, answers: Sequence[str], exhibits: Exhibits) -> bool | None:
    """Return whether the name of the depicted exhibit is an accepted answer; None if no exhibit is known.

    Nothing says which exhibit a visitor's photo shows, so that the name of any of them counts for it.
    """
    if not exhibits:
        return None
    if photo is None:
        return False
    names = exhibits.get(photo.resolve()) or [name for names in exhibits.values() for name in names]
    return not {name.casefold() for name in names}.isdisjoint(answer.casefold() for answer in answers)


_FEATURES = datasets.Features(
    {
        "session_id": datasets.Value("string"),
        "image": {"bytes": datasets.Value("binary"), "path": datasets.Value("string")},
        "image_url": datasets.Value("string"),
        "turns": datasets.List(dict.fromkeys(("interaction_id", "query"), datasets.Value("string"))),
        "answers": datasets.List(dict.fromkeys(("interaction_id", "ans_full"), datasets.Value("string"))),
    }
)


def _to_crag_layout(dialog: OwnDialog) -> dict[str, Any]:
    return {
        "session_id": dialog.session_id,
        "image": {"bytes": None, "path": None if dialog.photo is None else str(dialog.photo)},
        "image_url": "",  # no photo of smart glasses
        "turns": [{"interaction_id": turn.interaction_id, "query": turn.question} for turn in dialog.turns],
        "answers": [
            {"interaction_id": turn.interaction_id, "ans_full": _OR.join(turn.answers) or I_DONT_KNOW}
            for turn in dialog.turns
        ],
    }


def load_own_questions(file: Path, rules: Rules = OURS, exhibits: Exhibits | None = None) -> OwnQuestions:
    """Load a file of questions.

    Args:
        file: The file.
        rules: See ``CragDataset``.
        exhibits: What the photos of the collection show, by which questions of identity are told.

    Raises:
        EvaluationError: The file cannot be read, or rows are malformed (``question_files.read_questions``).
    """
    return OwnQuestions(read_questions(file), f"{file.resolve().parent.name}/{file.name}", rules, exhibits)


def load(
    dataset_type: DatasetType,
    split: str,
    revision: str,
    path: Path | None,
    cache: Path,
    *,
    online: bool = False,
    rules: Rules = OURS,
    exhibits: Exhibits | None = None,
) -> CragDataset:
    """Load what ``--dataset`` names: a file of one's own questions, which has no types or splits, or a data set in the organiser's layout.

    Raises:
        EvaluationError: As for ``load_own_questions`` and ``crag_dataset.load``.
    """
    if path is not None and (file := find_questions(path)) is not None:
        return load_own_questions(file, rules, exhibits)
    return crag_dataset.load(dataset_type, split, revision, path, cache, online=online, rules=rules)
