"""The options of the judge in every command that asks one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator, Field, InstanceOf

from agents.base.command_options import Flag, Options
from evaluation.judge.spending import Price
from evaluation.rules import OURS, RULES, JudgeStyle, Rules

if TYPE_CHECKING:
    from evaluation.judge.judging import Judge, LocalJudges


def parse_price(text: object) -> Price:
    """Parse a price written as ``READ,WRITTEN``.

    Raises:
        ValueError: It has another form, or a negative number.
    """
    if isinstance(text, Price):
        return text
    try:
        read_price, written_price = (float(word) for word in str(text).split(","))
        if read_price >= 0 and written_price >= 0:
            return Price(read_price, written_price)
    except ValueError:
        pass
    raise ValueError(f"{text!r}; write READ,WRITTEN: US dollars for a million tokens, such as 0.15,0.60")


def _look_up_rules(name: object) -> object:
    return RULES[name] if isinstance(name, str) else name


GivenPrice = Annotated[InstanceOf[Price], BeforeValidator(parse_price)]
NamedRules = Annotated[InstanceOf[Rules], BeforeValidator(_look_up_rules)]


class JudgeOptions(Options):
    """Rules by which answers are judged, and how a judge behind a server is asked."""

    group = "judge"

    rules: Annotated[NamedRules, Flag(choices=tuple(RULES))] = Field(
        OURS,
        description="rules of order, images, scores, tables and the defaults below: ours or a release's (docs/rules.md)",
    )
    judge_url: Annotated[str | None, Flag(metavar="URL")] = Field(
        None,
        description="root of the judge's OpenAI-compatible API; default: the server that answers, if the run names one (--base-url), "
        "then $OPENAI_BASE_URL, then OpenAI's",
    )
    judge_style: JudgeStyle | None = Field(
        None, description="the challenge's prompt or the research release's; not given: by rules, or by model"
    )
    organiser: Annotated[Path | None, Flag(metavar="PATH")] = Field(
        None,
        description="checkout of the starter kit or the research release: its prompt for the judge (read, never run) "
        "replaces ours",
    )
    max_cost: Annotated[float | None, Flag(metavar="USD")] = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="stop when the judge has cost this in this command, or in one run of a comparison; every judgement is "
        "kept, and the same command goes on from there, a run with --resume",
    )
    judge_price: Annotated[GivenPrice | None, Flag(metavar="READ,WRITTEN")] = Field(
        None,
        description="price of the judge in US dollars for a million tokens (default: from "
        "evaluation/judge/prices.toml, if it lists the model)",
    )
    num_workers: Annotated[int | None, Flag(metavar="N")] = Field(
        None, ge=1, description="judgements asked for at the same time; not given: 8, research release 1"
    )

    @property
    def workers(self) -> int:
        """Number of judgements asked for at the same time."""
        return self.rules.judge_workers if self.num_workers is None else self.num_workers

    def refuse_idle(self, eval_model: str | None) -> None:
        """Refuse options of a served judge if no judge is named: nothing would ask it.

        Raises:
            ValueError: One of them is given.
        """
        options = ("judge_url", "judge_style", "organiser", "max_cost", "judge_price")
        given = [name for name in options if getattr(self, name)]
        if given and eval_model is None:
            raise ValueError(f"--{given[0].replace('_', '-')} needs a judge to ask; name it with --eval-model")

    def judge(
        self, eval_model: str | None, cache: Path, local: LocalJudges | None = None, server: str | None = None
    ) -> Judge:
        """Return the judge of a name, with these options (see ``judging.choose_judge``).

        Args:
            eval_model: Name of the judge.
            cache: Folder of models and replies.
            local: Makes the judges called ``local``.
            server: Address of the server that answers and whose key OPENAI_API_KEY is; the judge is asked there unless ``judge_url``
                names another, so that the key goes to no second server.
        """
        from evaluation.judge.judging import choose_judge

        return choose_judge(
            eval_model,
            cache=cache,
            style=self.judge_style,
            rules=self.rules,
            base_url=self.judge_url or server,
            organiser=self.organiser,
            max_cost=self.max_cost,
            price=self.judge_price,
            local=local,
        )
