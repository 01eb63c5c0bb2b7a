"""The judge that needs no server: P(yes) of a profile's own chat model that an answer is right.

The rule decides if it is sure (``rule_judge.SURE``), or if there are accept forms. The model is asked about the other answers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agents.asking.ask import Ask, Question, put
from agents.asking.prompts import PromptLibrary
from agents.asking.readers.verdicts import P_YES
from agents.base.files import first_fault
from agents.models.base import ChatModel
from evaluation.judge.asking import convert_to_judge_errors
from evaluation.judge.rule_judge import SURE, RuleJudge
from evaluation.records import JudgeError, JudgeItem, Verdict

CUTS = Path(__file__).with_name("cuts")
"""Folder of the cuts fitted on labels by hand, one file a profile. Probabilities of different models, and of different prompts,
are not on one scale."""

UNFITTED = 0.5
"""Cut of a model without a fitted one."""

ASK = Ask("judge/yes_or_no", P_YES)


@dataclass(frozen=True)
class YesOrNo:
    """A profile's chat model, asked whether answers are right; loaded at the first question.

    Attributes:
        profile: Name of its profile.
        prompts: The profile's prompts.
        chat: Returns the chat model of a role, and loads it at first.
        batch: Questions in one call.
    """

    profile: str
    prompts: PromptLibrary
    chat: Callable[[str], ChatModel]
    batch: int

    @property
    def prompt(self) -> str:
        """Digest of the prompt."""
        with convert_to_judge_errors():
            return hashlib.sha256(self.prompts[ASK.prompt].path.read_bytes()).hexdigest()[:12]

    @property
    def name(self) -> str:
        """Name of the model, which is loaded first."""
        with convert_to_judge_errors():
            return self.chat(self.prompts[ASK.prompt].settings.model).name

    def probabilities(self, items: Sequence[JudgeItem]) -> list[float | None]:
        """Ask the model about all items in one call.

        Returns:
            P(yes) of each item; None if the model said neither yes nor no.

        Raises:
            JudgeError: The model cannot be loaded or fails as a whole.
        """
        with convert_to_judge_errors():
            return [
                answer.value for answer in put([Question(ASK, vars(item)) for item in items], self.prompts, self.chat)
            ]


class Tally(BaseModel):
    """Agreement of a judge with labels by hand; ``kappa`` is Cohen's, None if undefined."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    answers: int
    kappa: float | None
    both_right: int
    both_wrong: int
    right_by_judge: int
    right_by_hand: int

    def __str__(self) -> str:
        """Return the numbers in words."""
        kappa = "none" if self.kappa is None else f"{self.kappa:.2f}"
        return (
            f"on {self.answers} answers labelled by hand kappa {kappa}: {self.both_right} right and {self.both_wrong} wrong for both, "
            f"{self.right_by_judge} right for the judge alone, {self.right_by_hand} for the hand alone"
        )


class FittedCut(BaseModel):
    """Cut of a model and a prompt, fitted on labels by hand.

    Attributes:
        prompt: Digest of the prompt.
        cut: Least P(yes) of a right answer.
        auroc: AUROC of P(yes) over the answers that the model was asked about; None if undefined.
        labels: File of the labels.
        fitted: Agreement of the judge on the answers that the cut was fitted on.
        held_out: Agreement on the others.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    profile: str
    model: str
    prompt: str
    cut: float = Field(ge=0, le=1)
    auroc: float | None
    labels: str
    fitted: Tally
    held_out: Tally


def load_cut(profile: str, folder: Path = CUTS) -> FittedCut | None:
    """Load the cut of a profile; None if it has none.

    Raises:
        JudgeError: Its file is malformed.
    """
    path = folder / f"{profile}.json"
    try:
        return FittedCut.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise JudgeError(f"{path} is no fitted cut: {first_fault(error)}") from error


class LocalJudge:
    """Judge by a profile's chat model and its fitted cut, or ``UNFITTED``.

    Its name states the agreement with the labels, so that every table of its verdicts does.
    """

    parallel = False

    def __init__(self, model: YesOrNo, fitted: FittedCut | None) -> None:
        self._model = model
        self._fitted = fitted if fitted is not None and fitted.prompt == model.prompt else None
        self._cut = UNFITTED if self._fitted is None else self._fitted.cut
        self._rule = RuleJudge()
        self.batch = model.batch
        about = "its chat model" if self._fitted is None else self._fitted.model
        agreement = "never compared with labels" if self._fitted is None else str(self._fitted.held_out)
        self.name = (
            f"local:{model.profile} ({about}, the rule first; right from P(yes) {self._cut:.2f} on; {agreement})"
        )

    def judge(self, item: JudgeItem) -> Verdict:
        """See ``judge_batch``."""
        return self.judge_batch([item])[0]

    def judge_batch(self, items: Sequence[JudgeItem]) -> list[Verdict]:
        """Judge some items; a verdict is a failed one if the model said neither yes nor no.

        Raises:
            JudgeError: The profile's chat model is not the one that the cut was fitted for.
        """
        verdicts = [judge_if_sure(self._rule, item) for item in items]
        unsure = [item for item, verdict in zip(items, verdicts, strict=True) if verdict is None]
        if unsure and self._fitted is not None and self._model.name != self._fitted.model:
            raise JudgeError(
                f"the cut of profile {self._model.profile} was fitted for {self._fitted.model}, and the chat model is {self._model.name}: "
                "name a profile of your own, which has no cut (--eval-model local:FILE.toml)"
            )
        probabilities = iter(self._model.probabilities(unsure) if unsure else ())
        return [verdict or self._verdict(next(probabilities)) for verdict in verdicts]

    def _verdict(self, probability: float | None) -> Verdict:
        if probability is None:
            return Verdict(False, "the model said neither yes nor no", failed=True)
        return Verdict(probability >= self._cut, f"P(yes) {probability:.3f}")


def judge_if_sure(rule: RuleJudge, item: JudgeItem) -> Verdict | None:
    """Return the rule's verdict if there are accept forms or the rule is sure, else None."""
    verdict = rule.judge(item)
    return verdict if any(form.strip() for form in item.accept) or verdict.reason in SURE else None
