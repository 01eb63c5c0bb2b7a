"""Protocols that all model adapters implement, and the values they exchange.

Adapters know nothing of turns, stages or prompts. Each method takes a whole batch and makes one pass over the model
(or as few as its memory allows); results come back in the order of the input.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from PIL import Image

from agents.base.files import well_formed
from agents.time_limits.deadline import NO_DEADLINE, Deadline

FloatArray = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]  # which pixels of an image belong to something, shape (height, width)
FinishReason = Literal["stop", "length", "abort", "error"]
ReplyFault = Literal["tokens", "refusal", "empty"]

FIRST_TOKEN_ALTERNATIVES = 10  # first tokens of a reply whose probabilities are asked for; most servers allow up to 20


class ModelError(RuntimeError):
    """A model could not be loaded or called; the message says what to do."""


@dataclass(frozen=True)
class Box:
    """A rectangle in pixels of the image it was found in: left, top, right, bottom (right and bottom exclusive)."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def area(self) -> float:
        """Area in square pixels; 0 for an empty box."""
        return max(0.0, self.right - self.left) * max(0.0, self.bottom - self.top)


@dataclass(frozen=True)
class ChatMessage:
    """One message: ``role`` is system, user or assistant; images come before the text."""

    role: str
    content: str
    images: tuple[Image.Image, ...] = ()


@dataclass(frozen=True)
class ChatRequest:
    """One prompt with its own sampling settings."""

    messages: tuple[ChatMessage, ...]
    max_tokens: int = 75  # most tokens to generate
    temperature: float = 0.0  # 0 for greedy decoding
    seed: int | None = None  # seed of this request where temperature is above 0
    # A JSON schema that the reply has to follow, where the engine can constrain it
    schema: Mapping[str, Any] | None = None
    logprobs: bool = False  # whether the log-probability of each generated token is wanted
    stop: tuple[str, ...] = ()  # strings that end the reply
    # Request parameters for a server, sent as they are. They replace all fields above except ``seed``; the reply is then neither streamed
    # nor stripped. Engines that are no servers ignore them.
    exact: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class ChatReply:
    """Reply of a chat model.

    Its text is well-formed Unicode: a server's JSON may contain halves of surrogate pairs, which no file and few libraries take.
    """

    text: str  # the reply, stripped; partial where ``finish_reason`` is ``length`` or ``abort``; empty on ``error``
    finish_reason: FinishReason  # ``stop``, ``length`` (max_tokens), ``abort`` (deadline) or ``error``
    # Natural logarithm of the probability of each generated token, or None where not asked for or not available
    logprobs: tuple[float, ...] | None = None
    error: str | None = None  # why there is no reply, for ``finish_reason == "error"``
    # Tokens taken out of the middle of an over-long prompt so that it fits the model's context; 0 for none
    prompt_cut: int = 0
    # Probability, 0 to 1, of each of the likeliest first tokens of the reply, by the token's text as decoded (blanks
    # kept); None where log-probabilities were not asked for or the engine does not give alternatives
    first_token_probs: Mapping[str, float] | None = None
    # How it was come by: the request as the model got it, where an adapter changed it (pictures in words), and whether
    # the reply cache had it
    received: ChatRequest | None = field(default=None, compare=False)
    cached: bool = field(default=False, compare=False)
    read: tuple[str, ...] = field(
        default=(), compare=False
    )  # lines of text that an OCR reader found in the first picture
    usage: tuple[int, int] | None = None  # tokens that a server read and wrote for it; None where it does not say
    no_answer: bool = False  # ``error`` since the server was busy, silent or not there, however often it was tried
    # Kind of an ``error`` that the model itself made: it ended at its limit of tokens before the answer, declined, or said nothing
    fault: ReplyFault | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.text, str) and not self.text.isascii():
            object.__setattr__(self, "text", well_formed(self.text))  # frozen


def sum_first_token_probs(alternatives: Iterable[tuple[str, float]]) -> dict[str, float] | None:
    """Sum the probabilities of first tokens by their text, as ``ChatReply`` has them.

    Returns:
        Probability by text, or None if there are no alternatives.
    """
    probabilities: dict[str, float] = {}
    for text, probability in alternatives:
        probabilities[text] = probabilities.get(text, 0.0) + probability
    return probabilities or None


def check_replies(name: str, replies: Any, count: int) -> list[ChatReply]:
    """Return the replies of a chat model, which may be anybody's.

    Raises:
        ModelError: They are not ``count`` replies with a text each.
    """
    checked = list(replies) if isinstance(replies, Sequence) and not isinstance(replies, str) else []
    if len(checked) != count:
        raise ModelError(f"{name} gave {len(checked)} replies to {count} requests.")
    for reply in checked:
        if not isinstance(reply, ChatReply) or not isinstance(reply.text, str):
            raise ModelError(
                f"{name} gave {reply!r:.80}: its chat() has to return a ChatReply with a text for each request."
            )
    return checked


