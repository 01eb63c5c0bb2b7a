"""Files of one's own questions: what they say, every fault of them at once, and a run over them."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

import local_evaluation
from evaluation.data.own_dataset import load_own_questions
from evaluation.data.question_files import find_questions, read_questions
from evaluation.files.outputs import SCORES
from evaluation.files.responses import read_responses
from evaluation.records import EvaluationError
from tests.evaluation.worlds import ScriptedAgent, picture, use_agent

CSV = """photo,question,answers,dialog
visitors/mill.png,Who built this?,J. Smith|John Smith,mill
,And when?,1874,mill
visitors/mill.png,Who owned the sculptor?,,
,"How much is a ticket, for a child?",6 euros|6,
"""
JSON_LINES = (
    {"photo": "visitors/mill.png", "question": "Who built this?", "answers": ["J. Smith", "John Smith"], "dialog": "mill"},
    {"question": "And when?", "answer": "1874", "dialog": "mill"},
    {"image": "visitors/mill.png", "question": "Who owned the sculptor?", "answers": []},
    {"photo": None, "question": "How much is a ticket, for a child?", "answers": ["6 euros", "6"]},
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A collection with a page and a visitor's photo, without questions."""
    (tmp_path / "visitors").mkdir()
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "tickets.md").write_text("A child ticket costs 6 euros.")
    picture().save(tmp_path / "visitors" / "mill.png")
    return tmp_path


def write_csv(folder: Path, text: str = CSV) -> Path:
    file = folder / "questions.csv"
    file.write_text(text, encoding="utf-8")
    return file


def write_json_lines(folder: Path, *lines: Any) -> Path:
    file = folder / "questions.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return file


def test_both_formats_say_the_same(folder: Path) -> None:
    dialogs = read_questions(write_csv(folder))
    assert read_questions(write_json_lines(folder, *JSON_LINES)) == dialogs
    mill, unanswerable, ticket = dialogs
    assert mill.session_id == "mill" and mill.photo == folder / "visitors" / "mill.png"
    assert [turn.answers for turn in mill.turns] == [("J. Smith", "John Smith"), ("1874",)]
    assert unanswerable.turns[0].answers == () and ticket.photo is None


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_other_separators_and_a_mark_of_the_byte_order_are_read(folder: Path, delimiter: str) -> None:
    text = f"\ufeffQuestion{delimiter}Answer\r\nWann?{delimiter}um 9 Uhr|9\r\n"
    (dialog,) = read_questions(write_csv(folder, text))
    assert (dialog.turns[0].question, dialog.turns[0].answers) == ("Wann?", ("um 9 Uhr", "9"))


def test_commas_in_a_header_do_not_hide_its_separator(folder: Path) -> None:
    with pytest.raises(EvaluationError, match=r"unknown column 'note \(a, b, c\)'") as raised:
        read_questions(write_csv(folder, "question;answer;note (a, b, c)\nWhen?;nine;x\n"))
    assert "is missing" not in str(raised.value)


@pytest.mark.parametrize(("written", "stored"), [("NFC", "NFD"), ("NFD", "NFC")])
def test_a_photo_is_found_by_its_name_however_accents_are_spelled(
    folder: Path, written: Literal["NFC", "NFD"], stored: Literal["NFC", "NFD"]
) -> None:
    photo = folder / unicodedata.normalize(stored, "mühle.png")
    picture().save(photo)
    name = unicodedata.normalize(written, "mühle.png")
    row = {"photo": name, "question": "Who built this?", "answers": ["x"]}
    (dialog,) = read_questions(write_json_lines(folder, row))
    assert dialog.photo == photo
    renamed = photo.rename(folder / name)
    assert read_questions(write_json_lines(folder, row)) == [replace(dialog, photo=renamed)], "ids are of what rows say"


