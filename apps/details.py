"""What the page shows beside the dialog, as HTML: at the start, while a question is answered, and of its outcome.

Every text is escaped, because evidence is untrusted.
"""

import base64
import io
import re
from collections.abc import Collection, Sequence
from html import escape

from PIL import Image, ImageDraw, ImageFont

from agents.search.pages.fetching import over_http
from apps.answering import About
from apps.outcome import Outcome, ShownEvidence
from apps.page_job import Step

SHOWN_SIDE = 1024  # pixels of a photo's longer side on the page

_KINDS = {"kg": "knowledge graph", "web": "web page"}
_COLOURS = ("#0072b2", "#d55e00", "#007a5a", "#a0468c", "#6b4fbb", "#8a6d00")
"""Dark enough for white figures."""
_QUALITY = 85  # of the JPEG
_NUMBER_HEIGHT = 18  # pixels
_MAX_TEXT = 400  # characters of a piece of evidence
_BEFORE = 120  # of them before the first word that is marked, where the text is cut
_WORD = re.compile(r"\w+(?:[.,]\d+)*")
_MIN_LETTERS = 4  # of a word that is marked
_COMMON = frozenset(
    "about also been from have into more most than that their them there they this was were when which with".split()
)
_SLOW = 0.05  # seconds below which a stage's time is not listed


def introduction(about: About | None, expected: str, examples: int) -> str:
    """What answers, in what time, and how to begin."""
    own = "Add a photo" if not examples else "Take an example below, or add a photo of your own"
    rows = [("time", expected)]
    if about is not None:
        method = f"{about.preset} ({about.description.rstrip('.')})" if about.description else about.preset
        rows = [("preset", method), ("profile", about.profile), ("searches", about.split), *rows]
    said = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in rows if text)
    return f'<div class="crag"><p>{own}, then ask about it.</p><dl>{said}</dl></div>'


def working(steps: Sequence[Step], expected: str) -> str:
    """What was done and what is being done, with seconds."""
    *done, now = steps
    lines = "".join(f"<li>{escape(step.words)} <span class=dim>{step.seconds:.1f} s</span></li>" for step in done)
    seconds = sum(step.seconds for step in steps)
    of = f", {escape(expected)}" if expected else ""
    return (
        f'<div class="crag"><h3>Working: {seconds:.0f} s{of}</h3><ul>{lines}'
        f'<li class="now"><b>{escape(now.words)}</b> <span class=dim>{now.seconds:.0f} s</span></li></ul></div>'
    )


def marked(photo: Image.Image, outcome: Outcome) -> Image.Image:
    """The photo, made smaller, with a numbered frame around each crop; frames, for filled boxes would hide each other."""
    scale = min(1.0, SHOWN_SIDE / max(photo.size))
    shown = photo.resize((max(1, round(photo.width * scale)), max(1, round(photo.height * scale)))).convert("RGB")
    pen = ImageDraw.Draw(shown)
    font = ImageFont.load_default(size=_NUMBER_HEIGHT)
    places: list[tuple[int, int, str]] = []
    for number, crop in enumerate(outcome.crops):
        left, right = (min(max(0, round(side * scale)), shown.width - 1) for side in (crop.left, crop.right))
        top, bottom = (min(max(0, round(side * scale)), shown.height - 1) for side in (crop.top, crop.bottom))
        colour = _COLOURS[number % len(_COLOURS)]
        if right > left and bottom > top:
            pen.rectangle((left, top, right, bottom), outline=colour, width=3)
        places.append((left, top, colour))
    for number, (left, top, colour) in enumerate(places, 1):  # after all frames, so that none crosses a number
        edges = pen.textbbox((left + 6, top + 4), str(number), font=font)
        pen.rectangle((edges[0] - 4, edges[1] - 3, edges[2] + 4, edges[3] + 3), fill=colour)
        pen.text((left + 6, top + 4), str(number), font=font, fill="white")
    return shown


def details(outcome: Outcome, photo: Image.Image | None = None, asked: str = "", *, again: bool = False) -> str:
    """Verdict, entity, the photo with the crops framed, evidence and times of an answer to what was asked.

    ``again``: the question and its answer come first, for one that is looked at again is not the last of its dialog.
    """
    said = f"<p><b>{escape(asked)}</b> {escape(outcome.answer)}</p>" if again else ""
    framed = _framed(photo, outcome) if photo is not None and outcome.crops else ""
    parts = [said, _verdict(outcome), _found(outcome), framed, _evidence(outcome, asked), _times(outcome)]
    return f'<div class="crag">{"".join(parts)}</div>'


