"""Judges behind an OpenAI-compatible server: the challenge's structured one and the research release's explained one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agents.asking.ask import Ask, Question, Template, Templates, put
from agents.base.secrets import scrub
from evaluation.judge.asking import cache_replies, convert_to_judge_errors, judge_prompts
from evaluation.judge.organiser_prompt import read_organiser
from evaluation.judge.replies import EXACT_FORMS, FORMS
from evaluation.judge.server import JudgeServer
from evaluation.judge.spending import Spending, look_up_price
from evaluation.records import JudgeError, JudgeItem, Verdict
from evaluation.rules import JudgeStyle

TRIES = 3
"""Number of requests for a reply that has a verdict (starter kit)."""


def choose_style(model: str) -> JudgeStyle:
    """Return the default style of a model.

    Returns:
        "explained" for gpt-4o (research release), "structured" for others (challenge).
    """
    name = model.rsplit("/", 1)[-1]
    return "explained" if name.startswith("gpt-4o") and "mini" not in name else "structured"


class OpenAIJudge:
    """Judge that asks a chat model; see ``JudgeServer`` for its other arguments.

    Args:
        style: ``structured`` or ``explained``; None: by the model's name.
        cache: Folder of the replies that have a verdict; None: no cache.
        organiser: Checkout of the organiser's code, whose words are used in place of ours.
        exact_verdicts: Style whose replies are parsed exactly as the organiser does; with the organiser's words each is.
        server: Arguments of ``JudgeServer``: timeout, patience and pauses.

    Raises:
        JudgeError: There is no key for OpenAI's own server; the checkout has no such words, or words of the other style; or prompt or
            cache cannot be read.
    """

    parallel = True

    def __init__(
        self,
        model: str,
        *,
        style: JudgeStyle | None = None,
        base_url: str | None = None,
        cache: Path | None = None,
        organiser: Path | None = None,
        spending: Spending | None = None,
        exact_verdicts: JudgeStyle | None = None,
        **server: Any,
    ) -> None:
        self.spending = spending or Spending(look_up_price(model))
        judge_server = JudgeServer(
            model, "--eval-model None for the rule judge", base_url, spending=self.spending, **server
        )
        theirs = read_organiser(organiser) if organiser is not None else None
        if theirs is not None and style not in (None, theirs.style):
            raise JudgeError(f"--organiser {organiser}: its judge is {theirs.style}, not {style}")
        self.style: JudgeStyle = theirs.style if theirs is not None else style or choose_style(model)
        words = theirs.words if theirs is not None else "our words"
        self.name = f"{model} ({'; '.join(filter(None, (self.style, words, judge_server.address)))})"
        forms = EXACT_FORMS if theirs is not None or exact_verdicts == self.style else FORMS
        self._ask = Ask(self.style, forms[self.style])
        own: dict[str, Template] = {self.style: theirs} if theirs is not None else {}
        self._prompts: Templates = own or judge_prompts()
        with convert_to_judge_errors():
            self._prompts[self.style]  # report a malformed template before anything is asked
        self._model = cache_replies(judge_server, cache, self._ask.form)

    def judge(self, item: JudgeItem) -> Verdict:
        """Judge by the model whether the response is right.

        Without a verdict in 3 tries, or without an answer, the response counts as wrong. Such a verdict is marked as failed and not
        kept, so that the next run asks again. The server is given up after 5 judgements in a row without an answer, or after
        5 minutes without any (``inactivity.PATIENCE_SECONDS``).

        Raises:
            JudgeError: The key is refused, the model is unknown, or the cost limit is reached.
        """
        question = Question(self._ask, vars(item))
        text = ""
        for _ in range(TRIES):
            with convert_to_judge_errors():
                (answer,) = put([question], self._prompts, lambda _: self._model)
            if answer.failed:
                return Verdict(False, answer.error or "", failed=True)
            if answer.reply.cached:
                self.spending.add_earlier(answer.reply.usage or (0, 0))
            if answer.value is not None:
                return answer.value
            text = answer.text
        return Verdict(False, f"the judge's reply is no verdict: {scrub(text)[:200]!r}", failed=True)
