"""Gives every row of one ``generate`` call its own sampling settings and its own end.

``generate`` knows one temperature and one length for a whole batch. Here a logits processor chooses each row's token
(greedy, or sampled with the row's temperature and seed), and a stopping criterion ends each row by itself. Rows that have ended
are computed until all have; a batch may be given up before, and its other rows go on in a smaller one.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from transformers import LogitsProcessor, StoppingCriteria

from agents.models.base import FIRST_TOKEN_ALTERNATIVES, ChatRequest, FinishReason
from agents.models.chat.schema_masks import SchemaMask
from agents.time_limits.deadline import Deadline

SLACK_TOKENS = 4  # a stop string may begin inside a token and end inside another


@dataclass
class RowState:
    """How far one row has come."""

    request: ChatRequest  # what the row answers
    mask: SchemaMask | None = None  # the tokens that its schema allows; None where it has no schema
    tokens: list[int] = field(default_factory=list)  # token ids generated so far, without the one that ended the reply
    # Natural-log probabilities of ``tokens`` under the model itself (temperature 1)
    logprobs: list[float] = field(default_factory=list)
    first_token_probs: dict[int, float] = field(
        default_factory=dict
    )  # the likeliest first tokens with their probabilities
    finish: FinishReason | None = None  # why the row ended; None while it goes on

    @cached_property
    def generator(self) -> torch.Generator:
        """Draws of this row alone."""
        return torch.Generator().manual_seed(self.request.seed or 0)


class RowSampler(LogitsProcessor):  # type: ignore[misc]  # transformers is untyped
    """Chooses the next token of each row and remembers its log-probability.

    Sampling adds Gumbel noise to the scaled logits, whose maximum is a draw from the softmax (Gumbel 1954; Maddison
    et al. 2014, "A* Sampling"): so one greedy ``generate`` serves rows of any temperature, and a row's draws depend on
    its own seed alone, not on its neighbours. A row that has a mask chooses among the tokens that it allows; probabilities
    are the model's own, without the mask.
    """

    def __init__(self, rows: Sequence[RowState]) -> None:
        self.rows = rows
        self.chosen: list[int] = []
        self.logprobs: list[float] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Scores of shape (rows, vocabulary) whose maximum is the token that each row chose."""
        del input_ids
        picked = scores.argmax(dim=-1)
        for number, row in enumerate(self.rows):
            allowed = scores[number] if row.mask is None else row.mask(row.tokens, scores[number])
            if row.request.temperature > 0:
                picked[number] = _draw(row, allowed)
            elif row.mask is not None:
                picked[number] = allowed.argmax()
        index = picked.unsqueeze(-1)
        log_total = torch.logsumexp(scores.float(), dim=-1)
        self.logprobs = (scores.float().gather(-1, index).squeeze(-1) - log_total).tolist()
        if not self.rows[0].first_token_probs:  # the first step
            likeliest = scores.float().topk(min(FIRST_TOKEN_ALTERNATIVES, scores.shape[-1]), dim=-1)
            probabilities = (likeliest.values - log_total.unsqueeze(-1)).exp()
            for row, tokens, values in zip(self.rows, likeliest.indices.tolist(), probabilities.tolist(), strict=True):
                row.first_token_probs = dict(zip(tokens, values, strict=True))
        self.chosen = picked.tolist()
        return torch.full_like(scores, -math.inf).scatter_(-1, index, 0.0)


def _draw(row: RowState, scores: torch.Tensor) -> int:
    exponential = torch.empty(scores.shape[-1]).exponential_(generator=row.generator)
    gumbel = -exponential.log().to(scores.device)
    return int((scores.float() / row.request.temperature + gumbel).argmax())


class RowStopping(StoppingCriteria):  # type: ignore[misc]  # transformers is untyped
    """Ends each row at its end token, stop string or length, and all of them at the deadline."""

    def __init__(
        self,
        sampler: RowSampler,
        end_ids: frozenset[int],
        decode: Callable[[list[int]], str],
        deadline: Deadline,
        min_rows: int = 1,  # the call ends when fewer rows go on
    ) -> None:
        self._sampler, self._end_ids, self._decode, self._deadline = sampler, end_ids, decode, deadline
        self._min_rows = min_rows

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:
        """Return whether each row is done with this call, shape (rows,)."""
        del scores, kwargs
        sampler, late = self._sampler, self._deadline.passed()
        for row, token, logprob in zip(sampler.rows, sampler.chosen, sampler.logprobs, strict=True):
            if row.finish is None:
                self._advance(row, token, logprob)
                if row.finish is None and late:
                    row.finish = "abort"
        ended = [row.finish is not None for row in sampler.rows]
        if ended.count(False) < self._min_rows:
            ended = [True] * len(ended)
        return torch.tensor(ended, device=input_ids.device)

    def _advance(self, row: RowState, token: int, logprob: float) -> None:
        if token in self._end_ids:
            row.finish = "stop"
            return
        row.tokens.append(token)
        row.logprobs.append(logprob)
        if row.request.stop and self._has_stop(row):
            row.finish = "stop"
        elif len(row.tokens) >= row.request.max_tokens:
            row.finish = "length"

    def _has_stop(self, row: RowState) -> bool:
        # Only the tail can contain a new stop string; every token gives at least a byte of text.
        tail = max(len(stop.encode()) for stop in row.request.stop) + SLACK_TOKENS
        text = self._decode(row.tokens[-tail:])
        return any(stop in text for stop in row.request.stop)


def cut_at_stop(text: str, stops: Sequence[str]) -> str:
    """Cut the text before the first stop string in it."""
    ends = [at for stop in stops if stop and (at := text.find(stop)) >= 0]
    return text[: min(ends)] if ends else text
