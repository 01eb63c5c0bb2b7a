"""The flags that a judge behind a server has in every command."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from evaluation.judge.spending import limit, price


def add_judge_options(group: argparse._ArgumentGroup) -> None:
    """What a judge may cost, and whose words it gets."""
    group.add_argument(
        "--organiser",
        type=Path,
        metavar="PATH",
        help="checkout of the starter kit or the research release: the judge gets its words (read, never run) in place of ours",
    )
    group.add_argument(
        "--max-cost",
        type=limit,
        metavar="USD",
        help="stop when the judge has cost this; every judgement is kept, and the same command goes on from there",
    )
    group.add_argument(
        "--judge-price",
        type=price,
        metavar="READ,WRITTEN",
        help="price of the judge in US dollars for a million tokens; None: that of evaluation/judge/prices.toml, where it has the model",
    )


def judge_settings(options: argparse.Namespace) -> dict[str, Any]:
    """The flags as arguments of ``judging.choose_judge``."""
    return {"organiser": options.organiser, "max_cost": options.max_cost, "price": options.judge_price}
