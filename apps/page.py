"""A web page to talk with an agent about a photo; takes gradio (requirements/web.txt)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gradio as gr
from fastapi import FastAPI
from gradio.utils import get_upload_folder
from PIL import Image

from agents.base_agent import Message
from apps.answering import AgentError, Answerer, PhotoError, Question, read_photo
from apps.details import details
from apps.page_guard import MAX_PICTURE, PageGuard

_log = logging.getLogger(__name__)

CSS = """
.crag h3 {margin: .8em 0 .2em; font-size: 1em}
.crag p, .crag ol {margin: .2em 0}
.crag ol {padding-left: 1.4em}
.crag a {margin: 0; padding: 0}
.crag li {margin: .4em 0; overflow-wrap: anywhere}
.crag .dim, .crag dt {color: var(--body-text-color-subdued); font-size: .9em}
.crag .answered, .crag .abstained {padding: .2em .6em; border-left: .3em solid #2e9e5b}
.crag .abstained {border-color: #d9a400}
.crag .wrong {color: #c0392b}
.crag dl {display: grid; grid-template-columns: max-content 1fr; gap: .1em 1em; margin: .3em 0}
.crag img {max-width: 100%; margin: .6em 0; border-radius: .4em}
.crag dd {margin: 0; overflow-wrap: anywhere}
"""
_FONTS = ["system-ui", "sans-serif"]  # gradio's own would be fetched from Google
THEME: Any = gr.themes.Soft(font=_FONTS, font_mono=["ui-monospace", "monospace"])


_NO_PHOTO = "There is no photo yet: add one, then ask about it."
_QUEUE = 16  # visitors who wait; more are asked to come again
_KEPT_SECONDS = 24 * 3600  # for uploaded photos


def page_app(answerer: Answerer) -> PageGuard:
    """The page as an ASGI application."""
    page = build(answerer).queue(max_size=_QUEUE)
    page.has_launched = True  # else gradio does not check which files it reads and serves; only its launch() says so
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    return PageGuard(
        gr.mount_gradio_app(
            app,
            page,
            "/",
            theme=THEME,
            css=CSS,
            max_file_size=MAX_PICTURE,
            ssr_mode=False,
            footer_links=[],
            show_error=False,
            enable_monitoring=False,
        )
    )


def build(answerer: Answerer) -> gr.Blocks:
    """The page; one question is answered at a time."""

    def say(file: dict[str, Any] | None, text: str, talk: list[dict[str, Any]]) -> tuple[Any, ...]:
        """The question stands in the dialog before its answer is there; what cannot be answered need not wait for the agent."""
        if not text.strip():
            return gr.skip(), gr.skip()
        asked = [*_said(talk), {"role": "user", "content": text.strip()}]
        if file is None:
            return [*asked, {"role": "assistant", "content": _NO_PHOTO}], text
        return asked, ""

    def answer(file: dict[str, Any] | None, talk: list[dict[str, Any]]) -> tuple[Any, ...]:
        if file is None or not talk or talk[-1]["role"] != "user":  # nothing was asked
            return gr.skip(), gr.skip()
        said = _said(talk)

        def reply(text: str) -> list[dict[str, Any]]:
            return [*said, {"role": "assistant", "content": text}]

        try:
            photo = _uploaded(file)
            outcome = answerer.answer([Question(said[-1]["content"], photo, said[:-1])])[0]
        except PhotoError:
            return reply("This file cannot be read as a photo; try JPEG, PNG or WebP."), ""
        except AgentError:
            _log.exception("the agent failed")
            return reply("The agent failed; its log says why."), ""
        return reply(outcome.answer), details(outcome, photo)

    with gr.Blocks(
        title="Ask about a photo", analytics_enabled=False, delete_cache=(_KEPT_SECONDS, _KEPT_SECONDS)
    ) as page:
        gr.Markdown("# Ask about a photo")
        with gr.Row():
            with gr.Column(scale=2, min_width=320):
                sources = ["upload", "webcam", "clipboard"]
                photo = gr.Image(label="photo", type="filepath", sources=sources, height=300, elem_id="photo")
                hint = "A new photo begins a new dialog."
                talk = gr.Chatbot(
                    show_label=False, height=260, render_markdown=False, buttons=[], placeholder=hint, elem_id="talk"
                )
                with gr.Row():
                    text = gr.Textbox(
                        show_label=False, placeholder="How tall is this?", scale=4, max_length=4000, elem_id="question"
                    )
                    send = gr.Button("Ask", variant="primary", scale=1, min_width=80, elem_id="ask")
            with gr.Column(scale=3, min_width=320):
                told = gr.HTML(elem_id="told")
        # gradio's own preprocessing opens the photo, and shows "Error" where that fails, before a word can be said
        raw: dict[str, Any] = {"preprocess": False, "api_visibility": "private"}
        hidden = {**raw, "show_progress": "hidden"}
        alone = {**raw, "concurrency_limit": 1, "concurrency_id": "agent"}
        asked = gr.on([text.submit, send.click], say, [photo, text, talk], [talk, text], **hidden)
        asked.then(answer, [photo, talk], [talk, told], show_progress_on=talk, **alone)
        photo.change(lambda: ([], ""), None, [talk, told], **hidden)
    return page


def _uploaded(file: Mapping[str, Any]) -> Image.Image:
    """A visitor's photo; PhotoError where it is none, or a file of this machine: gradio checks paths only if ``meta`` asks for it."""
    path = Path(str(file.get("path"))).resolve()
    if not path.is_relative_to(Path(get_upload_folder()).resolve()):
        raise PhotoError("it was not uploaded")
    return read_photo(path)


def _said(talk: Sequence[Mapping[str, Any]]) -> list[Message]:
    return [Message(role=message["role"], content=_text(message["content"])) for message in talk]


def _text(content: Any) -> str:
    """A message's text; gradio turns strings into lists of parts on their way through the browser."""
    if isinstance(content, str):
        return content
    return "".join(part if isinstance(part, str) else str(part.get("text", "")) for part in content)
