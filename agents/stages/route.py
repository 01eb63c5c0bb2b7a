from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

from pydantic import Field

from agents.asking.ask import Ask
from agents.asking.readers.verdicts import FLAGS
from agents.base.data_folder import data_path
from agents.english.question_kinds import classify_question
from agents.methods.routing import TrainedRouter, compute_features, route_by_rules
from agents.stage import Context, Stage, StageOptions
from agents.turn import Tools, Turn

_trained = lru_cache(maxsize=4)(TrainedRouter.load)


ASK = Ask("query_flags", FLAGS)


class RouteStage(Stage):
    """Chooses the branch by rules or by a trained router (QA-Dragon, section 3.2).

    Rules or a small model set the flags for external and for present knowledge (CRUISE, section 3.1).
    """

    class Options(StageOptions):
        trained: str | None = Field(
            None,
            description="weights of a trained router (JSON), relative to the repository root; None: the rules of table 1",
        )
        flags: Literal["model", "rules"] = Field(
            "rules", description="source of the flags for external and present knowledge"
        )
        skip_search: bool = Field(
            False, description="do not search for questions that need no external knowledge (CRUISE: e = 0)"
        )

    options: Options
    fills = ("route", "needs_external", "real_time", "tools")
    doing = "choosing a way to answer"

    def list_asks(self) -> tuple[Ask[Any], ...]:
        """Return the prompt of the small model that gives the flags."""
        return (ASK,) if self.options.flags == "model" else ()

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``route``, ``needs_external`` and ``real_time``, and ``tools`` if no search is needed.

        Without a draft the route is ``rag``.
        """
        trained = self.options.trained
        choose = route_by_rules if trained is None else _trained(data_path(trained)).route
        for turn in turns:
            features = compute_features(turn.question, turn.draft, turn.domain)
            turn.route = choose(features)
            kind = classify_question(turn.question)
            turn.needs_external, turn.real_time = not kind.self_contained, kind.now
            turn.note(route=turn.route, features=features.model_dump())
        if self.options.flags == "model":
            for turn, answer in context.ask_each(ASK, turns, lambda turn: {"question": turn.question}):
                external, now = answer.value
                if external is not None:  # the rules decide where the model is silent
                    turn.needs_external = external
                if now is not None:
                    turn.real_time = now
        for turn in turns:
            if self.options.skip_search and turn.needs_external is False:
                turn.tools = Tools(image=False, text=False)
            turn.note(needs_external=turn.needs_external, real_time=turn.real_time)
