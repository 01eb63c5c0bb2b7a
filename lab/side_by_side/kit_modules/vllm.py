"""vLLM as the starter kit's agents call it, over a server: ``LLM.generate`` posts chat completions and leaves pictures out.

It lies on the Python path of the agent's process alone, so it imports nothing but the standard library.
"""

import json
import os
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

_SECONDS = 3600.0


@dataclass
class SamplingParams:
    """Sampling as the kit sets it."""

    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 16
    skip_special_tokens: bool = True


@dataclass
class Text:
    """One generated text."""

    text: str


@dataclass
class Output:
    """Generated texts of one prompt."""

    outputs: list[Text]


class Tokenizer:
    """Tokenizer whose template keeps the messages as JSON: the server applies the model's own."""

    def apply_chat_template(self, messages: Any, **_: Any) -> str:
        """Return the messages as JSON."""
        return json.dumps(messages)


def _read_text(content: Any) -> str:
    """Return the text of a message without its pictures."""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part.get("type") == "text")


class LLM:
    """Language model behind ``$SIDE_BY_SIDE_URL``, named ``$SIDE_BY_SIDE_MODEL`` there; arguments are ignored."""

    def __init__(self, *_: Any, max_num_seqs: int = 1, **__: Any) -> None:
        self._concurrency = max_num_seqs

    def get_tokenizer(self) -> Tokenizer:
        """Return the tokenizer."""
        return Tokenizer()

    def generate(self, inputs: Any, sampling_params: SamplingParams, **_: Any) -> list[Output]:
        """Generate a text for each input, in order."""
        with ThreadPoolExecutor(self._concurrency) as pool:
            return list(pool.map(lambda item: self._generate_one(item, sampling_params), inputs))

    def _generate_one(self, item: Any, sampling: SamplingParams) -> Output:
        prompt = item["prompt"] if isinstance(item, dict) else item
        messages = [(str(each["role"]), _read_text(each["content"])) for each in json.loads(prompt)]
        body = {
            "model": os.environ["SIDE_BY_SIDE_MODEL"],
            "messages": [{"role": role, "content": text} for role, text in messages if text.strip()],
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
        }
        request = urllib.request.Request(
            os.environ["SIDE_BY_SIDE_URL"] + "/chat/completions",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=_SECONDS) as answered:
            reply_text = json.load(answered)["choices"][0]["message"]["content"]
        return Output([Text(reply_text or "")])
