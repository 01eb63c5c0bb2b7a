"""Chooses a judge and asks it for a whole run. Judges decide on answers that are neither exact nor a refusal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Protocol, runtime_checkable

from agents.base.files import one_line, well_formed
from agents.base.named import ImportPath, import_object, import_path
from evaluation.judge.inactivity import GIVE_UP_AFTER
from evaluation.judge.rule_judge import RuleJudge
from evaluation.judge.spending import Paid, Price, Spending, look_up_price
from evaluation.progress import MakeBar, turn_bar
from evaluation.records import (
    REPLIES,
    AnsweredTurn,
    JudgedTurn,
    JudgeError,
    JudgeItem,
    NoVerdictError,
    TurnFacts,
    Verdict,
)
from evaluation.rules import OURS, JudgeStyle, Rules
from evaluation.scores.scoring import is_exact, is_miss


@runtime_checkable
class Judge(Protocol):
    """Judge that decides one item at a time, in several threads if ``parallel`` is True."""

    name: str
    parallel: bool

    def judge(self, item: JudgeItem) -> Verdict:
        """Judge whether the response is right.

        Raises:
            JudgeError: The judge is not available.
        """


@runtime_checkable
class BatchJudge(Judge, Protocol):
    """Judge that decides ``batch`` items in one call of its model."""

    batch: int

    def judge_batch(self, items: Sequence[JudgeItem]) -> list[Verdict]:
        """Judge some items, in their order."""


JUDGING = "judging"
"""Name on the progress bar."""

LOCAL = "local"
"""Name, as ``local`` or ``local:PROFILE``, of the judge that needs no server: the chat model of a profile."""

BEM = "bem"
"""Name, as ``bem:PATH``, of the judge of answer equivalence over a checkpoint."""

LocalJudges = Callable[[str, Path], Judge]
"""Makes the local judge of a profile's name and the cache folder. Callers pass it, since judges do not import the agent."""

LOCAL_PROFILE = "embedded"


class NoJudge:
    """Judge that calls every item wrong: ``--eval-model None`` in the organiser's releases.

    Exact answers, which need no judge, are then the only correct ones.
    """

    name = "none (exact answers alone)"
    parallel = False

    def judge(self, item: JudgeItem) -> Verdict:  # noqa: ARG002
        """Return a wrong verdict, whatever the item."""
        return Verdict(False)


def judge_turns(
    turns: Sequence[AnsweredTurn],
    judge: Judge,
    *,
    accept: Mapping[str, Sequence[str]] | None = None,
    facts: Mapping[str, TurnFacts] | None = None,
    rules: Rules = OURS,
    workers: int = 1,
    progress: bool = False,
    bars: MakeBar = turn_bar,
    max_failures: int = GIVE_UP_AFTER,
) -> list[JudgedTurn]:
    """Judge every turn; misses and exact answers need no judge.

    Args:
        turns: Answered turns.
        judge: Decides on the other answers.
        accept: Short right answers by interaction_id.
        facts: Facts about turns by interaction_id, for scores of groups.
        rules: Which answers are misses, and whether these may be correct.
        workers: Threads, for a judge that waits for a server.
        progress: Whether there is a progress bar.
        bars: Makes the progress bar.
        max_failures: Number of judgements in a row without a verdict that end the judging; 0: any.

    Raises:
        JudgeError: The judge is not available.
        NoVerdictError: It gave no verdict ``max_failures`` times in a row.
    """
    judged = []
    items = {}
    for position, turn in enumerate(turns):
        exact = is_exact(turn.agent_response, turn.ground_truth)
        miss = is_miss(turn.agent_response, rules.miss_rule)
        turn_facts = (facts or {}).get(turn.interaction_id, TurnFacts())
        correct = exact and (rules.known_miss_is_correct or not miss)
        reason = "miss" if miss else "exact" if exact else ""
        judged.append(JudgedTurn(turn, exact, miss, correct, reason=reason, facts=turn_facts))
        if not reason:
            forms = tuple((accept or {}).get(turn.interaction_id, ()))
            items[position] = JudgeItem(turn.query, turn.ground_truth, turn.agent_response, forms)
    failures: list[str] = []
    with bars(JUDGING, len(items), is_visible=progress) as bar:
        for position, verdict in _verdicts(judge, items, workers if judge.parallel else 1):
            judged[position] = replace(
                judged[position],
                correct=verdict.correct,
                semantic=verdict.correct,
                reason=well_formed(verdict.reason),  # a server's JSON may hold anything
                judge_failed=verdict.failed,
            )
            if isinstance(judge, Paid):
                bar.set_postfix_str(f"${judge.spending.dollars:.4f}", refresh=False)
            bar.update()
            failures = [*failures, verdict.reason] if verdict.failed else []
            if max_failures and len(failures) >= max_failures:
                raise NoVerdictError(
                    f"stopped: the judge gave no verdict {len(failures)} times in a row ({one_line(failures[0])}); without one there is no "
                    "score: mend that, then run the same command again, a run with --resume; verdicts given before are kept "
                    "(crag run --max-failures 0 goes on regardless)"
                )
    return judged


