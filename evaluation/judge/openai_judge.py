"""Judges behind an OpenAI-compatible server: the challenge's structured one and the research release's explained one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agents.asking.ask import Ask, Question, Template, Templates, put
from agents.base.secrets import scrubbed
from evaluation.judge.asking import as_judge_errors, judge_prompts, kept
from evaluation.judge.organiser_prompt import read_organiser
from evaluation.judge.replies import FORMS
from evaluation.judge.server import JudgeServer
from evaluation.judge.spending import Spending, price_of
from evaluation.records import JudgeError, JudgeItem, Verdict
from evaluation.rules import JudgeStyle

TRIES = 3
"""How often a reply is asked for that holds a verdict (starter kit)."""


def style_of(model: str) -> JudgeStyle:
    """The style in which a model judges by default: gpt-4o explains (research release), others reply in JSON (challenge)."""
    name = model.rsplit("/", 1)[-1]
    return "explained" if name.startswith("gpt-4o") and "mini" not in name else "structured"


class OpenAIJudge:
    """Asks a chat model. See ``JudgeServer`` for what is not named here.

    Args:
        style: ``structured`` or ``explained``; by the model's name where None.
        cache: Folder of the replies that hold a verdict; None keeps none.
        organiser: Checkout of the organiser's code, whose words are used in place of ours.
        server: How long the server is waited for, in ``JudgeServer``'s arguments.

    Raises:
        JudgeError: There is no key for OpenAI's own server, or the checkout has no such words, or in the other style; or prompt or cache
            cannot be read.
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
        **server: Any,
    ) -> None:
        self.spending = spending or Spending(price_of(model))
        asked = JudgeServer(model, "--eval-model None for the rule judge", base_url, spending=self.spending, **server)
        theirs = read_organiser(organiser) if organiser is not None else None
        if theirs is not None and style not in (None, theirs.style):
            raise JudgeError(f"--organiser {organiser}: its judge is {theirs.style}, not {style}")
        self.style: JudgeStyle = theirs.style if theirs is not None else style or style_of(model)
        self.name = f"{model} ({self.style}; {theirs.words if theirs is not None else 'our words'})"
        self._ask = Ask(self.style, FORMS[self.style])
        own: dict[str, Template] = {self.style: theirs} if theirs is not None else {}
        self._prompts: Templates = own or judge_prompts()
        with as_judge_errors():
            self._prompts[self.style]  # a template that is malformed is told before anything is asked
        self._model = kept(asked, cache, self._ask.form)

    def judge(self, item: JudgeItem) -> Verdict:
        """Whether the response is right, by the model.

        Where the server gives no verdict in 3 tries, or no answer, the answer counts as wrong; that is marked as failed and not
        kept, so that the next run asks again. After 5 judgements in a row without an answer the server is not asked any more, nor after
        5 minutes without any (``silence.PATIENCE_SECONDS``).

        Raises:
            JudgeError: The key is refused, the model is unknown, or what may be spent is spent.
        """
        question = Question(self._ask, vars(item))
        text = ""
        for _ in range(TRIES):
            with as_judge_errors():
                (answer,) = put([question], self._prompts, lambda _: self._model)
            if answer.failed:
                return Verdict(False, answer.error or "", failed=True)
            if answer.reply.cached:
                self.spending.add_kept(answer.reply.usage or (0, 0))
            if answer.value is not None:
                return answer.value
            text = answer.text
        return Verdict(False, f"the judge's reply is no verdict: {scrubbed(text)[:200]!r}", failed=True)
