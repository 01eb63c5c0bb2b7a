"""Fluency by MAUVE (Pillutla et al. 2021): how near the answers lie to those of people, from feature vectors of both."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

LEAST_TEXTS = 4
"""With fewer texts on one side there is nothing to cluster."""


def mauve(answers: npt.ArrayLike, truths: npt.ArrayLike, seed: int = 25) -> float | None:
    """MAVIS, section 4.3: MAUVE between answers and ground truths, 0 to 1; None for too few of them.

    The paper's features are those of GPT-2 over thousands of texts; here they come from the caller, and over a hundred texts the
    value is a sanity check at most: compare runs over the same questions and features only.

    Args:
        answers: A feature vector of each answer, shape (answers, dimensions).
        truths: The same of the ground truths, shape (truths, dimensions).
        seed: Of the clustering; the default is the library's.
    """
    p, q = (np.asarray(features, dtype=np.float32) for features in (answers, truths))
    if min(len(p), len(q)) < LEAST_TEXTS:
        return None
    from mauve import compute_mauve  # imports faiss: a second that other metrics need not pay

    return float(compute_mauve(p_features=p, q_features=q, seed=seed, verbose=False).mauve)
