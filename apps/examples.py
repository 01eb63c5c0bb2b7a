"""Questions that the page begins with: out of the questions of a collection, or of the files that come with the mini set."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from apps.answering import About, PhotoError, read_photo
from evaluation.data.question_files import OwnDialog, find_questions, read_questions
from evaluation.records import EvaluationError
from mini_crag_mm.content_models import SPLITS
from mini_crag_mm.loader import SET

_WITH_PHOTO = 4  # examples with a photo that have an answer; further ones: one without a photo, one that has no answer
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Example:
    """A question to begin with, about a photo or about pages alone; ``answerable`` is False if it must be declined."""

    question: str
    photo: Image.Image | None = None
    answerable: bool = True


def find_examples(about: About | None, knowledge: Path | None = None) -> list[Example]:
    """Return the examples of a page, those that have an answer first.

    Args:
        about: The agent; None: unknown.
        knowledge: Folder of the collection that is searched; None: a split is searched.

    Returns:
        [] if there are no questions, or if they cannot be used, which a warning says.
    """
    try:
        return [make_example(dialog) for dialog in find_dialogs(about, knowledge)]
    except (EvaluationError, PhotoError) as error:
        _log.warning("the page has no examples: %s", error)
        return []


def find_dialogs(about: About | None, knowledge: Path | None = None) -> list[OwnDialog]:
    """Return the dialogs whose first questions are the examples of a page (``find_examples``).

    None is chosen by how it is answered: the first about each of four photos in the order of the file, the first without a photo, and the
    first that has no answer.

    Raises:
        EvaluationError: The questions cannot be read.
    """
    file = _find_file(about, knowledge)
    dialogs = [] if file is None else read_questions(file)
    answerable = [dialog for dialog in dialogs if dialog.turns[0].answers]
    unknown = [dialog for dialog in dialogs if not dialog.turns[0].answers]
    return [
        *[*_first_by_photo(answerable)][:_WITH_PHOTO],
        *[dialog for dialog in answerable if dialog.photo is None][:1],
        *sorted(unknown, key=lambda dialog: dialog.photo is None)[:1],
    ]


def _find_file(about: About | None, knowledge: Path | None) -> Path | None:
    if knowledge is not None:
        return find_questions(knowledge)
    split = next((split for split in SPLITS if about is not None and about.split == split), None)
    return None if split is None else SET.examples(split)


def _first_by_photo(dialogs: Sequence[OwnDialog]) -> Iterator[OwnDialog]:
    seen: set[Path] = set()
    for dialog in dialogs:
        if dialog.photo is not None and dialog.photo not in seen:
            seen.add(dialog.photo)
            yield dialog


def make_example(dialog: OwnDialog) -> Example:
    """Make an example of the first question of a dialog.

    Raises:
        PhotoError: Its photo cannot be read.
    """
    first = dialog.turns[0]
    return Example(
        first.question, None if dialog.photo is None else read_photo(dialog.photo), answerable=bool(first.answers)
    )
