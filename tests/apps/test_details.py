"""What a web page says of an answer: frames where the crops are, and no markup but ours."""

from __future__ import annotations

import re
from typing import Any

import pytest
from PIL import Image

from agents.record import Unanswered
from apps.details import SHOWN_SIDE, draw_crops, render_details, render_progress
from apps.outcome import Crop, Outcome, ShownEvidence, Time
from apps.page_job import Step


@pytest.mark.parametrize("size", [(400, 300), (4096, 2048)])
def test_frames_stand_where_the_crops_are(size: tuple[int, int]) -> None:
    width, height = size
    crop = Crop(width // 4, height // 4, width // 2, height // 2, "cup")
    framed_photo = draw_crops(Image.new("RGB", size), Outcome("a", crops=(crop,)))
    scale = min(1.0, SHOWN_SIDE / width)
    assert framed_photo.size == (round(width * scale), round(height * scale))
    right, bottom = round(crop.right * scale), round(crop.bottom * scale)
    assert framed_photo.getpixel((right - 1, bottom - 1)) == (0x00, 0x72, 0xB2)
    assert framed_photo.getpixel((right + 5, bottom + 5)) == (0, 0, 0)
    assert framed_photo.getpixel((right - 8, bottom - 8)) == (0, 0, 0)  # a frame, nothing filled


@pytest.mark.parametrize("verdict", ["", "abstained: the model does not know"])
def test_what_failed_is_told_in_place_of_a_verdict(verdict: str) -> None:
    failed = {"explained": "The model does not know.", "error": "the search failed: <index>"}
    html = render_details(Outcome("I don't know", verdict=verdict, cause=Unanswered.SEARCH, **failed))
    assert "know" not in html and "Went wrong: the search failed: &lt;index&gt;" in html
    declined = render_details(Outcome("I don't know", verdict="abstained", cause=Unanswered.REFUSED, **failed))
    assert "The model does not know." in declined and "Went wrong" in declined


@pytest.mark.parametrize("crop", [Crop(-50, -50, 900, 900, ""), Crop(300, 10, 200, 20, ""), Crop(5, 5, 5, 5, "")])
def test_odd_crops_break_nothing(crop: Crop) -> None:
    assert draw_crops(Image.new("RGB", (100, 80)), Outcome("a", crops=(crop,))).size == (100, 80)


def test_every_text_is_escaped_and_only_http_is_linked() -> None:
    bad = "<script>alert(1)</script>"
    html = render_details(
        Outcome(
            bad,
            question=bad,
            entity=bad,
            alike=((bad, 0.5),),
            crops=(Crop(0, 0, 1, 1, bad),),
            sources=(
                ShownEvidence(bad, bad, bad, 'https://x.example/"onclick="alert(1)', 0.5),
                ShownEvidence("text", "web", "title", "javascript:alert(1)", None),
                ShownEvidence("text", "web", "", "http://[broken", None),
            ),
            verdict=bad,
            checks={bad: bad},
            times=(Time(bad, 1.0, bad),),
            error=bad,
        )
    )
    assert "<script" not in html and "javascript:" not in html.replace("&", "")
    assert html.count("<a ") == 1 and '"onclick' not in html
    assert html.count("&lt;script&gt;") >= 10


def test_a_source_whose_file_changed_is_marked() -> None:
    sources = tuple(
        ShownEvidence("text", "web", name, f"pages/{name}.md", 0.5, name == "new") for name in ("new", "old")
    )
    html = render_details(Outcome("a", sources=sources))
    assert re.findall(r"web page: (\w+) <b>changed since crag index</b>", html) == ["new"]


def test_the_framed_photo_is_part_of_the_page() -> None:
    photo = Image.new("RGB", (40, 30))
    assert "data:image/jpeg;base64," in render_details(Outcome("a", crops=(Crop(1, 1, 20, 20, "cup"),)), photo)
    assert "<img" not in render_details(Outcome("a"), photo)  # nothing to frame


def test_what_is_not_recognised_is_not_shown_as_the_entity() -> None:
    html = render_details(Outcome("a", nearest=("A <cup>", 0.224), alike=(("A <cup>", 0.224),)))
    assert "<p>Not recognised; nearest: A &lt;cup&gt; (cosine 0.22)</p>" in html and "<b>" not in html
    html = render_details(Outcome("a", nearest=("Cup", 0.9), left_out="of another kind than animal", question="x"))
    assert "nearest: Cup (cosine 0.90; of another kind than animal)" in html


def test_the_words_of_the_answer_are_marked_in_the_evidence() -> None:
    def render(text: str, answer: str = "The tower is 300 m tall, by Eiffel", **more: Any) -> str:
        source = ShownEvidence(text, "kg", "", "", None)
        return render_details(Outcome(answer, entity="Tower of Paris", sources=(source,), **more))

    details = render("Eiffel built a tower of 1300 or 300 m & <b>")
    assert "<mark>Eiffel</mark> built a tower of 1300 or <mark>300</mark> m &amp; &lt;b&gt;" in details
    assert "<mark>1,665</mark>" in render("It has 1,665 steps", "1,665 steps")
    evidence = ShownEvidence("The tower stands: Eiffel", "kg", "", "", None)
    assert render_details(Outcome("The tower: Eiffel", sources=(evidence,)), query="Whose tower?").count("<mark>") == 1
    assert "<mark>" not in render("Nothing is known.", "I don't know")
    assert "<mark>Eiffel</mark>" in render("Eiffel", "I don't know", withheld="Eiffel")


def test_long_evidence_is_cut_around_what_it_is_shown_for() -> None:
    details = render_details(
        Outcome("300 m", sources=(ShownEvidence("word " * 300 + "300 m" + " end" * 300, "web", "", "", None),))
    )
    assert "<li>…word" in details and "<mark>300</mark> m end" in details and "…<br>" in details and len(details) < 700


def test_steps_that_are_shown_while_waiting_are_escaped() -> None:
    progress = render_progress((Step("<b>reading 5 pages", 2.04), Step("verifying", 3.4)), "about 30 s a question")
    assert "&lt;b&gt;reading 5 pages" in progress and "2.0 s" in progress
    assert "Working: 5 s, about 30 s a question" in progress and "verifying" in progress


@pytest.mark.parametrize(
    ("phrases", "words"),
    [
        ((), None),
        (("object",) * 6, "the whole photo and: 6 crops<"),
        (("cup",), "the whole photo and: 1 crop<"),
        (("", ""), "the whole photo and: 2 crops<"),
        (("cup", "spoon"), "the whole photo and: 2 crops: 1 cup, 2 spoon<"),
        (("cup", "", "spoon"), "the whole photo and: 3 crops: 1 cup, 2, 3 spoon<"),
    ],
)
def test_crops_are_counted_and_named_where_their_names_differ(phrases: tuple[str, ...], words: str | None) -> None:
    html = render_details(Outcome("a", entity="x", crops=tuple(Crop(0, 0, 1, 1, phrase) for phrase in phrases)))
    assert ("Searched with" in html) is (words is not None) and (words or "") in html