def _verdict(outcome: Outcome) -> str:
    if not outcome.verdict:
        return ""
    checks = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(f'{value:.3g}' if isinstance(value, float) else str(value))}</dd>"
        for name, value in (outcome.checks or {}).items()
    )
    error = f'<p class="wrong">Went wrong: {escape(outcome.error)}</p>' if outcome.error else ""
    state = "abstained" if outcome.abstained else "answered"
    measured = f"<details><summary>what was measured</summary><dl>{checks}</dl></details>" if checks else ""
    return f'<h3>Verdict</h3><p class="{state}">{escape(outcome.explained or outcome.verdict)}</p>{error}{measured}'


def _found(outcome: Outcome) -> str:
    if not (outcome.entity or outcome.alike or outcome.question or outcome.crops or outcome.read):
        return ""
    understood = f"<p>Understood as: {escape(outcome.question)}</p>" if outcome.question else ""
    entity = _recognised(outcome)
    alike = ", ".join(f"{escape(name)} {score:.2f}" for name, score in outcome.alike)
    searched = (f"{number} {crop.phrase}".strip() for number, crop in enumerate(outcome.crops, 1))
    rest = [
        f'<p class="dim">{label}: {text}</p>'
        for label, text in (
            ("Text read", ", ".join(f"“{escape(line)}”" for line in outcome.read)),
            ("Searched with the whole photo and", escape(", ".join(searched))),
            ("Alike", alike),
        )
        if text
    ]
    return f"<h3>In the photo</h3>{entity}{understood}{''.join(rest)}"


def _recognised(outcome: Outcome) -> str:
    """What the photo is taken to show."""
    if outcome.entity:
        return f"<p><b>{escape(outcome.entity)}</b></p>"
    return f"<p>{escape(outcome.unrecognised or 'Nothing was recognised.')}</p>"


def _framed(photo: Image.Image, outcome: Outcome) -> str:
    buffer = io.BytesIO()
    marked(photo, outcome).save(buffer, "JPEG", quality=_QUALITY)
    content = base64.b64encode(buffer.getvalue()).decode()
    return f'<img alt="the photo, what was searched with framed" src="data:image/jpeg;base64,{content}">'


def _evidence(outcome: Outcome, asked: str) -> str:
    if not outcome.sources:
        return ""
    words = telling(outcome, asked)
    return f"<h3>Evidence</h3><ol>{''.join(_source(source, words) for source in outcome.sources)}</ol>"


def telling(outcome: Outcome, asked: str = "") -> frozenset[str]:
    """The words of the answer, given or not, that evidence may carry: neither common ones nor those of the question and its object."""
    answer = outcome.withheld or ("" if outcome.abstained else outcome.answer)
    known = {word.casefold() for word in _WORD.findall(f"{outcome.entity or ''} {outcome.question} {asked}")}
    words = {word.casefold() for word in _WORD.findall(answer) if word[0].isdigit() or len(word) >= _MIN_LETTERS}
    return frozenset(words - _COMMON - known)


def _source(source: ShownEvidence, words: Collection[str]) -> str:
    origin = escape(source.title or source.url or _KINDS.get(source.kind, source.kind))
    if over_http(source.url):
        origin = f'<a href="{escape(source.url)}" target="_blank" rel="noopener noreferrer">{origin}</a>'
    score = "" if source.score is None else f"{source.score:.2f} "
    origin = f"{score}{_KINDS.get(source.kind, escape(source.kind))}: {origin}"
    return f'<li>{_with_marks(source.text, words)}<br><span class="dim">{origin}</span></li>'


def _with_marks(text: str, words: Collection[str]) -> str:
    """A text with these words marked, escaped; a long one is cut around the first of them."""
    found = [word for word in _WORD.finditer(text) if word.group().casefold() in words]
    start = 0
    if len(text) > _MAX_TEXT and found and found[0].end() > _MAX_TEXT:
        start = text.rfind(" ", 0, found[0].start() - _BEFORE) + 1
    end = min(len(text), start + _MAX_TEXT)
    parts, place = ["…" if start else ""], start
    for word in found:
        if start <= word.start() and word.end() <= end:
            parts += [escape(text[place : word.start()]), f"<mark>{escape(word.group())}</mark>"]
            place = word.end()
    return "".join([*parts, escape(text[place:end]), "…" if end < len(text) else ""])


def _times(outcome: Outcome) -> str:
    if not outcome.times:
        return ""
    rows = "".join(
        f"<dt>{escape(time.stage)}</dt><dd>{escape('skipped: ' + time.skipped) if time.skipped else f'{time.seconds:.2f} s'}</dd>"
        for time in outcome.times
        if time.skipped or time.seconds >= _SLOW
    )
    return f"<details><summary>{outcome.seconds:.1f} s, by stage</summary><dl>{rows}</dl></details>"
