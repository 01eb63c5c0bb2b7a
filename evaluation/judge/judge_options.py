"""The flags that a judge behind a server has in every command."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from evaluation.judge.spending import limit, price


def add_judge_options(group: argparse._ArgumentGroup, *, limit_of: str = "this command") -> None:
    """What a judge may cost, the form of its reply, and whose words it gets.

    Args:
        limit_of: What ``--max-cost`` holds for.
    """
    group.add_argument(
        "--judge-style",
        choices=["structured", "explained"],
        help="the challenge's prompt or the research release's; None: by rules, or by model",
    )
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
        help=f"stop when the judge has cost this in {limit_of}; every judgement is kept, and the same command goes on from there",
    )
    group.add_argument(
        "--judge-price",
        type=price,
        metavar="READ,WRITTEN",
        help="price of the judge in US dollars for a million tokens; None: that of evaluation/judge/prices.toml, where it has the model",
    )


def judge_settings(options: argparse.Namespace) -> dict[str, Any]:
    """The flags as arguments of ``judging.choose_judge``."""
    return {
        "style": options.judge_style,
        "organiser": options.organiser,
        "max_cost": options.max_cost,
        "price": options.judge_price,
    }


def judge_arguments(options: argparse.Namespace) -> list[str]:
    """The flags as they were given, for a command that starts others."""
    price = options.judge_price
    given = {**judge_settings(options), "price": f"{price.read},{price.written}" if price is not None else None}
    names = {"style": "judge-style", "max_cost": "max-cost", "price": "judge-price"}
    return [f"--{names.get(name, name)}={value}" for name, value in given.items() if value is not None]
