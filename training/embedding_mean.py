"""Write the mean embedding of the knowledge graph's photographs, which object embeddings subtract.

    python -m training.embedding_mean [--split validation]

``agents.models.vision.object_embedding`` subtracts it. No question photo is used. Indices built with another mean have to be
built again.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
from pydantic import Field

from agents.base.command_options import Options
from agents.base.printing import print_text
from agents.models.vision.object_embedding import MEAN_FILE, ObjectEmbedding
from mini_crag_mm.content_models import Split
from mini_crag_mm.loader import read_index_image, read_kg


class EmbeddingMeanOptions(Options):
    """Options of the mean."""

    split: Split = Field("validation", description="split whose graph is read")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the mean beside the model that uses it."""
    options = EmbeddingMeanOptions.parse(arguments, description=__doc__)
    photographs = [read_index_image(row) for row in read_kg(options.split)]
    np.save(MEAN_FILE, ObjectEmbedding(centred=False).encode(photographs).mean(axis=0))
    print_text(f"{MEAN_FILE}: mean of {len(photographs)} photographs of {options.split}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
