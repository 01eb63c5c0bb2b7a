"""HTML that the page shows beside the dialog: before, during and after a question.

Every text is escaped, because evidence is untrusted.
"""

import re
from collections.abc import Callable, Collection, Sequence
from html import escape

from PIL import Image, ImageDraw, ImageFont

from agents.models.pixels import jpeg_data_url
from agents.search.pages.fetching import is_http
from apps.answering import About
from apps.outcome import CHANGED, Crop, Outcome, ShownEvidence
from apps.own_files import REPORT_ROUTE
from apps.page_job import Step

SHOWN_SIDE = 1024  # pixels of a photo's longer side on the page

_KINDS = {"kg": "knowledge graph", "web": "web page"}
_COLOURS = ("#0072b2", "#d55e00", "#007a5a", "#a0468c", "#6b4fbb", "#8a6d00")
"""Colours of the frames, dark enough for white digits."""
_QUALITY = 85  # of the JPEG
_THUMBNAIL_SIDE = 320  # pixels
_NUMBER_HEIGHT = 18  # pixels
_MAX_TEXT = 400  # characters of a piece of evidence
_BEFORE = 120  # of them before the first word that is marked, where the text is cut
_WORD = re.compile(r"\w+(?:[.,]\d+)*")
_MIN_LETTERS = 4  # of a word that is marked
_COMMON = frozenset(
    "about also been from have into more most than that their them there they this was were when which with".split()
)
_SLOW = 0.05  # seconds below which a stage's time is not listed


def render_introduction(about: About | None, expected: str, examples: int) -> str:
    """Render how to begin, and three lines about the agent behind the page."""
    own = "Add a photo" if not examples else "Take an example, or add a photo of your own"
    lines = ["Each answer comes with its evidence. If nothing supports one, the answer is “I don't know”."]
    if about is not None:
        lines.insert(0, f"It recognises what the photo shows, and searches the pictures and pages of {about.split}.")
    made = "" if about is None else f"preset {about.preset}, profile {about.profile}"
    if made or expected:
        time = f"{expected} ({made})" if made and expected else made or expected
        lines.append(f"{time[0].upper()}{time[1:]}.")
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    if about is not None and about.report is not None:
        items += f'<li><a href="{REPORT_ROUTE}">What was read of its pages</a>, and what was left out.</li>'
    return f'<div class="crag introduction"><p>{own}, then ask about it.</p><ul>{items}</ul></div>'


def render_progress(steps: Sequence[Step], expected: str) -> str:
    """Render the finished steps and the current one, each with its seconds."""
    *previous, current = steps
    lines = "".join(f"<li>{escape(step.words)} <span class=dim>{step.seconds:.1f} s</span></li>" for step in previous)
    seconds = sum(step.seconds for step in steps)
    suffix = f", {escape(expected)}" if expected else ""
    return (
        f'<div class="crag"><h2>Working: {seconds:.0f} s{suffix}</h2><ul>{lines}'
        f'<li class="now"><b>{escape(current.words)}</b> <span class=dim>{current.seconds:.0f} s</span></li></ul></div>'
    )


def draw_crops(photo: Image.Image, outcome: Outcome) -> Image.Image:
    """Draw a numbered frame around each crop of the photo, scaled down for the page.

    Frames, because filled boxes would hide each other.
    """
    scale = min(1.0, SHOWN_SIDE / max(photo.size))
    scaled_photo = photo.resize((max(1, round(photo.width * scale)), max(1, round(photo.height * scale)))).convert(
        "RGB"
    )
    pen = ImageDraw.Draw(scaled_photo)
    font = ImageFont.load_default(size=_NUMBER_HEIGHT)
    places: list[tuple[int, int, str]] = []
    for number, crop in enumerate(outcome.crops):
        left, right = (min(max(0, round(side * scale)), scaled_photo.width - 1) for side in (crop.left, crop.right))
        top, bottom = (min(max(0, round(side * scale)), scaled_photo.height - 1) for side in (crop.top, crop.bottom))
        colour = _COLOURS[number % len(_COLOURS)]
        if right > left and bottom > top:
            pen.rectangle((left, top, right, bottom), outline=colour, width=3)
        places.append((left, top, colour))
    for number, (left, top, colour) in enumerate(places, 1):  # after all frames, so that none crosses a number
        edges = pen.textbbox((left + 6, top + 4), str(number), font=font)
        pen.rectangle((edges[0] - 4, edges[1] - 3, edges[2] + 4, edges[3] + 3), fill=colour)
        pen.text((left + 6, top + 4), str(number), font=font, fill="white")
    return scaled_photo


def render_details(
    outcome: Outcome,
    photo: Image.Image | None = None,
    query: str = "",
    *,
    again: bool = False,
    link: Callable[[str], str | None] = lambda _: None,
) -> str:
    """Render verdict, entity, framed photo, evidence and times of an answer.

    Args:
        outcome: The answer and how it came about.
        photo: The photo to draw the crops on; None: no photo is shown.
        query: The question as the visitor wrote it.
        again: Show question and answer first: a clicked answer is seldom the last of its dialog.
        link: Returns the link to the file of a source without a web address, or None.
    """
    turn = f"<p><b>{escape(query)}</b> {escape(outcome.answer)}</p>" if again else ""
    framed = _render_photo(photo, outcome) if photo is not None and outcome.crops else ""
    parts = [
        turn,
        _render_verdict(outcome),
        _render_findings(outcome),
        framed,
        _render_evidence(outcome, query, link),
        _render_times(outcome),
    ]
    return f'<div class="crag">{"".join(parts)}</div>'


