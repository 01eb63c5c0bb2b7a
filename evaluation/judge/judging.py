"""Judges decide whether an answer that is neither exact nor a miss is right; this file chooses one and asks it for a whole run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from tqdm import tqdm

from evaluation.judge.judge_prompts import CHALLENGE_JUDGE
from evaluation.judge.rule_judge import RuleJudge
from evaluation.judge.spending import Paid, Price, Spending, price_of
from evaluation.records import AnsweredTurn, JudgedTurn, JudgeItem, TurnFacts, Verdict
from evaluation.scores.scoring import MissRule, is_exact, is_miss

if TYPE_CHECKING:
    from evaluation.judge.openai_judge import Style


@runtime_checkable
class Judge(Protocol):
    """Decides one item at a time; called from several threads where ``parallel`` is True."""

    name: str
    parallel: bool

    def judge(self, item: JudgeItem) -> Verdict:
        """Whether the response is right.

        Raises:
            JudgeError: The judge is not available.
        """
        ...


def judge_turns(
    turns: Sequence[AnsweredTurn],
    judge: Judge,
    *,
    accept: Mapping[str, Sequence[str]] | None = None,
    facts: Mapping[str, TurnFacts] | None = None,
    miss_rule: MissRule = "either",
    workers: int = 1,
    progress: bool = False,
) -> list[JudgedTurn]:
    """Judge every turn; misses and exact answers need no judge.

    Args:
        accept: Short right answers by interaction_id.
        facts: What is known of turns by interaction_id, for scores of groups.
        workers: Threads, for a judge that waits for a server.

    Raises:
        JudgeError: The judge is not available.
    """
    items = {
        position: JudgeItem(
            turn.query, turn.ground_truth, turn.agent_response, tuple((accept or {}).get(turn.interaction_id, ()))
        )
        for position, turn in enumerate(turns)
        if not is_miss(turn.agent_response, miss_rule) and not is_exact(turn.agent_response, turn.ground_truth)
    }
    verdicts = _ask(judge, items, workers if judge.parallel else 1, progress)
    judged = []
    for position, turn in enumerate(turns):
        exact = is_exact(turn.agent_response, turn.ground_truth)
        miss = is_miss(turn.agent_response, miss_rule)
        verdict = verdicts.get(position)
        judged.append(
            JudgedTurn(
                turn=turn,
                exact=exact,
                miss=miss,
                correct=not miss and (exact or (verdict is not None and verdict.correct)),
                semantic=None if verdict is None else verdict.correct,
                reason="miss" if miss else "exact" if exact else verdict.reason if verdict is not None else "",
                judge_failed=verdict is not None and verdict.failed,
                facts=(facts or {}).get(turn.interaction_id, TurnFacts()),
            )
        )
    return judged


def _ask(judge: Judge, items: Mapping[int, JudgeItem], workers: int, progress: bool) -> dict[int, Verdict]:
    verdicts = {}
    with tqdm(total=len(items), desc="judging", unit="turn", disable=not progress) as bar:
        if workers <= 1:
            for position, item in items.items():
                verdicts[position] = judge.judge(item)
                _step(bar, judge)
            return verdicts
        with ThreadPoolExecutor(max_workers=workers) as pool:
            futures = {pool.submit(judge.judge, item): position for position, item in items.items()}
            try:
                for future in as_completed(futures):
                    verdicts[futures[future]] = future.result()
                    _step(bar, judge)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)  # a wrong key need not be tried a thousand times
                raise
    return verdicts


def _step(bar: tqdm[Any], judge: Judge) -> None:
    if isinstance(judge, Paid):
        bar.set_postfix_str(f"${judge.spending.dollars:.4f}", refresh=False)
    bar.update()


def choose_judge(
    eval_model: str | None,
    *,
    cache: Path,
    style: Style | None = None,
    base_url: str | None = None,
    organiser: Path | None = None,
    max_cost: float | None = None,
    price: Price | None = None,
) -> Judge:
    """The judge named by ``--eval-model``.

    Args:
        eval_model: A model name; "None" or "rule" for the rule judge; None for gpt-4o-mini where OPENAI_API_KEY is set
            and the rule judge elsewhere.
        cache: Folder under which judgements are kept.
        organiser: Checkout of the organiser's code, whose words the model gets in place of ours.
        max_cost: US dollars that this run may spend on the model.
        price: Of the model; that of prices.toml where None.

    Raises:
        JudgeError: A model is named, and there is neither a key nor a server for it; its price is not known but limited; or the
            checkout holds no judge.
    """
    if eval_model is None:
        eval_model = CHALLENGE_JUDGE if os.environ.get("OPENAI_API_KEY") else "None"
    if eval_model.lower() in {"none", "rule", ""}:
        return RuleJudge()
    from evaluation.judge.openai_judge import OpenAIJudge  # its library takes half a second to import

    spending = Spending(price or price_of(eval_model), max_cost)
    return OpenAIJudge(
        eval_model, style=style, base_url=base_url, cache=cache / "judge", organiser=organiser, spending=spending
    )
