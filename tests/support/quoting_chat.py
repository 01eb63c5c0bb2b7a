"""A chat model for runs of programs in a process of their own, where a profile names it by its import path."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agents.models.base import ChatReply, ChatRequest
from agents.time_limits.deadline import NO_DEADLINE, Deadline

IDK = "I don't know"
_WORD = re.compile(r"[a-z0-9]{3,}")
_NAMED = re.compile(r"[A-Z][a-z]+ the [A-Za-z ]+?(?=[\"?.,]|$| in | is )")
_TITLE = re.compile(r'^(?:\s*\[Info )?\d+\] "[^"]*": ')
_POINTING = frozenset({"this", "animal", "when", "was", "what", "the"})
_SURE = (-0.01, -0.01)


class QuotingChat:
    """Quotes the sentence of its evidence that shares most words with the question and names what that is about; else it does not know.

    Plans a difference of weights, and approves of every answer.
    """

    name = "quoting"

    def chat(self, requests: Sequence[ChatRequest], deadline: Deadline = NO_DEADLINE) -> list[ChatReply]:
        return [self._reply(request) for request in requests]

    def _reply(self, request: ChatRequest) -> ChatReply:
        system, prompt = request.messages[0].content, request.messages[-1].content
        if prompt.endswith("Reply yes or no."):
            return ChatReply("yes", "stop", logprobs=_SURE[:1], first_token_probs={"yes": 0.99, "no": 0.01})
        if "You plan how" in system:
            steps = [f"{number}. ask: What is the weight of {name}?" for number, name in enumerate(_named(prompt), 1)]
            return ChatReply("\n".join([*steps, "3. compute: difference [1] [2]"]), "stop")
        reply_text = _quoted(prompt)
        if "with the fact alone" in system and (figure := re.search(r"\d[\d.]* kg", reply_text)):
            reply_text = figure.group()
        return ChatReply(reply_text, "stop", logprobs=_SURE, first_token_probs={reply_text.split()[0]: 0.99})


def _named(text: str) -> list[str]:
    return [*dict.fromkeys(_NAMED.findall(text))]


def _quoted(prompt: str) -> str:
    before, _, rest = prompt.partition("Information:")
    information, _, question = rest.rpartition("Question:")
    names = _named(question) or _named(before)
    chunks = [_TITLE.sub("", each) for each in information.split("\n[Info ") if any(name in each for name in names)]
    sentences = [each.strip(' "') for chunk in chunks for each in re.split(r"(?<=[.!?])\s+|\n", chunk)]
    question_words = {*_WORD.findall(question.lower())} - _POINTING
    return max(
        filter(None, sentences), key=lambda each: len(question_words & {*_WORD.findall(each.lower())}), default=IDK
    )
