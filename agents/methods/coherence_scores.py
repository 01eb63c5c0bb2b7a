"""How well pieces of evidence agree: the formulas of semantic coherence filtering (section 3.1, algorithm 1 of the paper)."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist

Metric = Literal["l1", "euclidean", "cosine"]
Matrix = npt.NDArray[np.float64]

_DISTANCES: dict[Metric, Literal["cityblock", "euclidean"]] = {"l1": "cityblock", "euclidean": "euclidean"}


def similarities(rows: npt.ArrayLike, columns: npt.ArrayLike, metric: Metric) -> Matrix:
    """Similarity of every row vector to every column vector, shape (rows, columns); higher is more alike; ValueError for other dimensions.

    ``cosine`` is the cosine, -1 to 1, and 0 to a vector of length 0. ``l1`` and ``euclidean`` are distances d in the paper; here
    1 / (1 + d), from 0 to 1: the order is that of the distances, and a far outlier cannot outweigh all others in a mean.
    """
    a, b = (np.asarray(matrix, dtype=np.float64) for matrix in (rows, columns))
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        raise ValueError(f"two matrices of vectors of one dimension are needed, not {a.shape} and {b.shape}")
    if metric == "cosine":
        return np.asarray(_unit(a) @ _unit(b).T, dtype=np.float64)
    return np.asarray(1.0 / (1.0 + cdist(a, b, _DISTANCES[metric])), dtype=np.float64)


def mean_pairwise(similarity: Matrix) -> Matrix:
    """c_i = sum over j != i of Sim(e_i, e_j), divided by |E| - 1 (section 3.1), of shapes (n, n) to (n,); 0 for an item that is alone."""
    n = len(similarity)
    if n < 2:
        return np.zeros(n)
    return np.asarray((similarity.sum(axis=1) - np.diagonal(similarity)) / (n - 1), dtype=np.float64)


def top(scores: Sequence[float] | Matrix, k: int) -> list[int]:
    """The places of the k highest scores, best first; of equals the earlier one, and NaN never."""
    known = [place for place, score in enumerate(scores) if not np.isnan(score)]
    return sorted(known, key=lambda place: -scores[place])[:k]


def _unit(vectors: Matrix) -> Matrix:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0), dtype=np.float64)
