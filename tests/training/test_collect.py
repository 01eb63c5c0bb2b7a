"""From a recorded run to training data: every request with its turn, nothing of the test split."""

import copy
import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from PIL import Image

from agents.models.base import ChatMessage, ChatReply, ChatRequest
from agents.models.pixels import pixels_digest
from agents.models.registry import ModelRegistry
from agents.turn import Turn
from evaluation.run.launching import launched
from evaluation.run.options import parse
from tests.agent.scripted import ScriptedChat
from tests.models.tiny_checkpoints import save_llama
from tests.training.recorded import recorded_agent, recorded_run, save_data
from training import collect, record_run
from training.chat_examples import HELD_OUT, TRAIN, Example, TrainingDataError, is_held_out, read_examples
from training.collect import holds_answer
from training.command_line import ABOUT
from training.recorded_agent import RECORD, RecordedChat, Recorder, RecordingRegistry, turns_of

if TYPE_CHECKING:
    from agents.settings.run_config import RunConfig


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def run(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded_run(data, tmp_path_factory.mktemp("runs") / "run")


def collected(out: Path) -> list[Example]:
    return read_examples(out / TRAIN) + read_examples(out / HELD_OUT)


def test_every_request_is_kept_as_it_was_sent_with_reply_and_verdict(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert collect.main([str(run), "--out", str(out), "--held-out", "0.4", "--cache", str(tmp_path)]) == 0
    answers = [example for example in collected(out) if example.stage == "answer"]
    assert Counter((row.verdict, row.reply_verdict) for row in answers) == {
        ("correct", "correct"): 5,
        ("hallucination", "hallucination"): 5,
    }
    first = next(row for row in answers if row.interaction_id == "s0-0")
    (message,) = first.request().messages[1:]
    assert "Eiffel Tower" in message.content and message.content.endswith("Question: When was this finished?")
    assert first.reply == "It was finished in 1889."
    (photo,) = message.images
    assert photo.size == (64, 48) and photo.getpixel((0, 0)) == (0, 90, 200)
    history = next(row for row in answers if row.interaction_id == "s0-1").messages[-1].content
    assert "assistant: It was finished in 1889." in history  # the dialog so far, as the model saw it


def test_sessions_stay_on_one_side_and_the_description_counts_both(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    collect.main([str(run), "--out", str(out), "--held-out", "0.4", "--cache", str(tmp_path)])
    sides = [{row.session_id for row in read_examples(out / name)} for name in (TRAIN, HELD_OUT)]
    assert sides[0] and sides[1] and not sides[0] & sides[1]
    assert sides[1] == {f"s{number}" for number in range(5) if is_held_out(f"s{number}", 0.4)}
    about = json.loads((out / ABOUT).read_text())
    assert about["train"]["stages"]["answer"]["requests"] + about["held_out"]["stages"]["answer"]["requests"] == 10
    assert about["unplaced_requests"] == 0 and about["train"]["stages"]["answer"]["refusals"] == 0.0


def test_relevance_questions_come_from_the_evidence(run: Path, tmp_path: Path) -> None:
    collect.main([str(run), "--out", str(tmp_path / "out"), "--cache", str(tmp_path)])
    asked = [row for row in collected(tmp_path / "out") if row.stage == collect.RELEVANCE and row.session_id == "s0"]
    found = {(row.interaction_id, "1889" in row.messages[-1].content): row.reply for row in asked}
    assert found == {("s0-0", True): "Yes", ("s0-0", False): "No", ("s0-1", True): "No", ("s0-1", False): "Yes"}
    assert all(row.images for row in asked)


@pytest.mark.parametrize("split", ["public_test", "", "test"])
def test_a_run_over_another_split_is_refused_by_name(
    run: Path, tmp_path: Path, split: str, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "run"
    other.mkdir()
    (other / RECORD).write_text((run / RECORD).read_text())
    (other / "run.json").write_text(json.dumps({"dataset": f"crag-mm@v0.1.2/{split}" if split else "crag-mm"}))
    assert collect.main([str(other), "--out", str(tmp_path / "out")]) == 2
    assert "never from public_test" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_same_questions_about_the_same_pictures_are_refused_under_other_ids(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    test = save_data(tmp_path / "test", "public_test", prefix="other")
    arguments = [
        str(run),
        "--out",
        str(tmp_path / "out"),
        "--dataset",
        str(test),
        "--revision",
        "v0.1.1",
        "--cache",
        str(tmp_path),
    ]
    assert collect.main(arguments) == 2
    assert "of public_test about the same pictures" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_same_questions_about_other_pictures_are_taken(run: Path, tmp_path: Path) -> None:
    test = save_data(tmp_path / "test", "public_test", prefix="other", flip=True)
    arguments = [
        str(run),
        "--out",
        str(tmp_path / "out"),
        "--dataset",
        str(test),
        "--revision",
        "v0.1.1",
        "--cache",
        str(tmp_path),
    ]
    assert collect.main(arguments) == 0
    assert json.loads((tmp_path / "out" / ABOUT).read_text())["public_test"] == "kept out by name and content"


def test_the_ids_of_the_test_split_are_refused_with_other_pictures(run: Path, tmp_path: Path) -> None:
    test = save_data(tmp_path / "test", "public_test", flip=True)
    arguments = [
        str(run),
        "--out",
        str(tmp_path / "out"),
        "--dataset",
        str(test),
        "--revision",
        "v0.1.1",
        "--cache",
        str(tmp_path),
    ]
    assert collect.main(arguments) == 2


def asking(*questions: str) -> list[ChatRequest]:
    return [ChatRequest((ChatMessage("user", f"Question: {question}"),)) for question in questions]


def turns(*questions: str) -> list[Turn]:
    return [Turn(query=question, image=None, question=question) for question in questions]


@pytest.mark.parametrize(
    ("asked", "batch", "places"),
    [
        (("a", "c"), ("a", "b", "c"), [0, 2]),
        (("x", "x"), ("x", "x"), [0, 1]),
        (("x", "y", "x"), ("x", "y", "x", "z"), [0, 1, 2]),
        (("a", "a", "b"), ("a", "b"), [0, 0, 1]),  # two requests of one turn
        (("b", "after b: a"), ("b", "a"), [0, 1]),  # a dialog in which another turn's question was asked before
        (("after b: a", "b"), ("a", "b"), [0, 1]),
        (("x",), ("x", "x", "y"), [None]),
        (("nothing", "b"), ("a 1", "b"), [None, 1]),
        ((), ("a",), []),
    ],
)
def test_requests_are_placed_by_their_questions_and_their_order(
    asked: tuple[str, ...], batch: tuple[str, ...], places: list[int | None]
) -> None:
    found = [ChatRequest((ChatMessage("user", text.replace("nothing", "...")),)) for text in asked]
    assert turns_of(found, turns(*batch)) == places


def test_the_run_of_a_command_line_tells_the_agent_where_to_record(tmp_path: Path) -> None:
    """Requests go beside the answers of each data set; a resumed run keeps those that it has."""
    agent = recorded_agent()
    config = cast("RunConfig", SimpleNamespace(pipeline=lambda **_: None))
    made = launched(parse(["--cache", str(tmp_path)]), config, lambda *_, **__: agent)
    assert made.agent is made.recording is agent
    (tmp_path / RECORD).write_text("{}\n")
    agent.record_to(tmp_path, anew=False)
    assert (tmp_path / RECORD).read_text() == "{}\n"
    agent.record_to(tmp_path, anew=True)
    agent.batch_generate_response(["How tall is this?"], [Image.new("RGB", (64, 48))], [[]])
    assert [json.loads(line)["kind"] for line in (tmp_path / RECORD).read_text().splitlines()] == ["chat", "turn"]


def test_nothing_is_recorded_outside_of_a_call(tmp_path: Path) -> None:
    recorder = Recorder()
    recorder.record_to(tmp_path)
    RecordedChat(ScriptedChat(lambda _: ChatReply("yes", "stop")), recorder).chat(asking("q"))
    assert list(tmp_path.iterdir()) == []


def test_a_recorded_model_can_be_copied() -> None:
    chat = RecordedChat(ScriptedChat(lambda _: ChatReply("yes", "stop")), Recorder())
    again = copy.copy(chat)
    assert again.name == chat.name and again.batches is chat.batches


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"session_id": 7}', "line 2: session_id: Input should be a valid string"),
        ('{"messages": [{"role": 1}]}', "line 2: session_id: Field required"),
        ("[]", "line 2: Input should be a dictionary"),
        ("{", "line 2: JSONDecodeError"),
    ],
)
def test_a_malformed_example_is_told_in_one_line(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / TRAIN).write_text(f"\n{line}\n", encoding="utf-8")
    with pytest.raises(TrainingDataError) as caught:
        read_examples(tmp_path / TRAIN)
    assert message in str(caught.value) and len(str(caught.value).splitlines()) == 1


def test_the_registry_records_the_model_that_generates(tmp_path: Path) -> None:
    registry = RecordingRegistry(Recorder(), tmp_path)
    spec = {"kind": "transformers", "path": str(save_llama(tmp_path / "llama"))}
    chat = registry.load(spec)
    assert isinstance(chat, RecordedChat) and registry.load(spec) is chat
    assert chat.name == "llama" and callable(chat.warm_up)
    plain = ModelRegistry(tmp_path).load(spec)
    assert chat.chat(asking("How tall?")) == plain.chat(asking("How tall?"))


def test_the_name_of_a_picture_is_of_its_pixels() -> None:
    red = Image.new("RGB", (4, 2), "red")
    assert pixels_digest(red) == pixels_digest(red.convert("RGBA")) != pixels_digest(red.rotate(90, expand=True))


@pytest.mark.parametrize(
    ("chunk", "accept", "holds"),
    [
        ("Finished in 1889 by Gustave Eiffel", (), True),
        ("Begun in 1887 by Gustave Eiffel", (), False),
        ("It was opened in the year 1889", ("1889",), True),
        ("It has 18890 bolts", ("1889",), False),
    ],
)
def test_a_chunk_holds_the_answer_when_it_has_its_figures_and_words(
    chunk: str, accept: tuple[str, ...], holds: bool
) -> None:
    assert holds_answer(chunk, "When was this finished?", "It was finished in 1889 by Eiffel.", accept) is holds


def test_the_command_takes_the_flags_of_local_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit) as stopped:
        record_run.main(["--help"])
    assert stopped.value.code == 0