@pytest.mark.hostile("links of a collection that lead out of it")
@pytest.mark.parametrize("name", ["link.png", "linked/outside.png"])
def test_a_photo_behind_a_link_out_of_the_folder_is_refused(folder: Path, name: str) -> None:
    """A path that is written out may lead anywhere: whoever asks can read it."""
    outside = folder.parent / "outside.png"
    picture().save(outside)
    (folder / "link.png").symlink_to(outside)
    (folder / "linked").symlink_to(folder.parent)
    row = {"photo": name, "question": "Who?", "answers": ["x"]}
    with pytest.raises(EvaluationError, match="is a link that leads out of"):
        read_questions(write_json_lines(folder, row))
    (dialog,) = read_questions(write_json_lines(folder, row | {"photo": "../outside.png"}))
    assert dialog.photo == folder / "../outside.png"


def test_ids_do_not_depend_on_the_place_in_the_file(folder: Path) -> None:
    before = read_questions(write_csv(folder))
    header, *rows = CSV.splitlines()
    after = read_questions(write_csv(folder, "\n".join([header, ",A new one?,yes,", *rows]) + "\n"))
    assert after[1:] == before


def test_every_fault_is_told_at_once_with_its_line(folder: Path) -> None:
    (folder / "visitors" / "broken.png").write_bytes(b"no picture")
    rows = [
        "photo,question,answers,dialog",
        "visitors/gone.png,Who?,x,",
        "visitors/broken.png,Who?,x,",
        ",,x,",
        ",When?,x,",
        ",when?,y,",
        ",Where?,x,d",
        "visitors/mill.png,Why?,x,d",
        ",What?,a,b,c",
    ]
    with pytest.raises(EvaluationError) as raised:
        read_questions(write_csv(folder, "\n".join(rows) + "\n"))
    message = str(raised.value)
    for line, words in {
        2: "there is no photo",
        3: "cannot be read as a photo",
        4: "the question is empty",
        6: "the same question about the same photo as in",
        8: "dialog 'd' is about no photo, this row names visitors/mill.png",
        9: "more cells than columns",
    }.items():
        assert any(
            f"questions.csv:{line}: {words}" in each or (f"csv:{line}:" in each and words in each)
            for each in message.splitlines()
        )
    assert len(message.splitlines()) == 6


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"photo,question,answers,answr\n", "csv:1: unknown column 'answr'"),
        (b"photo,question\n,Who?\n", "the column 'answers' is missing"),
        (b"question,answer,answers\n", "'answers' is there twice"),
        (b"question,answers\nWer?,Gr\xfc\xdfe\n", "is not UTF-8 .* save it as UTF-8 .in Excel"),
        (b"question,answers\n", "there are no questions"),
        (b'question,answers\n"Who?,x\n', "it is no CSV"),
    ],
)
def test_what_is_no_table_of_questions_is_told(folder: Path, content: bytes, words: str) -> None:
    file = folder / "questions.csv"
    file.write_bytes(content)
    with pytest.raises(EvaluationError, match=words):
        read_questions(file)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"question": "Who?", "answers": [1]}, "answers has to be a list of texts"),
        ({"question": ["Who?"], "answers": []}, "question has to be a text"),
        ({"question": "Who?", "hint": "x"}, "jsonl:1: unknown column 'hint'"),
        (["Who?"], "a line has to be an object"),
    ],
)
def test_wrong_json_lines_are_told(folder: Path, line: Any, words: str) -> None:
    with pytest.raises(EvaluationError, match=words):
        read_questions(write_json_lines(folder, line))


def test_two_files_of_questions_are_refused(folder: Path) -> None:
    assert find_questions(folder) is None
    assert find_questions(write_csv(folder)) == find_questions(folder)
    write_json_lines(folder, *JSON_LINES)
    with pytest.raises(EvaluationError, match="has both"):
        find_questions(folder)


