"""From a recorded run to training data: every request with its turn, nothing of the test split."""

import io
import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from rich.console import Console

from agents.crag_agent import CragAgent
from agents.models.pixels import pixels_digest
from agents.models.reply_cache import CachedReplies, ReplyStore
from agents.record import REQUEST_IMAGES
from agents.settings.run_config import RunConfig
from evaluation.files.outputs import ALL_TURNS, build_turn_table, read_turn_table
from evaluation.files.responses import RESPONSES, read_responses, rewrite
from evaluation.files.traces import TRACE, read_traces
from evaluation.judge.rule_judge import RuleJudge
from evaluation.records import Verdict
from evaluation.run import command
from tests.agent.scripted import ScriptedChat
from tests.training import recorded
from tests.training.recorded import (
    QUERIES,
    REVISION,
    THINGS,
    answer_from_evidence,
    recorded_agent,
    recorded_run,
    save_data,
)
from training import collect
from training.chat_examples import HELD_OUT, TRAIN, Example, TrainingDataError, is_held_out, read_examples
from training.collect import holds_answer
from training.command_line import ABOUT, read_data
from training.recipes import DataTable
from training.sft import SftOptions, select_samples


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def run(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded_run(data, tmp_path_factory.mktemp("runs") / "run", recorded_agent())


def read_collected(out: Path) -> list[Example]:
    return read_examples(out / TRAIN) + read_examples(out / HELD_OUT)


def test_every_request_is_kept_as_it_was_sent_with_reply_and_verdict(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert collect.main([str(run), "--out", str(out), "--held-out", "0.5", "--cache", str(tmp_path)]) == 0
    answers = [example for example in read_collected(out) if example.form == "answer"]
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
    collect.main([str(run), "--out", str(out), "--held-out", "0.5", "--cache", str(tmp_path)])
    sides = [{row.session_id for row in read_examples(out / name)} for name in (TRAIN, HELD_OUT)]
    assert sides[0] and sides[1] and not sides[0] & sides[1]
    photos = {session: record.photo or "" for (session, _), record in read_traces(run / TRACE).items()}
    assert sides[1] == {session for session, photo in photos.items() if is_held_out(photo, 0.5)}
    about = json.loads((out / ABOUT).read_text())
    answers = [about[side]["prompts"]["answer_with_evidence"] for side in ("train", "held_out")]
    assert sum(counts["requests"] for counts in answers) == 10
    assert about["unjudged_requests"] == 0 and answers[0]["refusals"] == 0.0


def test_sessions_about_one_photo_stay_on_one_side(run: Path, tmp_path: Path) -> None:
    """Sessions of an unknown photo are told apart by their ids."""
    trace = [json.loads(line) for line in (run / TRACE).read_text().splitlines()]
    photos = {line["session_id"]: line["photo"] for line in trace}
    collect.main([str(run), "--out", str(tmp_path / "all"), "--cache", str(tmp_path)])
    examples = [replace(row, folder=run) for row in read_collected(tmp_path / "all")]
    shared = {**photos, "s0": photos["s4"]}
    sides = collect.write_collection(examples, tmp_path / "all", 0.5, shared)
    held_out = {row.session_id for row in sides["held_out"]}
    assert ("s0" in held_out) == ("s4" in held_out) == is_held_out(photos["s4"], 0.5)
    assert is_held_out(photos["s0"], 0.5) != is_held_out(photos["s4"], 0.5), "else this shows nothing"
    sides = collect.write_collection(examples, tmp_path / "all", 0.5)
    assert {row.session_id for row in sides["held_out"]} == {name for name in photos if is_held_out(name, 0.5)}


@pytest.mark.parametrize(("shares", "is_split"), [(("0.5", "0.5"), True), (("0.5", "0.9"), False)])
def test_no_session_is_trained_on_that_another_folder_holds_out(
    run: Path, tmp_path: Path, shares: tuple[str, str], is_split: bool
) -> None:
    folders = [tmp_path / str(number) for number in range(len(shares))]
    for folder, share in zip(folders, shares, strict=True):
        collect.main([str(run), "--out", str(folder), "--held-out", share, "--cache", str(tmp_path)])
    words = [word for folder in folders for word in ("--data", str(folder))]
    options = SftOptions.parse([*words, "--model", "m", "--recipe", "smollm2", "--out", str(tmp_path / "out")])
    if is_split:
        _, train, held_out = read_data(options)
        assert train and held_out and not {row.session_id for row in train} & {row.session_id for row in held_out}
        return
    with pytest.raises(TrainingDataError, match=r"sessions.*trained on and held out.*/0: 0\.5, .*/1: 0\.9"):
        read_data(options)


def test_relevance_questions_come_from_the_evidence(run: Path, tmp_path: Path) -> None:
    collect.main([str(run), "--out", str(tmp_path / "out"), "--cache", str(tmp_path)])
    questions = [
        row for row in read_collected(tmp_path / "out") if row.prompt == collect.RELEVANCE and row.session_id == "s0"
    ]
    replies = {(row.interaction_id, "1889" in row.messages[-1].content): row.reply for row in questions}
    assert replies == {("s0-0", True): "Yes", ("s0-0", False): "No", ("s0-1", True): "No", ("s0-1", False): "Yes"}
    assert all(row.images for row in questions)


@pytest.mark.parametrize("split", ["public_test", "", "test"])
def test_a_run_over_another_split_is_refused_by_name(
    run: Path, tmp_path: Path, split: str, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "run"
    other.mkdir()
    (other / TRACE).write_text((run / TRACE).read_text())
    (other / "run.json").write_text(json.dumps({"dataset": f"crag-mm@v0.1.2/{split}" if split else "crag-mm"}))
    assert collect.main([str(other), "--out", str(tmp_path / "out")]) == 2
    assert "never from public_test" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("prefix", "flip", "status", "message"),
    [
        ("other", False, 2, "of public_test about the same pictures"),
        ("s", True, 2, "public_test"),
        ("other", True, 0, ""),
    ],
    ids=["pictures", "ids", "neither"],
)
def test_questions_that_the_test_split_has_by_picture_or_id_are_refused(
    run: Path, tmp_path: Path, prefix: str, flip: bool, status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = save_data(save_data(tmp_path / "test", "public_test", prefix=prefix, flip=flip)), tmp_path / "out"
    places = ["--dataset", str(data), "--revision", "v0.1.1", "--out", str(out), "--cache", str(tmp_path)]
    assert collect.main([str(run), *places]) == status
    assert message in capsys.readouterr().err and out.exists() is (status == 0)
    assert status or json.loads((out / ABOUT).read_text())["public_test"] == "kept out by name and content"


def test_each_of_two_turns_that_ask_the_same_has_its_own_requests(run: Path, tmp_path: Path) -> None:
    """All sessions ask the same questions of other photos, in batches of one call."""
    collect.main([str(run), "--out", str(tmp_path / "out"), "--cache", str(tmp_path)])
    records = read_traces(run / TRACE)
    assert max(record.turn for record in records.values()) > 0
    sizes = {f"s{number}": size for number, (size, _, _) in enumerate(THINGS.values())}
    answers = [row for row in read_collected(tmp_path / "out") if row.form == "answer"]
    assert len(answers) == 10
    for row in answers:
        [photo] = row.request().messages[-1].images
        assert photo.size == sizes[row.session_id]
        assert row.images == (records[row.key].photo,)


def test_several_requests_of_a_turn_are_told_apart_by_their_prompts(data: Path, tmp_path: Path) -> None:
    agent = recorded_agent(stages=("image_search", "evidence", "dual_answer", "finalise"))
    run = recorded_run(data, tmp_path / "run", agent)
    collect.main([str(run), "--out", str(tmp_path / "out"), "--cache", str(tmp_path)])
    counts = Counter(row.prompt for row in read_collected(tmp_path / "out") if row.form == "answer")
    assert counts == {"answer_with_evidence": 10, "answer_without_evidence": 10}


def copy_with_exchanges(run: Path, folder: Path, change: Callable[[list[Any]], list[Any]]) -> Path:
    """Copy a run, with other exchanges in each stage of its trace."""
    target = shutil.copytree(run, folder)
    lines = [json.loads(line) for line in (run / TRACE).read_text().splitlines()]
    for stage in (stage for line in lines for stage in line["stages"]):
        stage["exchanges"] = change(stage.get("exchanges", []))
    (target / TRACE).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return target


def test_a_request_that_was_made_again_is_taken_once(run: Path, tmp_path: Path) -> None:
    """As after a failure of the stage, when each turn is tried alone."""
    again = copy_with_exchanges(run, tmp_path / "again", lambda exchanges: 2 * exchanges)
    for folder, out in ((run, tmp_path / "once"), (again, tmp_path / "twice")):
        collect.main([str(folder), "--out", str(out), "--cache", str(tmp_path)])
    assert len(read_collected(tmp_path / "twice")) == len(read_collected(tmp_path / "once")) > 10


@pytest.mark.parametrize("reason", ["error", "abort", "length"])
def test_a_request_without_a_whole_reply_teaches_no_refusal(run: Path, tmp_path: Path, reason: str) -> None:
    """It was asked again, and answered; a reply that is as long as it may be is the model's own."""
    begun = {"reply": "It", "finish_reason": reason}
    failed = copy_with_exchanges(
        run, tmp_path / "failed", lambda exchanges: [each | more for each in exchanges for more in (begun, {})]
    )
    collect.main([str(failed), "--out", str(tmp_path / "out"), "--cache", str(tmp_path)])
    verdicts = Counter(row.reply_verdict for row in read_collected(tmp_path / "out") if row.form == "answer")
    left_out = json.loads((tmp_path / "out" / ABOUT).read_text())["requests_without_reply"]
    assert (verdicts, left_out) == (
        {"correct": 5, "hallucination": 5, **({"miss": 10} if reason == "length" else {})},
        10 if reason != "length" else 0,
    )


BEGUN = "It was finished in 1889. It was built by Gust"


@pytest.mark.parametrize(
    ("reply", "reason", "verdict", "learned"),
    [
        (BEGUN, "length", "correct", "It was finished in 1889."),
        (BEGUN, "stop", "correct", BEGUN),
        ("It was finished in 1889", "length", "miss", "I don't know"),
        ("It was finished in 1889", "stop", "correct", "It was finished in 1889"),
        ("It was finished in 1700. It was built by Gust", "length", "hallucination", "I don't know"),
    ],
)
def test_a_cut_reply_is_judged_and_learned_as_the_agent_gives_it(
    run: Path, tmp_path: Path, reply: str, reason: str, verdict: str, learned: str
) -> None:
    changes = {"reply": reply, "finish_reason": reason}
    folder = copy_with_exchanges(run, tmp_path / "run", lambda exchanges: [each | changes for each in exchanges])
    collect.main([str(folder), "--out", str(tmp_path / "out"), "--cache", str(tmp_path)])
    row = next(row for row in read_collected(tmp_path / "out") if row.interaction_id == "s0-0" and row.form == "answer")
    assert (row.reply, row.reply_verdict) == (reply, verdict)
    assert [sample.reply for sample in select_samples([row], DataTable())] == [learned]


DESIGN = "Who designed it?"


def in_steps(
    run: Path, folder: Path, *, then_whole: bool = False, reply: str = "Ada Stone", finish_reason: str = "stop"
) -> Path:
    """The run as if each answer had come of two steps; ``then_whole``: after which it was asked for as a whole all the same.

    ``reply`` and ``finish_reason`` are those of the first step.
    """
    target = shutil.copytree(run, folder)
    lines = [json.loads(line) for line in (run / TRACE).read_text().splitlines()]
    for line in lines:
        for stage in line["stages"]:
            for whole in stage.get("exchanges", []):
                last = {**whole, "prompt": "step_answer", "form": "step answer"}
                *before, message = whole["messages"]
                about = {**message, "content": f"Information: none\n\nQuestion: {DESIGN}"}
                first = {**last, "messages": [*before, about], "reply": reply, "finish_reason": finish_reason}
                stage["queries"] = [DESIGN, line["query"]]
                stage["exchanges"] = [first, last, *([whole] if then_whole else [])]
    (target / TRACE).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return target


def test_a_step_is_right_where_its_turn_is_and_elsewhere_nobody_knows(run: Path, tmp_path: Path) -> None:
    """Judged as the answer of its turn, the first step of a right chain would be taught as a refusal."""
    folder = in_steps(run, tmp_path / "run")
    assert collect.main([str(folder), "--out", str(tmp_path / "out"), "--cache", str(tmp_path)]) == 0
    steps = [row for row in read_collected(tmp_path / "out") if row.form == "step answer"]
    assert len(steps) == 20
    right = {row.key: row for row in steps if row.query == DESIGN and row.reply_verdict == "correct"}
    assert set(right) == {(f"s{number}", f"s{number}-0") for number in range(5)}  # "When was this finished?"
    assert {row.ground_truth for row in right.values()} == {"Ada Stone"}
    assert {row.query for row in steps} == {DESIGN, "When was this finished?", "How tall is this?"}
    learned = select_samples(steps, DataTable())
    assert len(learned) == 10 and {sample.kind for sample in learned} == {"answer"}
    assert {sample.reply for sample in select_samples(right.values(), DataTable(answers="reference"))} == {"Ada Stone"}
    assert not collect.select_questions(steps)


@pytest.mark.parametrize(("reply", "learned"), [("Ada Stone; Bob Hill; Cec", ["Ada Stone; Bob Hill"]), ("Ad", [])])
def test_of_a_cut_step_the_whole_items_are_learned_and_of_one_without_any_nothing(
    run: Path, tmp_path: Path, reply: str, learned: list[str]
) -> None:
    folder = in_steps(run, tmp_path / "run", reply=reply, finish_reason="length")
    assert collect.main([str(folder), "--out", str(tmp_path / "out"), "--cache", str(tmp_path)]) == 0
    rows = [row for row in read_collected(tmp_path / "out") if row.query == DESIGN and row.interaction_id == "s0-0"]
    assert [row.ground_truth for row in rows if row.reply_verdict == "correct"] == learned
    assert [sample.reply for sample in select_samples(rows, DataTable())] == learned


def test_steps_have_no_verdict_if_the_question_was_then_asked_as_a_whole(run: Path, tmp_path: Path) -> None:
    folder = in_steps(run, tmp_path / "run", then_whole=True)
    assert collect.main([str(folder), "--out", str(tmp_path / "out"), "--cache", str(tmp_path)]) == 0
    verdicts = Counter(
        (row.form, row.reply_verdict) for row in read_collected(tmp_path / "out") if "answer" in row.form
    )
    assert verdicts == {("step answer", None): 20, ("answer", "correct"): 5, ("answer", "hallucination"): 5}


def test_a_picture_is_kept_once(run: Path) -> None:
    names = {path.stem for path in (run / REQUEST_IMAGES).iterdir()}
    records = read_traces(run / TRACE).values()
    assert len(names) == len(THINGS) < len(records)  # one for each dialog, whose turns all show it
    assert names == {record.photo for record in records}
    for name in names:
        with Image.open(run / REQUEST_IMAGES / f"{name}.png") as picture:
            assert pixels_digest(picture) == name


def test_a_run_without_its_requests_is_refused(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = recorded_run(data, tmp_path / "run", recorded_agent(requests=False))
    assert not (run / REQUEST_IMAGES).exists()
    assert collect.main([str(run), "--out", str(tmp_path / "out")]) == 2
    assert "has no requests: make the run with --record-requests" in capsys.readouterr().err


def test_requests_of_turns_that_were_not_judged_are_counted(run: Path, tmp_path: Path) -> None:
    other = shutil.copytree(run, tmp_path / "run")
    line = json.loads((run / TRACE).read_text().splitlines()[0])
    with (other / TRACE).open("a") as file:
        file.write(json.dumps({**line, "session_id": "another"}) + "\n")
    assert collect.main([str(other), "--out", str(tmp_path / "out"), "--cache", str(tmp_path)]) == 0
    assert json.loads((tmp_path / "out" / ABOUT).read_text())["unjudged_requests"] == 1
    assert "another" not in {row.session_id for row in read_collected(tmp_path / "out")}


def test_replies_from_the_cache_are_recorded_with_their_requests(data: Path, tmp_path: Path) -> None:
    store = ReplyStore(tmp_path / "replies")
    traces = []
    for name in ("first", "second"):
        chat = CachedReplies(ScriptedChat(answer_from_evidence), store)
        traces.append(read_traces(recorded_run(data, tmp_path / name, recorded_agent(chat=chat)) / TRACE))
    first, second = ([each for record in records.values() for each in record.exchanges] for records in traces)
    assert [each.cached for each in first] == [False] * 10 and [each.cached for each in second] == [True] * 10
    assert [each.messages for each in first] == [each.messages for each in second]
    collect.main([str(tmp_path / "second"), "--out", str(tmp_path / "out"), "--cache", str(tmp_path)])
    assert len([row for row in read_collected(tmp_path / "out") if row.form == "answer"]) == 10


def run_with_flags(data: Path, tmp_path: Path, *arguments: str) -> tuple[int, str]:
    """What local_evaluation.py says, with the scripted parts behind its agent."""

    def build(config: RunConfig, *_: Any, **__: Any) -> CragAgent:
        return recorded_agent(stages=("answer", "finalise"), requests=config.settings.trace.requests)

    stream = io.StringIO()
    places = ["--dataset", str(data), "--cache", str(tmp_path / "cache"), "--output-dir", str(tmp_path / "out")]
    options = ["--dataset-type", "multi-turn", "--revision", REVISION, "--eval-model", "rule", "--no-progress"]
    searches = ["--suppress-web-search-api", "--suppress-image-search-api"]
    command_line = [*options, *places, *searches, *arguments]
    return command.main(command_line, Console(file=stream, width=200), build), stream.getvalue()


def test_requests_are_recorded_beside_the_answers_and_a_resumed_run_keeps_them(data: Path, tmp_path: Path) -> None:
    flags = ("--record-requests", "--num-conversations")
    assert run_with_flags(data, tmp_path, *flags, "2")[0] == 0
    first = (tmp_path / "out" / TRACE).read_text()
    assert len(list((tmp_path / "out" / REQUEST_IMAGES).iterdir())) == 2
    assert run_with_flags(data, tmp_path, *flags, "3", "--resume")[0] == 0
    assert (tmp_path / "out" / TRACE).read_text().startswith(first)
    records = read_traces(tmp_path / "out" / TRACE)
    assert len(records) == 6 and all(each.messages for record in records.values() for each in record.exchanges)
    assert collect.main([str(tmp_path / "out"), "--out", str(tmp_path / "data"), "--cache", str(tmp_path)]) == 0


def test_a_run_without_the_flag_records_no_request(data: Path, tmp_path: Path) -> None:
    assert run_with_flags(data, tmp_path, "--num-conversations", "1")[0] == 0
    records = read_traces(tmp_path / "out" / TRACE)
    assert not any(each.messages for record in records.values() for each in record.exchanges)
    assert not (tmp_path / "out" / REQUEST_IMAGES).exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--record-requests", "--replicas", "2"), "works with one agent in this process; leave --replicas out"),
        (("--set", "trace.requests=true", "--replicas", "2"), "works with one agent in this process; leave --replicas out"),
        (("--record-requests", "--set", "trace.images=false"), "trace.requests needs trace.queries and trace.images"),
        (("--record-requests", "--agent", "tests.evaluation.worlds:ScriptedAgent"), "--record-requests cannot change agent"),
    ],
)  # fmt: skip
def test_what_cannot_be_recorded_is_refused_in_one_line(
    data: Path, tmp_path: Path, flags: tuple[str, ...], message: str
) -> None:
    status, output = run_with_flags(data, tmp_path, *flags)
    assert status == 2 and message in output and len(output.strip().splitlines()) == 1


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


@pytest.mark.parametrize(
    ("queries", "accept", "relevant"),
    [(QUERIES, ("by Gustave",), {"No"}), (("When was this begun?", QUERIES[1]), (), {"Yes", "No"})],
    ids=["the same", "another question"],
)
def test_accept_forms_are_not_those_of_a_question_that_was_edited(
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    queries: tuple[str, str],
    accept: tuple[str, ...],
    relevant: set[str],
) -> None:
    """A question of the set keeps its id, whatever it asks by now."""
    monkeypatch.setattr(recorded, "QUERIES", queries)
    data = save_data(save_data(tmp_path / "data"), "public_test", prefix="other", flip=True)
    (data / "accept.json").write_text(json.dumps({"s0-0": ["by Gustave"]}))
    places = ["--dataset", str(data), "--out", str(tmp_path / "out"), "--cache", str(tmp_path)]
    assert collect.main([str(run), *places, "--revision", REVISION, "--eval-model", "rule"]) == 0
    rows = [row for row in read_collected(tmp_path / "out") if row.interaction_id == "s0-0"]
    assert {row.accept for row in rows} == {accept}
    assert {row.reply for row in rows if row.prompt == collect.RELEVANCE} == relevant


def test_what_the_judge_failed_on_is_not_taught_as_wrong(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn of the run without a judgement is left out; a reply without one has no verdict, and nothing is learned of it."""
    other = shutil.copytree(run, tmp_path / "run")
    turns = read_turn_table(other)
    table = build_turn_table([replace(turn, judge_failed=number == 0) for number, turn in enumerate(turns)])
    (other / ALL_TURNS).write_text(table.to_csv(index=False))
    silent = Verdict(False, "no reply", failed=True)
    monkeypatch.setattr(RuleJudge, "judge", lambda *_: silent)
    assert (
        collect.main([str(other), "--out", str(tmp_path / "out"), "--cache", str(tmp_path), "--eval-model", "rule"])
        == 0
    )
    rows = read_collected(tmp_path / "out")
    assert json.loads((tmp_path / "out" / ABOUT).read_text())["unjudged_requests"] > 0
    assert turns[0].turn.key not in {row.key for row in rows}
    answers = [row for row in rows if row.form == "answer"]
    assert answers and {row.reply_verdict for row in answers} == {None}
    assert select_samples(answers, DataTable()) == []


def test_a_table_of_other_answers_is_not_learned_from(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = shutil.copytree(run, tmp_path / "run")
    answers = read_responses(other / RESPONSES)
    rewrite(other / RESPONSES, [replace(turn, agent_response="another").to_line() for turn in answers])
    assert collect.main([str(other), "--out", str(tmp_path / "out"), "--cache", str(tmp_path)]) == 2
    assert "a table of other answers" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()
