"""A web page to talk with an agent about a photo; needs gradio (requirements/web.txt)."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gradio as gr
from fastapi import FastAPI
from gradio.processing_utils import save_pil_to_cache
from gradio.utils import get_upload_folder
from PIL import Image

from agents.base_agent import Message
from agents.english.references import points_at_picture
from agents.unanswered import WORDS
from apps.answering import AgentError, Answerer, CancelledError, PhotoError, Question
from apps.details import encode_thumbnail, render_details, render_introduction, render_progress
from apps.examples import Example
from apps.outcome import Outcome
from apps.own_files import link_files
from apps.page_guard import MAX_PICTURE, MAX_PIXELS, NO_PICTURE, PageGuard
from apps.page_job import Job
from apps.serving.pictures import PhotoReader
from apps.serving.protocol import ProtocolError

_log = logging.getLogger(__name__)

CSS = """
.crag h2 {margin: .8em 0 .2em; font-size: 1em}
.crag p, .crag ol {margin: .2em 0}
.crag ol, .crag ul {padding-left: 1.4em; list-style-position: outside}
.crag mark {background: #ffe08a; color: #222; padding: 0 .1em}
.crag a {margin: 0; padding: 0}
.crag li {margin: .4em 0; overflow-wrap: anywhere}
.crag .dim, .crag dt {color: var(--body-text-color-subdued); font-size: .9em}
.crag .answered, .crag .abstained {padding: .2em .6em; border-left: .3em solid #2e9e5b}
.crag .abstained {border-color: #d9a400}
.crag .wrong {color: #c0392b}
.crag dl {display: grid; grid-template-columns: max-content 1fr; gap: .1em 1em; margin: .3em 0}
.crag img {max-width: 100%; max-height: 24em; margin: .6em 0; border-radius: .4em}
#talk .message {cursor: pointer}
.crag dd {margin: 0; overflow-wrap: anywhere}
#examples {display: grid; grid-template-columns: repeat(auto-fill, minmax(12em, 1fr)); gap: .6em}
#examples button {display: flex; flex-direction: column; justify-content: flex-start; padding: 0 0 .5em; overflow: hidden;
  font-size: .95em; font-weight: normal; white-space: normal}
#examples button::before {content: ""; width: 100%; height: 7em; margin-bottom: .4em;
  background-position: center 30%; background-size: cover}
#examples button.plain {justify-content: center; padding: .5em; min-height: 4em}
@media (max-width: 700px) {
  #columns > * {display: contents}
  #columns > * > * {flex: 1 1 100%}
  #examples {grid-template-columns: 1fr 1fr}
  #columns:not(:has(#photo img)) #examples {order: -1}
  #columns:not(:has(#photo img)) #told:has(.introduction) {order: -2}
}
"""
_FONTS = ["system-ui", "sans-serif"]  # gradio's own would be fetched from Google
# Colours of Soft that differ from their ground by less than 4.5:1 (WCAG 2.2, 1.4.3) are replaced by darker ones, or lighter in the dark.
THEME: Any = gr.themes.Soft(font=_FONTS, font_mono=["ui-monospace", "monospace"]).set(
    background_fill_primary="*neutral_50",  # Soft's own, which ``set`` forgets
    body_text_color_subdued="*neutral_600",
    body_text_color_subdued_dark="*neutral_300",
    block_label_text_color="*primary_700",
    button_primary_background_fill="*primary_600",
    button_primary_background_fill_hover="*primary_700",
    link_text_color_dark="*primary_300",
    link_text_color_hover_dark="*primary_200",
    link_text_color_visited_dark="*primary_300",
)
# gradio's picture has no text in place of it for those who do not see it.
_NAME_PHOTO = """() => {
  const photo = document.querySelector('#photo');
  const name = () => photo.querySelectorAll('img:not([alt])').forEach(each => each.alt = 'the photo in question');
  new MutationObserver(name).observe(photo, {childList: true, subtree: true});
}"""


_EXAMPLE_ID = "example-{}"
_NO_PHOTO = "Add a photo first, then ask about it."
_WITHOUT = ""  # in place of the photo's file, in a dialog without a photo
_STOPPED = "Stopped."
_QUEUE = 16  # questions inside, each with a thread; as many more wait for one, then visitors are asked to come again
_KEPT_SECONDS = 24 * 3600  # for uploaded photos
_SWEEP_SECONDS = 3600  # between two deletions of those that are older
_TICK_SECONDS = 1.0  # between two updates of the progress while nothing changes
_KEPT_CHARACTERS = 400_000  # of a dialog in the browser; the oldest answers are forgotten beyond


@dataclass(frozen=True)
class Dialog:
    """State in the browser across reloads: the photo's file on the server, and the questions with their outcomes."""

    photo: str | None = None
    turns: tuple[tuple[str, Outcome], ...] = ()

    @classmethod
    def read(cls, state: Any, photo: str | None = None) -> Dialog:
        """Parse the state that a browser sends.

        Args:
            state: The value of the browser's storage, which may be anything.
            photo: File that the dialog must be about, "" for a dialog without a photo; None: any dialog.

        Returns:
            A dialog without turns if ``state`` is malformed or about another photo.
        """
        if not isinstance(state, Mapping) or not isinstance(state.get("photo"), str):
            return cls(photo)
        if photo is not None and state["photo"] != photo:
            return cls(photo)
        turns = state.get("turns")
        pairs = [turn for turn in turns if isinstance(turn, Mapping)] if isinstance(turns, list) else []
        read = [(str(turn.get("question")), Outcome.from_json(turn.get("outcome"))) for turn in pairs]
        return cls(state["photo"], tuple((question, outcome) for question, outcome in read if outcome is not None))

    def as_json(self) -> dict[str, Any]:
        """Return the state for the browser."""
        turns = [{"question": question, "outcome": outcome.as_json()} for question, outcome in self.turns]
        while len(turns) > 1 and len(json.dumps(turns)) > _KEPT_CHARACTERS:
            del turns[0]
        return {"photo": self.photo, "turns": turns}

    @property
    def messages(self) -> list[Message]:
        """The dialog as messages for the agent."""
        pairs = ((("user", question), ("assistant", outcome.answer)) for question, outcome in self.turns)
        return [Message(role=role, content=text) for pair in pairs for role, text in pair]

    def find_turn(self, place: int, messages: Sequence[Message]) -> tuple[str, Outcome] | None:
        """Find the turn whose question or answer is message ``place`` of those shown.

        It matches from the end, because the oldest turns may be forgotten.

        Returns:
            None for a message that belongs to no turn, such as "Stopped.".
        """
        remaining = list(self.turns)
        for at in range(len(messages) - 1, 0, -1):
            if remaining and (messages[at - 1]["content"], messages[at]["content"]) == (
                remaining[-1][0],
                remaining[-1][1].answer,
            ):
                turn = remaining.pop()
                if place in (at - 1, at):
                    return turn
        return None


def build_page_app(answerer: Answerer, examples: Sequence[Example] = (), knowledge: Path | None = None) -> PageGuard:
    """Build the page as an ASGI application; evidence links to the files of the collection ``knowledge``."""
    photos = PhotoReader(MAX_PIXELS)
    report = None if answerer.about is None else answerer.about.report
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    page = build(answerer, examples, photos, link_files(app, knowledge, report)).queue(max_size=_QUEUE)
    page.has_launched = True  # else gradio does not check which files it reads and serves; only its launch() says so
    return PageGuard(
        gr.mount_gradio_app(
            app,
            page,
            "/",
            theme=THEME,
            css=CSS + _style_examples(examples),
            max_file_size=MAX_PICTURE,
            ssr_mode=False,
            footer_links=[],
            show_error=False,
            enable_monitoring=False,
        ),
        photos,
    )


class _Handlers:
    """Handlers of a visitor's actions: ask, stop, begin anew, come back. One question is answered at a time."""

    def __init__(
        self, answerer: Answerer, examples: int, photos: PhotoReader, link: Callable[[str], str | None]
    ) -> None:
        self._answerer, self._examples, self._photos = answerer, examples, photos
        self._render = partial(render_details, link=link)
        self._turn = threading.Lock()

    def introduce(self) -> str:
        """Render the introduction beside an empty dialog."""
        return render_introduction(self._answerer.about, self._answerer.expected, self._examples)

    def buttons(self, *, busy: bool) -> tuple[Any, Any]:
        """Show the button Ask, or Stop while a question is answered."""
        return gr.update(visible=not busy), gr.update(visible=busy)

    def say(self, file: Any, text: str, talk: list[dict[str, Any]], state: Any) -> tuple[Any, ...]:
        """Show the question before its answer, or report at once why it cannot be answered."""
        if not text.strip():
            return (gr.skip(),) * 4
        question = {"role": "user", "content": text.strip()}
        dialog = Dialog.read(state, _get_path(file))
        try:
            if _load_upload(file, self._photos) is None and not dialog.turns and points_at_picture(text):
                raise PhotoError(_NO_PHOTO)
        except PhotoError as error:
            reply = {"role": "assistant", "content": str(error)}
            return [*_to_messages(talk), question, reply], text, *self.buttons(busy=False)
        earlier = _to_messages(talk) if dialog.turns else []
        return [*earlier, question], "", *self.buttons(busy=True)

    def answer(self, file: Any, talk: list[dict[str, Any]], state: Any) -> Iterator[tuple[Any, ...]]:
        """Yield the progress, then the answer; gradio closes it early if the visitor stops it or leaves."""
        if not talk or talk[-1]["role"] != "user":  # nothing was asked
            yield (gr.skip(),) * 5
            return
        chat_messages = _to_messages(talk)

        def reply(text: str, details: str = "", dialog: Any = None) -> tuple[Any, ...]:
            messages = [*chat_messages, {"role": "assistant", "content": text}]
            return messages, details, gr.skip() if dialog is None else dialog, *self.buttons(busy=False)

        try:
            photo = _load_upload(file, self._photos)
        except PhotoError as error:
            yield reply(str(error))
            return
        dialog, question = Dialog.read(state, _get_path(file)), chat_messages[-1]["content"]
        job = Job(self._answerer, Question(question, photo, dialog.messages), self._turn)
        try:
            while not job.wait(_TICK_SECONDS):
                # The buttons are left alone: an update on its way would bring Stop back after a click on it.
                yield gr.skip(), render_progress(job.steps(), self._answerer.expected), gr.skip(), gr.skip(), gr.skip()
            outcome = job.outcome()
            if outcome.failed and outcome.cause is not None:
                _log.error("a question was not answered: %s", outcome.error)
                yield reply(f"There is no answer: {WORDS[outcome.cause]}.", self._render(outcome, photo, question))
                return
            longer = Dialog(_get_path(file), (*dialog.turns, (question, outcome)))
            yield reply(outcome.answer, self._render(outcome, photo, question), longer.as_json())
        except CancelledError:
            yield reply(_STOPPED)
        except AgentError:
            _log.exception("the agent failed")
            yield reply("The agent failed; its log says why.")
        finally:
            job.cancel()

    def stop(self, talk: list[dict[str, Any]]) -> tuple[Any, ...]:
        """Say that the question was stopped."""
        return (
            [*_to_messages(talk), {"role": "assistant", "content": _STOPPED}],
            self.introduce(),
            *self.buttons(busy=False),
        )

    def begin(self, file: Any) -> tuple[Any, ...]:
        """Begin a new dialog for a new photo."""
        return [], self.introduce(), Dialog(file["path"] if isinstance(file, Mapping) else None).as_json()

    def restore(self, state: Any) -> tuple[Any, ...]:
        """Restore the dialog that the browser kept, if its photo is still here."""
        dialog = Dialog.read(state)
        try:
            photo = _load_upload({"path": dialog.photo}, self._photos)
        except PhotoError:
            return None, [], self.introduce()
        question, outcome = dialog.turns[-1] if dialog.turns else ("", None)
        details = self._render(outcome, photo, question) if outcome is not None else self.introduce()
        return dialog.photo or None, dialog.messages, details

    def show_turn(self, talk: list[dict[str, Any]], state: Any, event: gr.SelectData) -> Any:
        """Show the details of the clicked answer or question; change nothing for other messages."""
        dialog = Dialog.read(state)
        turn = dialog.find_turn(event.index, _to_messages(talk))
        if turn is None:
            return gr.skip()
        try:
            photo = _load_upload({"path": dialog.photo}, self._photos)
        except PhotoError as error:
            return str(error)
        question, outcome = turn
        return self._render(outcome, photo, question, again=True)


def build(
    answerer: Answerer,
    examples: Sequence[Example] = (),
    photos: PhotoReader | None = None,
    link: Callable[[str], str | None] = lambda _: None,
) -> gr.Blocks:
    """Build the page, which answers one question at a time; ``photos`` decodes uploads, ``link`` links to files of sources."""
    handlers = _Handlers(answerer, len(examples), photos or PhotoReader(MAX_PIXELS), link)
    with gr.Blocks(
        title="Ask about a photo", analytics_enabled=False, delete_cache=(_SWEEP_SECONDS, _KEPT_SECONDS)
    ) as page:
        state = gr.BrowserState(Dialog().as_json(), storage_key="crag-dialog")
        gr.Markdown("# Ask about a photo")
        with gr.Row(elem_id="columns"):
            with gr.Column(scale=2, min_width=320):
                sources = ["upload", "webcam", "clipboard"]
                photo = gr.Image(label="Photo", type="filepath", sources=sources, height=300, elem_id="photo")
                hint = "A new photo begins a new dialog. Click an answer to see how it was found."
                talk = gr.Chatbot(
                    label="Dialog",
                    show_label=False,
                    height=260,
                    render_markdown=False,
                    buttons=[],
                    placeholder=hint,
                    elem_id="talk",
                )
                with gr.Row():
                    text = gr.Textbox(
                        label="Your question",
                        show_label=False,
                        placeholder="How tall is this?",
                        scale=4,
                        max_length=4000,
                        elem_id="question",
                    )
                    send = gr.Button("Ask", variant="primary", scale=1, min_width=80, elem_id="ask")
                    halt = gr.Button("Stop", variant="stop", scale=1, min_width=80, elem_id="stop", visible=False)
                clear = gr.Button("Clear the dialog", size="sm", elem_id="clear")
            with gr.Column(scale=3, min_width=320):
                details = gr.HTML(elem_id="told")
                example_buttons: list[Any] = []
                if examples:
                    # Buttons are called by their questions and reached by keys, unlike the pictures of a gallery. The script of gr.Dataset
                    # now and then reads what is not loaded yet.
                    with gr.Row(elem_id="examples"):
                        example_buttons = [
                            gr.Button(
                                _name_example(example),
                                elem_id=_EXAMPLE_ID.format(place),
                                elem_classes=[] if example.photo else ["plain"],
                            )
                            for place, example in enumerate(examples)
                        ]
        # gradio's own preprocessing opens the photo, and shows "Error" where that fails, before a word can be said
        raw: dict[str, Any] = {"preprocess": False, "api_visibility": "private"}
        hidden = {**raw, "show_progress": "hidden"}
        submit_event = gr.on(
            [text.submit, send.click], handlers.say, [photo, text, talk, state], [talk, text, send, halt], **hidden
        )
        answer_event = submit_event.then(
            handlers.answer,
            [photo, talk, state],
            [talk, details, state, send, halt],
            concurrency_limit=_QUEUE,  # a job waits for the one before by itself, and says so
            **hidden,
        )
        halt.click(handlers.stop, [talk], [talk, details, send, halt], cancels=[answer_event], **hidden)
        gr.on([photo.upload, photo.clear], handlers.begin, [photo], [talk, details, state], **hidden)
        gr.on(
            [clear.click, talk.clear],
            lambda: (None, "", *handlers.begin(None), *handlers.buttons(busy=False)),
            None,
            [photo, text, talk, details, state, send, halt],
            cancels=[answer_event],
            **hidden,
        )
        talk.select(handlers.show_turn, [talk, state], [details], **hidden)
        page.load(None, js=_NAME_PHOTO)
        page.load(handlers.restore, [state], [photo, talk, details], **hidden)

        def take_example(path: str | None, question: str) -> tuple[Any, ...]:
            return path, question, *handlers.begin({"path": path or _WITHOUT}), *handlers.buttons(busy=False)

        for button, example in zip(example_buttons, examples, strict=True):
            path = None if example.photo is None else _store(example.photo)
            photo.keep_in_cache.add(path)  # gradio takes a clicked example for an upload, to be deleted after a day
            button.click(
                partial(take_example, path, example.question),
                None,
                [photo, text, talk, details, state, send, halt],
                cancels=[answer_event],
                **hidden,
            )
    return page


def _name_example(example: Example) -> str:
    """Return the text on the button of an example."""
    about = "" if example.photo is not None else " (without a photo)"
    return f"{example.question}{about}{'' if example.answerable else ' (nothing here says so)'}"


def _style_examples(examples: Sequence[Example]) -> str:
    """Return the styles that put the photos of examples on their buttons."""
    pictures = [example.photo and f"background-image: url({encode_thumbnail(example.photo)})" for example in examples]
    return "".join(
        f"#{_EXAMPLE_ID.format(place)}::before {{{picture or 'display: none'}}}\n"
        for place, picture in enumerate(pictures)
    )


def _store(photo: Image.Image) -> str:
    """Store a picture among the uploads and return its path."""
    return str(save_pil_to_cache(photo, get_upload_folder(), "photo"))


def _get_path(file: Any) -> str:
    """Return the path of an upload as gradio passes it; "" without one."""
    path = file.get("path") if isinstance(file, Mapping) else None
    return path if isinstance(path, str) else _WITHOUT


def _load_upload(file: Any, photos: PhotoReader) -> Image.Image | None:
    """Load a visitor's photo; None without one.

    Only uploaded files are read: gradio checks paths only if ``meta`` asks for it.

    Raises:
        PhotoError: It is not usable; the message is in words for the visitor.
    """
    if not _get_path(file):
        return None
    path = Path(file["path"]).resolve()
    if not path.is_relative_to(Path(get_upload_folder()).resolve()):
        raise PhotoError(NO_PICTURE)
    try:
        return photos.decode_now(path.read_bytes())
    except (OSError, ProtocolError):
        raise PhotoError(NO_PICTURE) from None


def _to_messages(talk: Sequence[Mapping[str, Any]]) -> list[Message]:
    return [Message(role=message["role"], content=_join_text(message["content"])) for message in talk]


def _join_text(content: Any) -> str:
    """Join the text of a message, which gradio turns into a list of parts on its way through the browser."""
    if isinstance(content, str):
        return content
    return "".join(part if isinstance(part, str) else str(part.get("text", "")) for part in content)
