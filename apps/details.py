"""Renders an outcome as HTML, with every text escaped, because evidence is untrusted."""

import base64
import io
from html import escape

from PIL import Image, ImageDraw, ImageFont

from agents.search.fetching import over_http
from apps.outcome import Outcome, ShownEvidence

SHOWN_SIDE = 1024  # pixels of a photo's longer side on the page

_KINDS = {"kg": "knowledge graph", "web": "web page"}
_COLOURS = ("#0072b2", "#d55e00", "#007a5a", "#a0468c", "#6b4fbb", "#8a6d00")
"""Dark enough for white figures."""
_QUALITY = 85  # of the JPEG
_NUMBER_HEIGHT = 18  # pixels
_MAX_TEXT = 400  # characters of a piece of evidence
_SLOW = 0.05  # seconds below which a stage's time is not listed


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


def details(outcome: Outcome, photo: Image.Image | None = None) -> str:
    """Verdict, entity, the photo with the crops framed, evidence and times of an answer."""
    framed = _framed(photo, outcome) if photo is not None and outcome.crops else ""
    parts = [_verdict(outcome), _found(outcome), framed, _evidence(outcome), _times(outcome)]
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
    return f'<h3>Verdict</h3><p class="{state}">{escape(outcome.verdict)}</p>{error}{measured}'


def _found(outcome: Outcome) -> str:
    if not (outcome.entity or outcome.alike or outcome.question or outcome.crops):
        return ""
    understood = f"<p>Understood as: {escape(outcome.question)}</p>" if outcome.question else ""
    unrecognised = outcome.unrecognised or "Nothing was recognised."
    entity = f"<p><b>{escape(outcome.entity)}</b></p>" if outcome.entity else f"<p>{escape(unrecognised)}</p>"
    alike = ", ".join(f"{escape(name)} {score:.2f}" for name, score in outcome.alike)
    searched = (f"{number} {crop.phrase}".strip() for number, crop in enumerate(outcome.crops, 1))
    rest = [
        f'<p class="dim">{label}: {text}</p>'
        for label, text in (("Searched with the whole photo and", escape(", ".join(searched))), ("Alike", alike))
        if text
    ]
    return f"<h3>In the photo</h3>{entity}{understood}{''.join(rest)}"


def _framed(photo: Image.Image, outcome: Outcome) -> str:
    buffer = io.BytesIO()
    marked(photo, outcome).save(buffer, "JPEG", quality=_QUALITY)
    content = base64.b64encode(buffer.getvalue()).decode()
    return f'<img alt="the photo, what was searched with framed" src="data:image/jpeg;base64,{content}">'


def _evidence(outcome: Outcome) -> str:
    if not outcome.sources:
        return ""
    return f"<h3>Evidence</h3><ol>{''.join(map(_source, outcome.sources))}</ol>"


def _source(source: ShownEvidence) -> str:
    text = source.text if len(source.text) <= _MAX_TEXT else source.text[:_MAX_TEXT] + "…"
    origin = escape(source.title or source.url or _KINDS.get(source.kind, source.kind))
    if over_http(source.url):
        origin = f'<a href="{escape(source.url)}" target="_blank" rel="noopener noreferrer">{origin}</a>'
    score = "" if source.score is None else f"{source.score:.2f} "
    return f'<li>{escape(text)}<br><span class="dim">{score}{_KINDS.get(source.kind, escape(source.kind))}: {origin}</span></li>'


def _times(outcome: Outcome) -> str:
    if not outcome.times:
        return ""
    rows = "".join(
        f"<dt>{escape(time.stage)}</dt><dd>{escape('skipped: ' + time.skipped) if time.skipped else f'{time.seconds:.2f} s'}</dd>"
        for time in outcome.times
        if time.skipped or time.seconds >= _SLOW
    )
    return f"<details><summary>{outcome.seconds:.1f} s</summary><dl>{rows}</dl></details>"