def test_questions_become_sessions_with_accepted_answers(folder: Path) -> None:
    data = load_own_questions(write_csv(folder))
    mill, unanswerable, ticket = data.sessions
    assert not any(session.is_ego for session in data.sessions)
    assert mill.turns[0].ground_truth == "J. Smith or John Smith"
    assert data.accept[mill.turns[0].interaction_id] == ("J. Smith", "John Smith")
    assert unanswerable.turns[0].ground_truth == "I don't know"
    assert unanswerable.turns[0].interaction_id not in data.accept
    assert [data.facts[session.turns[0].interaction_id].answerable for session in data.sessions] == [True, False, True]
    loaded = data.image(mill)
    assert loaded.image is not None and loaded.image.size == picture().size
    without = data.image(ticket)
    assert (without.image, without.note) == (None, None), "a question without a photo lacks none"


def test_a_question_of_identity_has_the_name_of_its_exhibit_among_its_answers(folder: Path) -> None:
    (folder / "photos").mkdir()
    for name in ("mill.png", "barn.png"):
        picture().save(folder / "photos" / name)
    rows = (
        "photos/mill.png,What is this?,a mill|Old Mill",
        "photos/mill.png,Which building is behind it?,Red Barn",
        "visitors/mill.png,What is this?,old mill",
        "visitors/mill.png,Who built this?,John Smith",
        ",Which building is the oldest?,Old Mill",
    )
    file = write_csv(folder, "\n".join(["photo,question,answers", *rows]) + "\n")
    exhibits = {
        (folder / "photos" / f"{name}.png").resolve(): (title,)
        for name, title in (("mill", "Old Mill"), ("barn", "Red Barn"))
    }
    data = load_own_questions(file, exhibits=exhibits)
    facts = [data.facts[session.turns[0].interaction_id] for session in data.sessions]
    assert [fact.identity for fact in facts] == [True, False, True, False, False]
    assert [fact.answer_kind for fact in facts] == ["its name", "anything else"] * 2 + ["anything else"]
    assert {fact.answer_kind for fact in load_own_questions(file).facts.values()} == {None}, "no exhibit is known"


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> ScriptedAgent:
    """A scripted agent in place of CragAgent, with no search."""
    answers = {"Who built this?": "John Smith built it.", "How much is a ticket, for a child?": "6 euros"}
    scripted_agent = ScriptedAgent(lambda query, _: answers.get(query, "I don't know"))
    use_agent(monkeypatch, lambda *_, **__: scripted_agent)
    return scripted_agent


@pytest.mark.parametrize("option", ["--dataset", "--knowledge"])
def test_a_run_asks_ones_own_questions(folder: Path, agent: ScriptedAgent, option: str) -> None:
    file = write_csv(folder)
    place = file if option == "--dataset" else folder
    places = ["--output-dir", str(folder / "out"), "--cache", str(folder / "cache")]
    assert local_evaluation.main([option, str(place), "--dataset-type", "both", *places, "--no_progress"]) == 0
    answers = {turn.query: turn for turn in read_responses(folder / "out" / "response.jsonl")}
    assert len(answers) == 4 and agent.histories["And when?"][0]["content"] == "Who built this?"
    scores = json.loads((folder / "out" / SCORES).read_text())
    assert (scores["all"]["total"], scores["all"]["correct"], scores["all"]["miss"]) == (4, 2, 2)
    assert "without_picture" not in scores["about"]
    assert (folder / "out" / "report.html").is_file()


def test_faults_of_the_file_end_a_run_with_status_2(
    folder: Path, agent: ScriptedAgent, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_csv(folder, "photo,question,answers\nx.png,Who?,a\n,,b\n")
    assert local_evaluation.main(["--dataset", str(file), "--output-dir", str(folder / "out")]) == 2
    output = capsys.readouterr().out
    assert "questions.csv:2: there is no photo" in output and "questions.csv:3: the question is empty" in output
    assert not agent.calls


def test_a_collection_without_questions_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert local_evaluation.main(["--knowledge", str(folder), "--output-dir", str(folder / "out")]) == 2
    assert "has no questions: write them into questions.csv" in capsys.readouterr().out
