"""Cut-offs that follow the scores they cut."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def mad_threshold(scores: Sequence[float], *, tau: float, lam: float, top: int = 10) -> float:
    """The dynamic relevance threshold of CRUISE (section 3.2, eq. 5): max(tau, median - lam * MAD) over the best ``top`` scores.

    MAD is the median absolute deviation from the median. Without any score the threshold is ``tau``.

    Args:
        scores: Reranker scores in any order, 0 to 1; what is not finite is left out.
        tau: Least score that is ever relevant.
        lam: How far below the median a score may lie, in MADs.
        top: How many of the best scores are looked at.
    """
    best = sorted((score for score in scores if np.isfinite(score)), reverse=True)[:top]
    if not best:
        return tau
    median = float(np.median(best))
    deviation = float(np.median(np.abs(np.asarray(best) - median)))
    return max(tau, median - lam * deviation)
