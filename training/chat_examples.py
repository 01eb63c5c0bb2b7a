"""Chat requests with their replies and verdicts, as training reads them: JSON lines beside a folder of images."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from PIL import Image
from pydantic import ConfigDict, TypeAdapter, ValidationError

from agents.base.files import first_fault, parse_json
from agents.models.base import ChatMessage, ChatRequest
from evaluation.files.responses import rewrite

TRAIN = "train.jsonl"
HELD_OUT = "held_out.jsonl"
IMAGES = "images"
PARAPHRASE = "paraphrase"
Verdict = Literal["correct", "miss", "hallucination"]
Row = TypeVar("Row")


class TrainingDataError(RuntimeError):
    """Training data are missing or not to be used; the message says why and what to do."""


@dataclass(frozen=True)
class Message:
    """A message; ``images`` holds the names of its images, without extension."""

    role: str
    content: str
    images: tuple[str, ...] = ()


@dataclass(frozen=True)
class Example:
    """A request to a language model, what it replied and how its turn ended.

    Attributes:
        prompt: Name of its template, or ``relevance`` for a question made of a chunk of evidence; ``paraphrase`` where the reply is one of
            the ground truth (``training.paraphrases``).
        form: Of the reply that it asks for (``agents/asking/readers``).
        reply: What the model said; for ``relevance`` the right reply.
        verdict: Of the turn's answer.
        query, ground_truth: Of the turn; of a step of a plan its own, ``ground_truth`` empty where nobody knows it.
        reply_verdict: Of the reply itself, taken as an answer; None for forms that are no answer, and steps that cannot be judged.
        max_tokens: Most tokens that the reply may have.
        prompt_cut: Tokens taken out of the prompt so that it fitted the model.
        choices: Entries to choose from, where the reply is the letter of one; 0 elsewhere.
        objective: The set of ``training.core_data`` that it belongs to.
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
    folder: Path = Path()

    @property
    def key(self) -> tuple[str, str]:
        """Session and interaction."""
        return self.session_id, self.interaction_id

    @property
    def images(self) -> tuple[str, ...]:
        """Names of all images, in their order."""
        return tuple(name for message in self.messages for name in message.images)

    def load_messages(self) -> tuple[ChatMessage, ...]:
        """The messages with their images loaded. Raises TrainingDataError where an image is missing or broken."""
        return tuple(
            ChatMessage(message.role, message.content, tuple(self._open(name) for name in message.images))
            for message in self.messages
        )

    def request(self, temperature: float = 0.0, seed: int | None = None) -> ChatRequest:
        """The request as a chat model takes it."""
        return ChatRequest(self.load_messages(), max_tokens=self.max_tokens, temperature=temperature, seed=seed)

    def _open(self, name: str) -> Image.Image:
        path = self.folder / IMAGES / f"{name}.png"
        try:
            with Image.open(path) as image:
                return image.convert("RGB")
        except OSError as error:
            raise TrainingDataError(f"{path} cannot be read ({error}); collect the data again") from error


def messages_of(request: ChatRequest, images: Iterable[str | None]) -> tuple[Message, ...]:
    """The messages of a request; its last one of the user shows the images of these names (None: there is none)."""
    messages = [Message(message.role, message.content) for message in request.messages]
    last = max(place for place, message in enumerate(messages) if message.role == "user")
    messages[last] = replace(messages[last], images=tuple(name for name in images if name is not None))
    return tuple(messages)


def share_of(name: str) -> float:
    """A number from 0 to below 1 by the SHA-256 of a name, the same on every machine."""
    return int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) / 2**32


def is_held_out(session_id: str, share: float) -> bool:
    """Whether a session is held out: by the hash of its id, the same in every collection with this share."""
    return share_of(session_id) < share


def read_rows(path: Path, made: Callable[[dict[str, Any]], Row], what: str) -> list[Row]:
    """Read JSON lines; rows are called ``what`` in messages.

    Args:
        made: The row of a JSON object; TypeError, KeyError or ValueError where it is malformed.

    Raises:
        TrainingDataError: The file is missing, or a line is malformed; names the line.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")  # not splitlines: texts may hold U+2028
    except (OSError, UnicodeDecodeError) as error:
        raise TrainingDataError(f"{path} holds no {what}: it cannot be read ({error}); write it again") from error
    found = []
    for number, line in enumerate(lines, 1):
        if line:
            try:
                found.append(made(parse_json(line)))
            except ValidationError as error:  # its own message has several lines and a URL
                raise TrainingDataError(f"{path} holds no {what}: line {number}: {first_fault(error)}") from error
            except (TypeError, KeyError, ValueError) as error:
                raise TrainingDataError(f"{path} holds no {what}: line {number}: {error!r}") from error
    return found


def write_examples(path: Path, examples: Iterable[Example]) -> None:
    """Write one example a line."""
    rewrite(path, [{key: value for key, value in asdict(row).items() if key != "folder"} for row in examples])


def read_examples(path: Path) -> list[Example]:
    """Read what ``write_examples`` wrote.

    Raises:
        TrainingDataError: The file is missing or a line is malformed; ``training.collect`` makes it.
    """
    examples = read_rows(path, TypeAdapter(Example).validate_python, "examples of training.collect")
    return [replace(row, folder=path.parent) for row in examples]
