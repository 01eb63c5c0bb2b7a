"""Prompts: one Jinja2 template a file, with a front matter that says which model reads it and how.

A template has a YAML front matter (see ``FrontMatter``; ``extends: OTHER`` takes the text and the front matter of another template and
changes fields of it, tables key by key) and sections that begin with a line ``=== system``, ``=== user`` or
``=== assistant``. A file is cut into sections before anything is filled in, so that retrieved text can never open a section of its own.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from frontmatter import Post
from jinja2 import FileSystemLoader, StrictUndefined, Template, TemplateNotFound, TemplateSyntaxError, nodes
from jinja2.sandbox import SandboxedEnvironment
from PIL import Image
from pydantic import BaseModel, ConfigDict, ValidationError

from agents.base.data_folder import data_path
from agents.base.files import first_fault, format_os_error, one_line, read_front_matter, shorten_name
from agents.models.base import ChatMessage, ChatRequest
from agents.texts.injection import without_special_tokens

PROMPT_PARTS = data_path("prompts") / "parts"
"""Texts that several templates include (``{% include "turn.j2" %}``), without front matter."""

_SECTION = re.compile(r"^=== (system|user|assistant)[ \t]*\n", re.MULTILINE)


class PromptError(ValueError):
    """A template is missing or malformed; the message names the file."""


class FrontMatter(BaseModel):
    """How the reply to a prompt is to be generated."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = "chat"
    max_tokens: int = 75
    temperature: float = 0.0
    schema_: dict[str, Any] | None = None
    logprobs: bool = False
    stop: tuple[str, ...] = ()
    exact: dict[str, Any] | None = None
    """See ``ChatRequest.exact``."""
    continues: str | None = None
    """Another template whose messages come before these, so that an engine with a prefix cache reads them once for both."""
    seen: str | None = None
    """Another template that takes the place of this one where the chat model sees the picture (``PromptLibrary``)."""


def _sanitise(value: Any) -> Any:
    """Make a value from any source safe for a prompt: it can neither end a message nor begin another."""
    return without_special_tokens(value) if isinstance(value, str) else value


def quote(text: str) -> str:
    """Put a text in quotation marks, after replacing those inside so that it cannot end its quotation.

    Spotlighting by delimiters (Hines et al., 2024, arXiv 2403.14720, section 3.1). The delimiters need not be random,
    because the text cannot contain them. ``lab/benchmarks/injected_orders.py`` measures the effect.
    """
    inside = text.replace('"', "”")
    return f'"{inside}"'


def _read_extended(path: Path) -> Post:
    """Read a template; one that ``extends`` another has its text and its front matter, with the own fields in it."""
    post = read_front_matter(path)
    if (name := post.metadata.pop("extends", None)) is None:
        return post
    base = read_front_matter(path.with_name(f"{name}.j2"))
    return Post(base.content, **_merge(base.metadata, post.metadata))


