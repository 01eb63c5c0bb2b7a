import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from pydantic import Field

from agents.methods.question_kinds import question_kind
from agents.methods.routing import TrainedRouter, rule_route, trace_features
from agents.settings.profiles import ROOT
from agents.stage import Context, Stage, StageOptions
from agents.texts.replies import labelled, yes_or_no
from agents.turn import Tools, Turn

_NUMBERING = re.compile(r"^\s*\(?\d+[.)]\s*", re.MULTILINE)

_trained = lru_cache(maxsize=4)(TrainedRouter.load)


def parse_flags(reply: str) -> tuple[bool | None, bool | None]:
    """The two flags of a reply to ``prompts/query_flags.j2``; None where one is not said.

    Small models leave out the labels or number the lines; two lines without labels are taken in order.
    """
    text = _NUMBERING.sub("", reply)
    said = [labelled(text, label) for label in ("external", "current")]
    if said == [None, None]:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) == 2:
            said = list(lines)
    external, now = (yes_or_no(value) if value is not None else None for value in said)
    return external, now


class RouteStage(Stage):
    """The branch by rules or a trained router (QA-Dragon, section 3.2).

    Flags (external or present knowledge needed; CRUISE, section 3.1) by rules or a small model.
    """

    class Options(StageOptions):
        trained: str | None = Field(
            None,
            description="weights of a trained router (JSON), relative to the repository root; None: the rules of table 1",
        )
        flags: Literal["model", "rules"] = Field(
            "rules", description="who says whether external or present knowledge is needed"
        )
        skip_search: bool = Field(
            False, description="do not search for what needs no external knowledge (CRUISE: e = 0)"
        )

    options: Options
    fills = ("route", "needs_external", "real_time", "tools")

    def prompts(self) -> tuple[str, ...]:
        """Of the small model that gives the flags."""
        return ("query_flags",) if self.options.flags == "model" else ()

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``route``, ``needs_external``, ``real_time`` and, where no search is needed, ``tools``; without draft it is ``rag``."""
        trained = self.options.trained
        choose = rule_route if trained is None else _trained(ROOT / trained).route
        for turn in turns:
            features = trace_features(turn.question, turn.draft, turn.domain)
            turn.route = choose(features)
            kind = question_kind(turn.question)
            turn.needs_external, turn.real_time = not kind.self_contained, kind.now
            turn.note(route=turn.route, features=features.model_dump())
        if self.options.flags == "model":
            for turn, reply in context.ask_each("query_flags", turns, lambda turn: {"question": turn.question}):
                external, now = parse_flags(reply.text)
                if external is not None:  # what the model does not say stays as the rules have it
                    turn.needs_external = external
                if now is not None:
                    turn.real_time = now
                turn.note(flags_reply=reply.text)
        for turn in turns:
            if self.options.skip_search and turn.needs_external is False:
                turn.tools = Tools(image=False, text=False)
            turn.note(needs_external=turn.needs_external, real_time=turn.real_time)
