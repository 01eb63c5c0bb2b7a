"""Chat requests with their replies and verdicts, as training reads them.

They are JSON lines beside a folder of images.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from PIL import Image
from pydantic import ConfigDict, TypeAdapter, ValidationError

from agents.base.files import first_fault, parse_json
from agents.models.base import ChatMessage, ChatReply, ChatRequest, FinishReason
from evaluation.files.responses import rewrite

TRAIN = "train.jsonl"
HELD_OUT = "held_out.jsonl"
IMAGES = "images"
Verdict = Literal["correct", "miss", "hallucination"]
Row = TypeVar("Row")


class TrainingDataError(RuntimeError):
    """Training data are missing or unusable; the message says why and what to do."""


@dataclass(frozen=True)
class Message:
    """A message; ``images`` has the names of its images, without extension."""

    role: str
    content: str
    images: tuple[str, ...] = ()


@dataclass(frozen=True)
class Example:
    """A request to a language model, its reply, and how its turn ended.

    Attributes:
        prompt: Name of its template; ``relevance`` for a question made of a chunk of evidence.
        form: Form of the reply that it asks for (``agents/asking/readers``).
        reply: The model's reply; for ``relevance`` the right reply.
        verdict: Verdict of the turn's answer.
        query, ground_truth: Those of the turn, or of a step of a plan; the ``ground_truth`` of a step is "" if nobody knows it.
        reply_verdict: Verdict of the reply itself, taken as an answer; None for forms other than answers, steps that cannot be judged, and
            failures of the judge.
        max_tokens: Maximum number of tokens of the reply.
        prompt_cut: Number of tokens taken out of the prompt so that it fitted the model.
        choices: Number of entries to choose from, if the reply is the letter of one; else 0.
        objective: The set of ``training.core_data`` that it belongs to.
        finish_reason: Why the model's reply ended (see ``ChatReply``).
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    session_id: str
    interaction_id: str
    prompt: str
    form: str
    messages: tuple[Message, ...]
    reply: str
    verdict: Verdict
    query: str
    ground_truth: str
    accept: tuple[str, ...] = ()
    reply_verdict: Verdict | None = None
    model: str = ""
    max_tokens: int = 75
    prompt_cut: int = 0
    choices: int = 0
    objective: str = ""
    finish_reason: FinishReason = "stop"
    folder: Path = Path()

    @property
    def key(self) -> tuple[str, str]:
        """Session id and interaction id."""
        return self.session_id, self.interaction_id

    @property
    def chat_reply(self) -> ChatReply:
        """Reply as the model gave it, whole or cut off."""
        return ChatReply(self.reply, self.finish_reason)

    def with_reply(self, text: str, **changes: Any) -> Example:
        """Copy the example with a whole reply in place of the model's, and with other changed fields."""
        return replace(self, reply=text, finish_reason="stop", **changes)

    @property
    def images(self) -> tuple[str, ...]:
        """Names of all images, in their order."""
        return tuple(name for message in self.messages for name in message.images)

    def load_messages(self) -> tuple[ChatMessage, ...]:
        """Load the messages with their images.

        Raises:
            TrainingDataError: An image is missing or broken.
        """
        return tuple(
            ChatMessage(message.role, message.content, tuple(self._open(name) for name in message.images))
            for message in self.messages
        )

    def request(self, temperature: float = 0.0, seed: int | None = None) -> ChatRequest:
        """Build the request for a chat model."""
        return ChatRequest(self.load_messages(), max_tokens=self.max_tokens, temperature=temperature, seed=seed)

    def _open(self, name: str) -> Image.Image:
        path = self.folder / IMAGES / f"{name}.png"
        try:
            with Image.open(path) as image:
                return image.convert("RGB")
        except OSError as error:
            raise TrainingDataError(f"{path} cannot be read ({error}); collect the data again") from error


def build_messages(request: ChatRequest, images: Iterable[str | None]) -> tuple[Message, ...]:
    """Convert the messages of a request; the last one of the user shows the named images.

    None among ``images`` means a missing image and is skipped.
    """
    messages = [Message(message.role, message.content) for message in request.messages]
    last = max(place for place, message in enumerate(messages) if message.role == "user")
    messages[last] = replace(messages[last], images=tuple(name for name in images if name is not None))
    return tuple(messages)


def hash_to_share(name: str) -> float:
    """Map a name to a number from 0 to below 1 by its SHA-256, the same on every machine."""
    return int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) / 2**32


def is_held_out(name: str, share: float) -> bool:
    """Return whether a photo, or a session of an unknown photo, is held out, by the hash of its name.

    It is the same in every collection with this share.
    """
    return hash_to_share(name) < share


def read_rows(path: Path, build_row: Callable[[dict[str, Any]], Row], noun: str) -> list[Row]:
    """Read JSON lines.

    Args:
        path: The file.
        build_row: Builds a row from a JSON object; raises TypeError, KeyError or ValueError if it is malformed.
        noun: Name of the rows in messages.

    Raises:
        TrainingDataError: The file is missing or a line is malformed; the message names the line.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")  # not splitlines: texts may contain U+2028
    except (OSError, UnicodeDecodeError) as error:
        raise TrainingDataError(f"{path} has no {noun}: it cannot be read ({error}); write it again") from error
    rows = []
    for number, line in enumerate(lines, 1):
        if line:
            try:
                rows.append(build_row(parse_json(line)))
            except ValidationError as error:  # its own message has several lines and a URL
                raise TrainingDataError(
                    f"{path} contains malformed {noun}: line {number}: {first_fault(error)}"
                ) from error
            except (TypeError, KeyError, ValueError) as error:
                raise TrainingDataError(f"{path} contains malformed {noun}: line {number}: {error!r}") from error
    return rows


def write_examples(path: Path, examples: Iterable[Example]) -> None:
    """Write one example a line."""
    rewrite(path, [{key: value for key, value in asdict(row).items() if key != "folder"} for row in examples])


def read_examples(path: Path) -> list[Example]:
    """Read the output of ``write_examples``.

    Raises:
        TrainingDataError: The file is missing or a line is malformed; ``training.collect`` makes it.
    """
    examples = read_rows(path, TypeAdapter(Example).validate_python, "examples of training.collect")
    return [replace(row, folder=path.parent) for row in examples]
