"""CoRe-MMRAG's training objectives (arXiv 2506.02544, section 3.3, eq. 9, 11 and 12) as functions of log-probabilities.

The paper sums over its sets; a batch is averaged over its examples by the trainer, which scales the learning rate and nothing else.
"""

from __future__ import annotations

import torch

from training.encoding import IGNORED


def reply_log_probabilities(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """log M(y | input) of each row: the sum over the reply's tokens.

    Args:
        logits: Shape (rows, tokens, vocabulary).
        labels: Shape (rows, tokens); ``IGNORED`` outside of the reply.

    Returns:
        Shape (rows,), natural logarithms.
    """
    targets = labels[:, 1:]
    kept = targets != IGNORED
    chosen = targets.masked_fill(~kept, 0).unsqueeze(-1)
    found = torch.log_softmax(logits[:, :-1].float(), dim=-1).gather(-1, chosen).squeeze(-1)
    return (found * kept).sum(dim=1)


def choice_log_probabilities(scores: torch.Tensor, chosen: torch.Tensor, entries: torch.Tensor) -> torch.Tensor:
    """log of the probability r_M that the model gives an entry among the k of a question (eq. 11).

    The paper writes the logarithm of an argmax, which has no gradient; this is the probability that the argmax is taken of: a softmax
    over the entries' scores.

    Args:
        scores: Shape (rows, most entries); columns beyond a row's entries are left out.
        chosen: Shape (rows,), the entry's index from 0.
        entries: Shape (rows,), k of each row.

    Returns:
        Shape (rows,), natural logarithms.
    """
    columns = torch.arange(scores.shape[1], device=scores.device)
    there = columns.unsqueeze(0) < entries.unsqueeze(1)
    found = torch.log_softmax(scores.float().masked_fill(~there, float("-inf")), dim=-1)
    return found.gather(1, chosen.unsqueeze(1)).squeeze(1)


def prki_loss(internal: torch.Tensor, external: torch.Tensor) -> torch.Tensor:
    """L_PRKI, eq. 9: minus the log-probabilities of the model's own right answers, over D_int and D_ext.

    Args:
        internal: log M(y_int | Q, P) of D_int, shape (rows,).
        external: log M(y_ext | Q, P) of D_ext, shape (rows,).
    """
    return -(internal.sum() + external.sum())


def vtki_loss(visual: torch.Tensor, textual: torch.Tensor) -> torch.Tensor:
    """L_VTKI, eq. 11: minus the log-probabilities of the right entry.

    Args:
        visual: log r_M(I_v | Q, P) of D_v, shape (rows,).
        textual: log r_M(I_t | Q, P) of D_t, shape (rows,).
    """
    return -(visual.sum() + textual.sum())


def sft_loss(visual: torch.Tensor, textual: torch.Tensor) -> torch.Tensor:
    """L_SFT, eq. 12: minus the log-probabilities of the reference answer, given the right entry.

    Args:
        visual: log M(y_gt | Q, P^{I_v}) of D_v, shape (rows,).
        textual: log M(y_gt | Q, P^{I_t}) of D_t, shape (rows,).
    """
    return -(visual.sum() + textual.sum())