@runtime_checkable
class ChatModel(Protocol):
    """A language model, with or without vision."""

    name: str

    def chat(self, requests: Sequence[ChatRequest], deadline: Deadline = NO_DEADLINE) -> list[ChatReply]:
        """Answer all requests in one batch.

        A request that fails gets a reply with ``finish_reason="error"``; the others are answered.

        Raises:
            ModelError: The engine as a whole cannot answer.
        """


@runtime_checkable
class TextEncoder(Protocol):
    """Sentence embeddings."""

    name: str

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Embeddings of shape (len(texts), dimensions), each of length 1."""

    def encode_tokens(self, texts: Sequence[str]) -> list[FloatArray]:
        """Encode the tokens of each text: shape (tokens, dimensions), each vector of length 1 (for MaxSim)."""


@runtime_checkable
class ImageEncoder(Protocol):
    """Image embeddings."""

    name: str

    def encode(self, images: Sequence[Image.Image]) -> FloatArray:
        """Embeddings of shape (len(images), dimensions), each of length 1."""


@dataclass(frozen=True)
class Label:
    """A class name and its probability."""

    name: str
    probability: float


@runtime_checkable
class Recogniser(Protocol):
    """Names the thing in a picture, from a fixed list of classes."""

    name: str

    def recognise(self, images: Sequence[Image.Image], k: int = 5) -> list[list[Label]]:
        """Classify each image and return its k likeliest classes, likeliest first."""


@dataclass(frozen=True)
class TextLine:
    """A line of text read in an image; ``score`` is the OCR's confidence, 0 to 1."""

    text: str
    box: Box
    score: float


Describe = Callable[[Sequence[Label], Sequence[TextLine]], str]
"""Wording of the findings in one image; it comes from outside, since prompts are no business of an adapter."""


@runtime_checkable
class OcrReader(Protocol):
    """Reads printed text in images."""

    name: str

    def read(self, images: Sequence[Image.Image]) -> list[list[TextLine]]:
        """Read the lines of text in each image, in reading order."""


@dataclass(frozen=True)
class Detection:
    """An object found by a detector; ``phrase`` is the name it was found by, or one word for all if the detector knows no names."""

    box: Box
    phrase: str
    score: float
    # The object's pixels, of the image or of a smaller copy of it; None where nobody segmented
    mask: Mask | None = field(default=None, compare=False, repr=False)


@runtime_checkable
class Detector(Protocol):
    """Finds named objects in images."""

    name: str

    def detect(self, images: Sequence[Image.Image], phrases: Sequence[Sequence[str]]) -> list[list[Detection]]:
        """Detect boxes of each image's phrases, best first. Without phrases every salient object is detected."""


@runtime_checkable
class Segmenter(Protocol):
    """Finds the outlines of objects in boxes."""

    name: str

    def segment(self, images: Sequence[Image.Image], boxes: Sequence[Sequence[Box]]) -> list[list[Mask]]:
        """Return a mask for each box of each image, of the upright image's size: the pixels of the object in the box.

        Raises:
            ValueError: ``boxes`` are not as many lists as there are images.
        """


@runtime_checkable
class EntityFinder(Protocol):
    """Finds the names of things in texts."""

    name: str

    def find(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """Find the distinct names in each text, in order."""


@runtime_checkable
class Reranker(Protocol):
    """Scores how well a passage answers a query."""

    name: str

    def score(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        """Score each (query, passage) pair, shape (len(pairs),); higher is better."""


@dataclass(frozen=True)
class MultimodalPair:
    """A question, its picture (None without one) and a passage that may answer it."""

    question: str
    image: Image.Image | None
    passage: str


@runtime_checkable
class MultimodalReranker(Protocol):
    """Scores how well a passage answers a question about a picture."""

    name: str

    def score_multimodal(self, items: Sequence[MultimodalPair]) -> FloatArray:
        """Score each item, shape (len(items),); higher is better."""


@runtime_checkable
class QuestionImageFeatures(Protocol):
    """Turns questions about pictures into vectors."""

    name: str

    def features(self, images: Sequence[Image.Image | None], questions: Sequence[str]) -> FloatArray:
        """Compute one row of features for each question, float32.

        Raises:
            ValueError: Images and questions differ in number.
        """


@runtime_checkable
class PictureTextSimilarity(Protocol):
    """Compares pictures with texts in one space."""

    name: str

    def similarity(self, images: Sequence[Image.Image], texts: Sequence[str]) -> FloatArray:
        """Compute how well each text describes each picture: cosines, float32, shape (len(images), len(texts))."""


@runtime_checkable
class PictureTextMatcher(Protocol):
    """Says which pictures and texts belong together."""

    name: str

    def match(self, images: Sequence[Image.Image], texts: Sequence[str]) -> FloatArray:
        """Compute how likely each picture belongs to its text: 0 to 1, float32, shape (n,).

        Raises:
            ValueError: Images and texts differ in number.
        """


@runtime_checkable
class DomainClassifier(Protocol):
    """Assigns questions about pictures to domains."""

    name: str

    def classify(self, images: Sequence[Image.Image | None], questions: Sequence[str]) -> list[list[Label]]:
        """Return all domains with their probabilities (sum 1) for each question, likeliest first.

        Raises:
            ValueError: Images and questions differ in number.
        """