def _merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two tables; a table in both is merged likewise."""
    inner = {
        key: _merge(base[key], value)
        for key, value in changes.items()
        if isinstance(value, Mapping) and isinstance(base.get(key), Mapping)
    }
    return {**base, **changes, **inner}


class Prompt:
    """One template, ready to be filled in.

    Raises:
        PromptError: The file is missing, or its front matter or template is malformed.
    """

    def __init__(self, path: Path, continued_by: tuple[Path, ...] = ()) -> None:
        if path in continued_by:
            raise PromptError(f"prompt template {path} continues itself; correct `continues` in its front matter")
        try:
            post = _read_extended(path)
        except FileNotFoundError as error:
            raise PromptError(
                f"there is no prompt template {error.filename}; correct the name or add the file"
            ) from error
        except OSError as error:
            raise PromptError(f"prompt template {format_os_error(error)}") from error
        except ValueError as error:
            raise PromptError(f"prompt template {error}") from error
        try:
            header = {("schema_" if key == "schema" else key): value for key, value in post.metadata.items()}
            self.settings = FrontMatter.model_validate(header)
            environment = SandboxedEnvironment(
                undefined=StrictUndefined,
                trim_blocks=True,
                lstrip_blocks=True,
                finalize=_sanitise,
                loader=FileSystemLoader(PROMPT_PARTS),
            )
            environment.filters["quoted"] = quote
            pieces = _SECTION.split(post.content + "\n")
            continued = self.settings.continues
            self._before = Prompt(path.with_name(f"{continued}.j2"), (*continued_by, path)) if continued else None
            self._sections: list[tuple[str, Template]] = [
                *(self._before._sections if self._before is not None else ()),
                *((role, environment.from_string(body)) for role, body in zip(pieces[1::2], pieces[2::2], strict=True)),
            ]
            self._environment, self._bodies = environment, pieces[2::2]
        except ValidationError as error:
            raise PromptError(f"prompt template {path} is malformed: {first_fault(error)}") from error
        except TemplateSyntaxError as error:
            raise PromptError(
                f"prompt template {path} is malformed: {one_line(error)} (line {error.lineno})"
            ) from error
        except TemplateNotFound as error:
            raise PromptError(
                f"prompt template {path} is malformed: there is no part {error} in {PROMPT_PARTS}"
            ) from error
        except RecursionError as error:
            raise PromptError(f"prompt template {path} is malformed: nested too deep") from error
        if pieces[0].strip():
            raise PromptError(
                f"prompt template {path} has text before its first '=== role' line; move it below that line"
            )
        if all(role != "user" for role, _ in self._sections):
            raise PromptError(f"prompt template {path} has no '=== user' line: add one, with the question below it")
        self.name, self.path = path.stem, path

    @cached_property
    def wording(self) -> tuple[str, ...]:
        """Literal texts of the template, of its parts and of the one that it continues: all that it says without its values."""
        own = (text for body in self._bodies for text in self._literals(body))
        return (*(self._before.wording if self._before is not None else ()), *own)

    def _literals(self, body: str) -> Iterator[str]:
        tree = self._environment.parse(body)
        yield from (piece.data for piece in tree.find_all(nodes.TemplateData))
        for include in tree.find_all(nodes.Include):
            yield from self._literals((PROMPT_PARTS / include.template.as_const()).read_text(encoding="utf-8"))

    def render(self, **values: Any) -> str:
        """Render the whole prompt as one text, for templates without a chat, such as descriptions."""
        return "\n".join(body.render(**values).strip() for _, body in self._sections)

    def request(
        self,
        *,
        image: Image.Image | None = None,
        images: tuple[Image.Image, ...] = (),
        **values: Any,
    ) -> ChatRequest:
        """Build a chat request; the images go with the first user message.

        Raises:
            UndefinedError: A value that the template uses is missing.
        """
        all_images = (image, *images) if image is not None else images
        messages = [ChatMessage(role, body.render(**values).strip()) for role, body in self._sections]
        first_user = next(index for index, message in enumerate(messages) if message.role == "user")
        messages[first_user] = ChatMessage("user", messages[first_user].content, all_images)
        return ChatRequest(
            tuple(messages),
            max_tokens=self.settings.max_tokens,
            temperature=self.settings.temperature,
            schema=self.settings.schema_,
            logprobs=self.settings.logprobs,
            stop=self.settings.stop,
            exact=self.settings.exact,
        )


PHOTO_IN_WORDS = "image_in_words"
"""Name of the template that stands in for the photo in the prompts of a model that does not see."""


class PromptLibrary:
    """Templates of a folder by name, each read once.

    Args:
        folder: Folder of the templates.
        reply_tokens: Maximum tokens of a reply, by the name of the template, in place of the template's own limit.
        sees: Whether the chat model sees pictures. A template with ``seen`` in its front matter is then replaced by the one it names,
            so that stages and presets name one prompt for both kinds of models.

    Raises:
        PromptError: ``reply_tokens`` names a template that does not exist.
    """

    def __init__(self, folder: Path, reply_tokens: Mapping[str, int] | None = None, *, sees: bool = False) -> None:
        self._folder = folder
        self._reply_tokens = dict(reply_tokens or {})
        self._sees = sees
        self._read: dict[str, Prompt] = {}
        for name in self._reply_tokens:
            if name not in self:
                raise PromptError(
                    f"limits.reply_tokens names {shorten_name(name)!r}, but there is no prompt template {shorten_name(self._path(name))}"
                )

    def __contains__(self, name: str) -> bool:
        """Return whether a template of that name exists."""
        try:
            return self._path(name).is_file()
        except OSError:  # no name of a file
            return False

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.j2"

    def __getitem__(self, name: str) -> Prompt:
        """Return the prompt of a name, a path below the folder without ``.j2``, or the one for a model that sees.

        Raises:
            PromptError: The template, or the one that it names, is missing or malformed.
        """
        if name not in self._read:
            prompt = Prompt(self._path(name))
            if self._sees and prompt.settings.seen is not None:
                prompt = Prompt(self._path(prompt.settings.seen))
            self._read[name] = prompt
            if name in self._reply_tokens:
                prompt.settings = prompt.settings.model_copy(update={"max_tokens": self._reply_tokens[name]})
        return self._read[name]
