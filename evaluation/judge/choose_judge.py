"""Which judge a run gets, from its flags and the environment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from evaluation.judge.judging import CHALLENGE_JUDGE, Judge
from evaluation.judge.rule_judge import RuleJudge

if TYPE_CHECKING:
    from evaluation.judge.openai_judge import Style


def choose_judge(
    eval_model: str | None, *, cache: Path, style: Style | None = None, base_url: str | None = None
) -> Judge:
    """The judge named by ``--eval-model``.

    Args:
        eval_model: A model name; "None" or "rule" for the rule judge; None for gpt-4o-mini where OPENAI_API_KEY is set
            and the rule judge elsewhere.
        cache: Folder under which judgements are kept.

    Raises:
        JudgeError: A model is named, and there is neither a key nor a server for it.
    """
    if eval_model is None:
        eval_model = CHALLENGE_JUDGE if os.environ.get("OPENAI_API_KEY") else "None"
    if eval_model.lower() in {"none", "rule", ""}:
        return RuleJudge()
    from evaluation.judge.openai_judge import OpenAIJudge  # its library takes half a second to import

    return OpenAIJudge(eval_model, style=style, base_url=base_url, cache=cache / "judge")
