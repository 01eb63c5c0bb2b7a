"""Queries that the model writes, revised in a second call."""

from __future__ import annotations

import json
from typing import Any

from agents.models.base import ChatReply, ChatRequest
from agents.settings.presets import settings_from
from agents.stages.queries import Queries
from agents.turn import Turn
from tests.agent.scripted import ScriptedChat, context, run, turn


def write_queries(turns: list[Turn], chat: ScriptedChat, **options: Any) -> None:
    table = {"split": "model", "fuse_entity": False, **options}
    run(Queries, turns, context(settings_from({"stages": ["answer", "finalise"], "queries": table}), chat=chat))


def listing(*queries: str) -> str:
    return json.dumps({"queries": queries})


def test_sub_questions_are_enhanced_in_a_call_of_their_own() -> None:
    def say(request: ChatRequest) -> str | ChatReply:
        system, prompt = request.messages[0].content, request.messages[-1].content
        if "check web search queries" not in system:
            return listing() if "nothing" in prompt else listing("founder of this brand", "birthplace of the founder")
        assert "- founder of this brand\n- birthplace of the founder" in prompt and "Reasoning so far" not in prompt
        assert len(request.messages[-1].images) == 1
        return ChatReply("", "abort") if "late" in prompt else listing("founder of BMW", "BMW founder birthplace")

    chat = ScriptedChat(say)
    founder_turn, late, bare = turn("Where was the founder born?"), turn("Who was late?"), turn("Is nothing asked?")
    write_queries([founder_turn, late, bare], chat, enhance=True)
    assert chat.batches == [3, 2]  # what has no sub-question is not asked about again
    assert founder_turn.queries == ("Where was the founder born?", "founder of BMW", "BMW founder birthplace")
    assert late.queries[1:] == ("founder of this brand", "birthplace of the founder")
    assert bare.queries == ("Is nothing asked?",)
    plain = ScriptedChat(lambda _: listing("founder of BMW"))
    write_queries([turn("Who founded it?")], plain)
    assert plain.batches == [1]
