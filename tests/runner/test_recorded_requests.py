"""Records that hold requests: whole, as the model received them, with each picture once beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from agents.base import secrets
from agents.crag_agent import CragAgent
from agents.models.pixels import pixels_digest
from agents.profiles.model_set import ModelSet
from agents.profiles.profile import Profile, SettingsError
from agents.record import REQUEST_IMAGES, Exchange, SentMessage, TurnRecord, read_record
from agents.runner.trace import TraceWriter
from agents.settings.presets import TraceSettings, settings_from
from agents.turn import Turn
from tests.agent.scripted import ScriptedChat

KEY = "k3y-0123456789-abcdefghij"
REQUESTS = TraceSettings(requests=True)


def make_turn(photo: Image.Image, *others: Image.Image, **more: Any) -> Turn:
    """A turn with an exchange that shows the photo and others, and a note that holds them."""
    turn = Turn(
        "How high?", photo, ({"role": "user", "content": "What is it?"}, {"role": "assistant", "content": "A tower."})
    )
    turn.keep(Exchange("p", "answer", "m", messages=(SentMessage("user", "How high?", (photo, *others)),), **more))
    turn.note(entries=[{"name": "Tower", "image": image} for image in others])
    turn.close_stage("any", 0.1)
    return turn


def write_traces(folder: Path, settings: TraceSettings, *turns: Turn) -> list[TurnRecord]:
    TraceWriter(folder / "trace.jsonl", settings).write(turns, 0.5)
    return [read_record(line) for line in (folder / "trace.jsonl").read_text().splitlines()]


def test_an_exchange_is_held_whole_and_names_its_pictures(tmp_path: Path) -> None:
    photo, crop = Image.new("RGB", (64, 48), "red"), Image.new("RGBA", (9, 7), "blue")
    schema = {"type": "object", "properties": {"b": {}, "a": {}}}
    turn = make_turn(photo, crop, reply="y" * 5_000, schema=schema, max_tokens=8, seed=3)
    [record] = write_traces(tmp_path, REQUESTS, turn)
    [exchange] = record.exchanges
    names = pixels_digest(photo), pixels_digest(crop)
    assert exchange.messages == (SentMessage("user", "How high?", names),)
    assert (len(exchange.reply), exchange.max_tokens, exchange.seed) == (5_000, 8, 3)
    assert list(exchange.schema["properties"]) == ["b", "a"]  # type: ignore[index]  # generated in this order
    assert record.photo == names[0]
    assert record.history == (SentMessage("user", "What is it?"), SentMessage("assistant", "A tower."))
    assert record.get_note("entries") == [{"name": "Tower", "image": names[1]}]
    for name, image in zip(names, (photo, crop), strict=True):
        with Image.open(tmp_path / REQUEST_IMAGES / f"{name}.png") as saved_image:
            assert saved_image.mode == "RGB" and saved_image.tobytes() == image.convert("RGB").tobytes()


def test_a_picture_that_several_turns_show_is_written_once(tmp_path: Path) -> None:
    photo = Image.new("RGB", (64, 48), "red")
    write_traces(tmp_path, REQUESTS, make_turn(photo, photo), make_turn(photo.copy()))
    [path] = (tmp_path / REQUEST_IMAGES).iterdir()
    before = path.stat().st_mtime_ns
    write_traces(tmp_path, REQUESTS, make_turn(photo))  # another batch
    assert [each.stat().st_mtime_ns for each in (tmp_path / REQUEST_IMAGES).iterdir()] == [before]


def test_a_trace_holds_no_requests_by_default(tmp_path: Path) -> None:
    [record] = write_traces(
        tmp_path, TraceSettings(), make_turn(Image.new("RGB", (64, 48)), Image.new("RGB", (9, 7)), schema={"a": 1})
    )
    [exchange] = record.exchanges
    assert (exchange.messages, exchange.schema, record.photo, record.history) == ((), None, None, ())
    assert record.get_note("entries") == [{"name": "Tower", "image": "9 x 7 pixels"}]
    assert [path.name for path in tmp_path.iterdir()] == ["trace.jsonl"]


@pytest.mark.parametrize("off", ["queries", "images"])
def test_requests_are_refused_where_a_trace_may_not_show_what_they_show(off: str) -> None:
    with pytest.raises(SettingsError) as caught:
        settings_from({"stages": ("finalise",), "trace": {off: False}}, overrides=["trace.requests=true"])
    assert (
        str(caught.value)
        == "trace: requests contain questions and pictures: trace.requests needs trace.queries and trace.images"
    )


def test_requests_hold_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_told", {KEY})
    turn = make_turn(Image.new("RGB", (64, 48)), reply=f"{'x' * 2_000}{KEY}", schema={"description": KEY})
    turn.keep(Exchange("p", "answer", "m", messages=(SentMessage("system", f"Bearer {KEY} http://u:{KEY}@h.example"),)))
    turn.close_stage("other", 0.1)
    write_traces(tmp_path, REQUESTS, turn)
    text = (tmp_path / "trace.jsonl").read_text()
    assert KEY not in text and "***@h.example" in text


def test_a_full_disk_costs_the_record_and_no_answer(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A file stands where the folder of the pictures belongs: no picture can be written, so no record names one."""
    (tmp_path / "full").write_text("")
    models = ModelSet(Profile(name="x", models={}), tmp_path, ready={"chat": ScriptedChat(lambda _: "a lion")})
    settings = settings_from({"stages": ("answer", "finalise"), "trace": {"requests": True}})
    agent = CragAgent(None, settings=settings, models=models)
    batches: list[list[dict[str, Any]]] = []
    agent.trace_to(tmp_path / "trace.jsonl", batches.append, tmp_path / "full" / "images")
    assert agent.batch_generate_response(["What is it?"], [Image.new("RGB", (64, 48))], [[]]) == ["a lion"]
    assert batches == [[]] and not (tmp_path / "trace.jsonl").exists()
    assert "could not be written" in caplog.text
    agent.trace_to(None, batches.append, tmp_path / "images")
    agent.batch_generate_response(["What is it?"], [Image.new("RGB", (64, 48))], [[]])
    [record] = map(read_record, batches[1])
    [exchange] = record.exchanges
    assert exchange.messages[-1].images == (record.photo,)
    assert (tmp_path / "images" / f"{record.photo}.png").is_file()
    assert json.loads(json.dumps(batches[1])) == batches[1]
