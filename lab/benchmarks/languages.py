"""Languages: does a text encoder find the page that answers a question in another language?

    python -m lab.benchmarks.languages                                        # MiniLM, which `crag index` uses
    python -m lab.benchmarks.languages --text-model ORG/NAME@COMMIT           # another encoder, as in [search] of a profile

Ten pages of an invented park (languages.toml), each in English, German, Spanish and Japanese, and a question to each. A cell counts the
questions whose page comes first among the ten of one language; the last column is among all forty, where the page may be in any language.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from pydantic import Field

from agents.base.command_options import Options
from agents.base.files import read_toml
from agents.models.base import FloatArray
from agents.search.encoders import MINILM, TextIndexEncoder
from evaluation.commands import make_console
from lab.benchmarks.common import build_table, run

LANGUAGES: Mapping[str, str] = {"en": "English", "de": "German", "es": "Spanish", "ja": "Japanese"}


class LanguagesOptions(Options):
    """Options of the measurement."""

    text_model: str = Field(MINILM, description="minilm, or the folder or ORG/NAME@COMMIT of an encoder")


def measure(options: LanguagesOptions) -> int:
    """Print the table."""
    exhibits = read_toml(Path(__file__).with_suffix(".toml"))["exhibits"]
    encoder = TextIndexEncoder.load(options.text_model, 16)
    texts = {
        (code, part): encoder.embed([exhibit[code][part] for exhibit in exhibits])
        for code in LANGUAGES
        for part in ("question", "page")
    }
    rows = build_rows(texts)
    title = f"Right page first, of {len(exhibits)} questions ({options.text_model})"
    headings = ("question in", *(f"{name} pages" for name in LANGUAGES.values()), "all pages")
    make_console().print(build_table(title, headings, rows))
    return 0


def build_rows(texts: Mapping[tuple[str, str], FloatArray]) -> list[list[str]]:
    """Count for each language of questions how often the right page is nearest, by the language of the pages.

    Args:
        texts: Embeddings of the questions and pages by language and part, shape (exhibits, dimensions).
    """
    rows = []
    for code, name in LANGUAGES.items():
        questions = texts[code, "question"]
        cosines = [questions @ texts[other, "page"].T for other in LANGUAGES]
        everywhere = np.concatenate(cosines, axis=1).argmax(axis=1) % len(questions)
        nearest = [*(each.argmax(axis=1) for each in cosines), everywhere]
        rows.append([name, *(str(int((each == np.arange(len(questions))).sum())) for each in nearest)])
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table.

    Returns:
        0, or 2 if the encoder cannot be loaded.
    """
    return run(measure, LanguagesOptions, arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
