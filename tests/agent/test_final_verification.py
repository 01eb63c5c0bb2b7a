"""Algorithm 1 of CRUISE: the whole truth table, written out from the printed lines, and what they leave open."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.decision.algorithm1 import Branch, final_branch, stands

WEAK, STRONG = 0.05, 0.4  # S_ret below and above tau_ret = 0.1
LOW, MIDDLE, SURE = 0.89, 0.95, 1.0  # S_CoV below tau_low = 0.9, between both, and tau_high = 1.0


def branch(
    real_time: bool, retrieval: float, context: bool, consistent: bool | None, confidence: float | None
) -> Branch:
    return final_branch(
        real_time=real_time,
        retrieval=retrieval,
        context=context,
        consistent=consistent,
        confidence=confidence,
        min_retrieval=0.1,
        low=0.9,
        high=1.0,
    )


# r, S_ret, C, consistent, S_CoV -> the line it ends on; all 2 x 2 x 2 x 2 x 3 rows
TABLE: dict[tuple[bool, float, bool, bool, float], Branch] = {
    # not about the present, context
    (False, WEAK, True, True, LOW): "unsure",
    (False, WEAK, True, True, MIDDLE): "grounded",
    (False, WEAK, True, True, SURE): "grounded",
    (False, WEAK, True, False, LOW): "inconsistent",
    (False, WEAK, True, False, MIDDLE): "inconsistent",
    (False, WEAK, True, False, SURE): "inconsistent",
    (False, STRONG, True, True, LOW): "unsure",
    (False, STRONG, True, True, MIDDLE): "grounded",
    (False, STRONG, True, True, SURE): "grounded",
    (False, STRONG, True, False, LOW): "inconsistent",
    (False, STRONG, True, False, MIDDLE): "inconsistent",
    (False, STRONG, True, False, SURE): "inconsistent",
    # not about the present, no context
    (False, WEAK, False, True, LOW): "unsure",
    (False, WEAK, False, True, MIDDLE): "unsure",
    (False, WEAK, False, True, SURE): "prior",
    (False, WEAK, False, False, LOW): "unsure",
    (False, WEAK, False, False, MIDDLE): "unsure",
    (False, WEAK, False, False, SURE): "unsure",
    (False, STRONG, False, True, LOW): "unsure",
    (False, STRONG, False, True, MIDDLE): "unsure",
    (False, STRONG, False, True, SURE): "prior",
    (False, STRONG, False, False, LOW): "unsure",
    (False, STRONG, False, False, MIDDLE): "unsure",
    (False, STRONG, False, False, SURE): "unsure",
    # about the present, context
    (True, WEAK, True, True, LOW): "stale",
    (True, WEAK, True, True, MIDDLE): "stale",
    (True, WEAK, True, True, SURE): "stale",
    (True, WEAK, True, False, LOW): "stale",
    (True, WEAK, True, False, MIDDLE): "stale",
    (True, WEAK, True, False, SURE): "stale",
    (True, STRONG, True, True, LOW): "unsure",
    (True, STRONG, True, True, MIDDLE): "grounded",
    (True, STRONG, True, True, SURE): "grounded",
    (True, STRONG, True, False, LOW): "inconsistent",
    (True, STRONG, True, False, MIDDLE): "inconsistent",
    (True, STRONG, True, False, SURE): "inconsistent",
    # about the present, no context
    (True, WEAK, False, True, LOW): "stale",
    (True, WEAK, False, True, MIDDLE): "stale",
    (True, WEAK, False, True, SURE): "stale",
    (True, WEAK, False, False, LOW): "stale",
    (True, WEAK, False, False, MIDDLE): "stale",
    (True, WEAK, False, False, SURE): "stale",
    (True, STRONG, False, True, LOW): "unsure",
    (True, STRONG, False, True, MIDDLE): "unsure",
    (True, STRONG, False, True, SURE): "prior",
    (True, STRONG, False, False, LOW): "unsure",
    (True, STRONG, False, False, MIDDLE): "unsure",
    (True, STRONG, False, False, SURE): "unsure",
}


def test_the_table_is_whole() -> None:
    booleans = (False, True)
    assert set(TABLE) == set(itertools.product(booleans, (WEAK, STRONG), booleans, booleans, (LOW, MIDDLE, SURE)))


@pytest.mark.parametrize("row", TABLE, ids=str)
def test_every_row_ends_on_its_line(row: tuple[bool, float, bool, bool, float]) -> None:
    assert branch(*row) == TABLE[row]


def test_thresholds_themselves_suffice() -> None:
    assert branch(True, 0.1, True, True, 0.9) == "grounded"
    assert branch(False, 0.0, False, True, math.nextafter(1.0, 0.0)) == "unsure"


@pytest.mark.parametrize("context", [True, False])
def test_what_is_not_known_never_lets_an_answer_stand(context: bool) -> None:
    assert not stands(branch(False, STRONG, context, None, SURE))
    assert not stands(branch(False, STRONG, context, True, None))
    assert not stands(branch(False, STRONG, context, True, math.nan))
    assert branch(True, math.nan, context, True, SURE) == "stale"


@given(st.booleans(), st.floats(0, 1), st.booleans(), st.sampled_from([True, False, None]), st.none() | st.floats(0, 1))
def test_an_answer_stands_only_where_the_checks_agree(
    real_time: bool, retrieval: float, context: bool, consistent: bool | None, confidence: float | None
) -> None:
    given_out = stands(branch(real_time, retrieval, context, consistent, confidence))
    min_confidence = 0.9 if context else 1.0
    assert given_out == (
        consistent is True
        and confidence is not None
        and confidence >= min_confidence
        and not (real_time and retrieval < 0.1)
    )