def _render_verdict(outcome: Outcome) -> str:
    if not outcome.verdict and not outcome.failed:
        return ""
    checks = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(f'{value:.3g}' if isinstance(value, float) else str(value))}</dd>"
        for name, value in (outcome.checks or {}).items()
    )
    error = f'<p class="wrong">Went wrong: {escape(outcome.error)}</p>' if outcome.error else ""
    state = "abstained" if outcome.abstained else "answered"
    measured = f"<details><summary>what was measured</summary><dl>{checks}</dl></details>" if checks else ""
    explanation = "" if outcome.failed else f'<p class="{state}">{escape(outcome.explained or outcome.verdict)}</p>'
    return f"<h2>Verdict</h2>{explanation}{error}{measured}"


def _render_findings(outcome: Outcome) -> str:
    if not (outcome.entity or outcome.alike or outcome.question or outcome.crops or outcome.read):
        return ""
    understood = f"<p>Understood as: {escape(outcome.question)}</p>" if outcome.question else ""
    entity = _render_entity(outcome)
    alike = ", ".join(f"{escape(name)} {score:.2f}" for name, score in outcome.alike)
    rest = [
        f'<p class="dim">{label}: {text}</p>'
        for label, text in (
            ("Text read", ", ".join(f"“{escape(line)}”" for line in outcome.read)),
            ("Searched with the whole photo and", escape(_name_crops(outcome.crops))),
            ("Alike", alike),
        )
        if text
    ]
    return f"<h2>In the photo</h2>{entity}{understood}{''.join(rest)}"


def _name_crops(crops: Sequence[Crop]) -> str:
    """Count the crops that the search saw, and name them if their names differ."""
    count = f"{len(crops)} crop{'s' * (len(crops) != 1)}" if crops else ""
    if len({crop.phrase for crop in crops if crop.phrase}) < 2:
        return count
    return f"{count}: {', '.join(f'{number} {crop.phrase}'.strip() for number, crop in enumerate(crops, 1))}"


def _render_entity(outcome: Outcome) -> str:
    """Render the entity that the photo is taken to show."""
    if outcome.entity:
        return f"<p><b>{escape(outcome.entity)}</b></p>"
    return f"<p>{escape(outcome.unrecognised or 'Nothing was recognised.')}</p>"


def _render_photo(photo: Image.Image, outcome: Outcome) -> str:
    return f'<img alt="the photo with its searched crops framed" src="{jpeg_data_url(draw_crops(photo, outcome), _QUALITY)}">'


def encode_thumbnail(photo: Image.Image) -> str:
    """Encode a small copy of a photo as a data URL."""
    small = photo.convert("RGB")
    small.thumbnail((_THUMBNAIL_SIDE, _THUMBNAIL_SIDE))
    return jpeg_data_url(small, _QUALITY)


def _render_evidence(outcome: Outcome, query: str, link: Callable[[str], str | None]) -> str:
    if not outcome.sources:
        return ""
    words = select_answer_words(outcome, query)
    return f"<h2>Evidence</h2><ol>{''.join(_render_source(source, words, link) for source in outcome.sources)}</ol>"


def select_answer_words(outcome: Outcome, query: str = "") -> frozenset[str]:
    """Return the words of the given or withheld answer to mark in evidence.

    Common words and those of the question and its object are left out.
    """
    answer = outcome.withheld or ("" if outcome.abstained else outcome.answer)
    question_words = {word.casefold() for word in _WORD.findall(f"{outcome.entity or ''} {outcome.question} {query}")}
    words = {word.casefold() for word in _WORD.findall(answer) if word[0].isdigit() or len(word) >= _MIN_LETTERS}
    return frozenset(words - _COMMON - question_words)


def _render_source(source: ShownEvidence, words: Collection[str], link: Callable[[str], str | None]) -> str:
    origin = escape(source.title or source.url or _KINDS.get(source.kind, source.kind))
    file = None if is_http(source.url) else link(source.url)
    if file is not None and source.title:
        origin += f", {escape(source.url)}"
    if (address := source.url if is_http(source.url) else file) is not None:
        origin = f'<a href="{escape(address)}" target="_blank" rel="noopener noreferrer">{origin}</a>'
    score = "" if source.score is None else f"{source.score:.2f} "
    mark = f" <b>{CHANGED}</b>" if source.changed else ""
    origin = f"{score}{_KINDS.get(source.kind, escape(source.kind))}: {origin}{mark}"
    return f'<li>{_mark_words(source.text, words)}<br><span class="dim">{origin}</span></li>'


def _mark_words(text: str, words: Collection[str]) -> str:
    """Escape a text and mark these words in it; a long text is cut around the first of them."""
    matches = [word for word in _WORD.finditer(text) if word.group().casefold() in words]
    start = 0
    if len(text) > _MAX_TEXT and matches and matches[0].end() > _MAX_TEXT:
        start = text.rfind(" ", 0, matches[0].start() - _BEFORE) + 1
    end = min(len(text), start + _MAX_TEXT)
    parts, place = ["…" if start else ""], start
    for word in matches:
        if start <= word.start() and word.end() <= end:
            parts += [escape(text[place : word.start()]), f"<mark>{escape(word.group())}</mark>"]
            place = word.end()
    return "".join([*parts, escape(text[place:end]), "…" if end < len(text) else ""])


def _render_times(outcome: Outcome) -> str:
    if not outcome.times:
        return ""
    rows = "".join(
        f"<dt>{escape(time.stage)}</dt><dd>{escape('skipped: ' + time.skipped) if time.skipped else f'{time.seconds:.2f} s'}</dd>"
        for time in outcome.times
        if time.skipped or time.seconds >= _SLOW
    )
    return f"<details><summary>{outcome.seconds:.1f} s, by stage</summary><dl>{rows}</dl></details>"