def _verdicts(judge: Judge, items: Mapping[int, JudgeItem], workers: int) -> Iterator[tuple[int, Verdict]]:
    """Yield the verdict of each item with its key, as they are made."""
    if isinstance(judge, BatchJudge):
        places = list(items)
        for start in range(0, len(places), judge.batch):
            some = places[start : start + judge.batch]
            yield from zip(some, judge.judge_batch([items[position] for position in some]), strict=True)
    elif workers <= 1:
        for position, item in items.items():
            yield position, judge.judge(item)
    else:
        with ThreadPoolExecutor(max_workers=workers) as pool:
            left = iter(items.items())
            under_way = {pool.submit(judge.judge, item): position for position, item in islice(left, workers)}
            try:
                while under_way:
                    done, _ = wait(under_way, return_when=FIRST_COMPLETED)
                    for future in done:
                        yield under_way.pop(future), future.result()
                        # No thread runs ahead of the caller, who counts failures and what is paid
                        for position, item in islice(left, 1):
                            under_way[pool.submit(judge.judge, item)] = position
            finally:
                pool.shutdown(wait=False, cancel_futures=True)  # do not try a wrong key a thousand times


def choose_judge(
    eval_model: str | None,
    *,
    cache: Path,
    style: JudgeStyle | None = None,
    rules: Rules = OURS,
    base_url: str | None = None,
    organiser: Path | None = None,
    max_cost: float | None = None,
    price: Price | None = None,
    local: LocalJudges | None = None,
) -> Judge:
    """Return the judge that ``--eval-model`` names.

    Args:
        eval_model: A model name; "rule" for the rule judge; "local" or "local:PROFILE" for the chat model of a profile; "bem:PATH" for
            a checkpoint of answer equivalence; "None" for the rule judge or for no judge, by the rules;
            ``package.module:Class`` for a ``Judge`` of one's own, built without arguments. None: the rule judge, also with a key:
            questions and answers leave the process only if a model is named.
        cache: Folder of models and replies.
        style: Form of its reply; None: that of the organiser's words, or else of the rules.
        rules: Choose the form of a model's reply, and the judge "None".
        base_url: Server of the model; None: ``OPENAI_BASE_URL``, or else OpenAI's own.
        organiser: Checkout of the organiser's code, whose words the model gets in place of ours.
        max_cost: US dollars that this run may spend on the model.
        price: Price of the model; None: the one in prices.toml.
        local: Makes the judges called ``local``; None: there are none.

    Raises:
        JudgeError: The model has neither a key nor a server; its cost is limited but its price unknown; the
            checkout has no judge; or a judge of one's own cannot be imported or is none.
    """
    eval_model = eval_model or "rule"
    name, _, profile = eval_model.partition(":")
    without_server: dict[str, Callable[[], Judge]] = {
        "rule": RuleJudge,
        "none": RuleJudge if rules.rule_judge else NoJudge,
        LOCAL: lambda: _build_local_judge(local, profile or LOCAL_PROFILE, cache),
        BEM: lambda: _build_bem_judge(profile),
    }
    if (make := without_server.get(name if name in (LOCAL, BEM) else eval_model.lower())) is not None:
        return make()
    if (place := _parse_class(eval_model)) is not None:
        return _build_own_judge(place)
    from evaluation.judge.openai_judge import OpenAIJudge  # its library takes half a second to import

    spending = Spending(price or look_up_price(eval_model), max_cost)
    style = style or (rules.judge_reply if organiser is None else None)
    return OpenAIJudge(
        eval_model, style=style, base_url=base_url, cache=cache / REPLIES, organiser=organiser, spending=spending,
        exact_verdicts=rules.exact_verdicts,
    )  # fmt: skip


def needs_accepted_answers(judge: str) -> bool:
    """Return whether the verdicts of the judge with this name depend on accepted answers: those of the rule judge do."""
    return judge == RuleJudge.name


def explain_strictness(judge: str) -> str:
    """Explain why the rule judge is stricter without a data set; "" for other judges."""
    if not needs_accepted_answers(judge):
        return ""
    return "without --dataset the rule judge knows no accepted answers, and takes more right answers for wrong"


def _build_local_judge(local: LocalJudges | None, profile: str, cache: Path) -> Judge:
    if local is None:
        raise JudgeError(f"--eval-model {LOCAL} is for local_evaluation.py and evaluation.studies; judge there")
    return local(profile, cache)


def _build_bem_judge(path: str) -> Judge:
    if not path:
        raise JudgeError("--eval-model bem lacks its checkpoint; write bem:PATH, or bem:ID for a model of the hub")
    from evaluation.judge.bem_judge import BemJudge  # torch takes seconds to import

    return BemJudge(path)


def _parse_class(eval_model: str) -> ImportPath | None:
    """Parse ``package.module:Class``, whose last word has to begin with a capital, as classes do.

    ``llama3:instruct`` is a model of a server.
    """
    place = import_path(eval_model)
    return place if place is not None and place.attribute.rpartition(".")[2][0].isupper() else None


def _build_own_judge(place: ImportPath) -> Judge:
    factory = import_object(place, str(place), "judge", JudgeError)
    try:
        judge = factory()
    except TypeError as error:  # it is no class, or has parameters
        raise JudgeError(f"judge '{place}' cannot be built without arguments: {error}") from error
    if not isinstance(judge, Judge):
        lacks = [name for name in ("name", "parallel", "judge") if not hasattr(judge, name)]
        raise JudgeError(f"judge '{place}' is no evaluation.judge.judging.Judge; it lacks: {', '.join(lacks)}")
    return judge
