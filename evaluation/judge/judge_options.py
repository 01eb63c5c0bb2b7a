"""The flags that a judge behind a server has in every command."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from evaluation.judge.spending import limit, price


def add_judge_options(group: argparse._ArgumentGroup, *, limit_of: str = "this command") -> None:
    """The flags; ``limit_of`` is what ``--max-cost`` holds for."""
    # fmt: off
    add = group.add_argument
    add("--judge-style", choices=["structured", "explained"],
        help="the challenge's prompt or the research release's; None: by rules, or by model")
    add("--organiser", type=Path, metavar="PATH",
        help="checkout of the starter kit or the research release: the judge gets its words (read, never run) "
             "in place of ours")
    add("--max-cost", type=limit, metavar="USD",
        help=f"stop when the judge has cost this in {limit_of}; every judgement is kept, and the same "
             "command goes on from there")
    add("--judge-price", type=price, metavar="READ,WRITTEN",
        help="price of the judge in US dollars for a million tokens; None: that of "
             "evaluation/judge/prices.toml, where it has the model")
    # fmt: on


def judge_settings(options: argparse.Namespace) -> dict[str, Any]:
    """The flags as arguments of ``judging.choose_judge``."""
    return {
        "style": options.judge_style,
        "organiser": options.organiser,
        "max_cost": options.max_cost,
        "price": options.judge_price,
    }
