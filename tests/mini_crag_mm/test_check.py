"""Each rule of mini_crag_mm/README.md is broken once; the check must say so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from mini_crag_mm.content_models import load_content
from mini_crag_mm.generator import set_rules
from mini_crag_mm.generator.set_rules import check_content, compute_difference_hash
from mini_crag_mm.loader import SetPaths
from tests.mini_crag_mm.conftest import SUMMARIES, Files, tiny_files, write_files


def _errors(files: Files, root: Path) -> list[str]:
    content = load_content(write_files(root, files) / "content")
    return [finding.message for finding in check_content(content, SUMMARIES, counts=False) if finding.is_error]


def _question(change: dict[str, object]) -> Callable[[Files], None]:
    return lambda files: files["single"][0].update(change)


def _entity(number: int, change: dict[str, object]) -> Callable[[Files], None]:
    return lambda files: files["entities"][number].update(change)


RULES: dict[str, tuple[Callable[[Files], None], str]] = {
    "unknown entity in a question": (_question({"entity": "nobody"}), "no such entity: nobody"),
    "entity of the other split": (_question({"entity": "green_bar"}), "entity green_bar belongs to public_test"),
    "unknown scene": (_question({"scene": "t_s009"}), "no such scene: t_s009"),
    "scene of the other split": (_question({"scene": "t_d001"}), "scene t_d001 belongs to public_test"),
    "graph as the source of what it lacks": (_entity(0, {"in_graph": False}), "but red_square is not in the graph"),
    "the graph's photo as the other one": (
        _entity(0, {"other_photo": {"source": "stamps", "file": "a/red.png"}}),
        "its other photo is the graph's photo",
    ),
    "photo of another entity as the other one": (
        _entity(0, {"other_photo": {"source": "skimage", "file": "blue.png"}}),
        "photo 'skimage/blue.png' is taken already",
    ),
    "unknown page": (_question({"pages": ["p"]}), "no such page: p"),
    "unlisted title": (_question({"pages": ["wiki:Unclaimed"]}), "wiki:Unclaimed is not among the wiki titles"),
    "title of the other split": (
        _question({"pages": ["wiki:Green bar"]}),
        "is not among the wiki titles of validation",
    ),
    "page of the other split": (
        lambda files: files["dialogs"][0]["turns"][1].update(pages=["disc_page"]),
        "page disc_page belongs to validation",
    ),
    "object of the other split": (
        lambda files: files["scenes"][0]["objects"][0].update(entity="green_bar"),
        "t_s001: entity green_bar belongs to public_test",
    ),
    "empty scene": (lambda files: files["scenes"][0].update(objects=[]), "nothing is to be seen"),
    "shared photo": (_entity(1, {"photo": {"source": "stamps", "file": "a/red.png"}}), "photo 'stamps/a/red.png'"),
    "shared name": (_entity(2, {"name": "RED square"}), "entity name 'red square' is claimed by the other split"),
    "name of a companion": (_entity(2, {"name": "Easel"}), "entity name 'easel' is claimed by the other split"),
    "shared title": (_entity(2, {"wiki": "Red square"}), "wiki title 'Red square' is claimed by the other split"),
    "shared page": (
        lambda files: files["pages"].append({**files["pages"][0], "id": "copy"}),
        "page url 'https://pages.mini-crag-mm.example/disc' is taken already",
    ),
    "no accept forms": (_question({"accept": []}), "t_q001: no accept forms"),
    "answer that stands nowhere": (_question({"accept": ["12 parsecs"]}), "stands in the evidence (source kg)"),
    "web without a page": (_question({"source": "web"}), "source is web, but no page is named"),
    "kg without an entity": (_question({"entity": None}), "source is kg, but no entity is named"),
    "nowhere with an answer": (_question({"source": "nowhere"}), "source is nowhere, but the answer is"),
    "refusal with a source": (_question({"answer": "I don't know.", "accept": []}), "source is nowhere, not kg"),
    "refusal that accepts something": (
        lambda files: files["single"][2].update(accept=["5 dollars"]),
        "t_q003: nothing answers it, so it accepts nothing",
    ),
    "repeated question": (_question({"query": "What does it cost, today"}), "the same question as t_q001"),
}


@pytest.mark.parametrize("rule", RULES)
def test_broken_rule_is_an_error(rule: str, tmp_path: Path) -> None:
    breaks, expected = RULES[rule]
    files = tiny_files()
    breaks(files)
    assert any(expected in message for message in _errors(files, tmp_path)), _errors(files, tmp_path)


def test_the_tiny_set_keeps_all_rules(tmp_path: Path) -> None:
    assert _errors(tiny_files(), tmp_path) == []


def test_derived_answers_are_left_to_a_human(tmp_path: Path) -> None:
    files = tiny_files()
    files["single"][0] |= {"query_category": "aggregation", "accept": ["seven"], "answer": "Seven."}
    content = load_content(write_files(tmp_path, files) / "content")
    findings = check_content(content, SUMMARIES, counts=False)
    assert [finding.is_error for finding in findings] == [False]
    assert "t_q001" in str(findings[0])


def test_amounts_are_counted(tiny: SetPaths) -> None:
    messages = [finding.message for finding in set_rules.check_counts(load_content(tiny.content))]
    assert "only 3 entities; at least 200 are wanted" in messages
    assert "only 1 dialogs; at least 40 are wanted" in messages
    assert "public_test: no question of category multi-hop" in messages


def test_built_set_is_complete_and_stays_checked(built: SetPaths) -> None:
    def errors() -> list[str]:
        return [finding.message for finding in set_rules.check_all(built, counts=False) if finding.is_error]

    assert errors() == []
    (built.scenes / "t_s001.webp").unlink()
    (built.scenes / "stray.webp").write_bytes(b"")
    built.attribution.write_text(built.attribution.read_text().replace("green.png", "another.png"))
    (built.photos / "green_bar.webp").write_bytes((built.photos / "blue_disc.webp").read_bytes())
    built.kg("validation").write_text("")
    built.own_pages.write_text("")
    wiki = built.content / "tst" / "wiki.yaml"
    wiki.write_text(wiki.read_text() + "- {split: validation, title: Unclaimed}\n")
    expected = [
        "t_s001: not composed",
        "scenes/stray.webp: no such scene",
        "ATTRIBUTION.md: photos/green_bar.webp: the line is missing",
        "t_d001: changed since it was composed",
        "kg/validation.jsonl: not as in the content",
        "pages/own.jsonl: not as in the content",
        "pages/wiki.jsonl: 'Unclaimed' of validation",
    ]
    messages = errors()
    assert [part for part in expected if not any(part in message for message in messages)] == []


def test_missing_photo_and_size_are_reported(built: SetPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    (built.photos / "blue_disc.webp").unlink()
    (built.photos / "nobody.webp").write_bytes(b"")
    monkeypatch.setattr(set_rules, "MAX_BYTES", 10)
    text = "\n".join(str(finding) for finding in set_rules.check_all(built, counts=False))
    assert "photos/blue_disc.webp is missing" in text
    assert "photos/nobody.webp: no such entity" in text
    assert "MB; at most" in text


def test_faulty_yaml_is_among_the_findings(built: SetPaths) -> None:
    (built.content / "tst" / "pages.yaml").write_text("- {id: half}")
    assert any("pages.yaml: half: split" in str(finding) for finding in set_rules.check_all(built, counts=False))


def test_hash_tells_pictures_apart() -> None:
    ramp = Image.linear_gradient("L")
    assert compute_difference_hash(ramp.rotate(90)) != compute_difference_hash(ramp.rotate(-90))
    bits = compute_difference_hash(ramp.rotate(90)) ^ compute_difference_hash(ramp.rotate(90).resize((100, 80)))
    assert bits.bit_count() <= 2
