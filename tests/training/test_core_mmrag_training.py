"""CoRe-MMRAG's training: formulas on numbers worked by hand, sets mined from a recorded run, both phases on a tiny model."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from agents.models.base import ChatRequest
from tests.training.recorded import recorded_agent, recorded_run, save_data
from tests.training.tiny_data import SAVE, example
from training import core_data, core_train
from training.chat_examples import HELD_OUT, TRAIN, read_examples
from training.core_data import classify_knowledge, classify_modality
from training.core_train import compute_objective_loss
from training.encoding import IGNORED

LN = math.log


NO_LETTERS = torch.zeros(1, 0, dtype=torch.long)


def test_the_probability_of_a_reply_is_the_product_over_its_tokens() -> None:
    # Vocabulary of 2. Position 0 gives 1:3, position 1 gives 1:1; the reply is token 1, then token 0: 3/4 times 1/2.
    logits = torch.tensor([[[0.0, LN(3)], [0.0, 0.0], [5.0, -5.0]]])
    labels = torch.tensor([[IGNORED, 1, 0]])
    assert float(compute_objective_loss("prki_int", logits, labels, NO_LETTERS)) == pytest.approx(-LN(3 / 8))
    only_last = torch.tensor([[IGNORED, IGNORED, 0]])
    assert float(compute_objective_loss("prki_int", logits, only_last, NO_LETTERS)) == pytest.approx(-LN(1 / 2))


def test_an_entry_is_chosen_among_those_that_there_are_where_the_reply_begins() -> None:
    logits = torch.zeros(1, 4, 6)
    logits[0, 1] = torch.tensor([9.0, 0.0, LN(2), LN(5), 9.0, 9.0])
    labels = torch.tensor([[IGNORED, IGNORED, 2, 5]])
    for letters, share in (([1, 2, 3], 2 / 8), ([1, 2], 2 / 3), ([1, 2, -1], 2 / 3)):
        assert float(compute_objective_loss("vtki_t", logits, labels, torch.tensor([letters]))) == pytest.approx(
            -LN(share)
        )
    both = torch.tensor([[1, 2, 3], [1, 2, -1]])
    loss = compute_objective_loss("vtki_v", logits.repeat(2, 1, 1), labels.repeat(2, 1), both)
    assert float(loss) == pytest.approx(-(LN(2 / 8) + LN(2 / 3)) / 2)


def test_the_loss_of_answers_is_their_mean_negative_log_probability() -> None:
    """Two rows: 3/4 times 1/2, and 1/4 times 1/2."""
    logits = torch.tensor([[[0.0, LN(3)], [0.0, 0.0], [5.0, -5.0]], [[LN(3), 0.0], [0.0, 0.0], [5.0, -5.0]]])
    labels = torch.tensor([[IGNORED, 1, 0], [IGNORED, 1, 0]])
    for objective in ("prki_int", "prki_ext", "sft_v", "sft_t"):
        assert float(compute_objective_loss(objective, logits, labels, NO_LETTERS)) == pytest.approx(
            (LN(8 / 3) + LN(8)) / 2
        )


def test_the_source_that_alone_is_right_is_the_one_to_trust() -> None:
    own, wrong = example(0, reply="330 metres"), example(0, "hallucination", reply="12 metres")
    refused = example(0, "miss")
    assert classify_knowledge(own, wrong) == ("prki_int", "330 metres")
    assert classify_knowledge(wrong, own) == ("prki_ext", "330 metres")
    assert classify_knowledge(refused, own) == ("prki_ext", "330 metres")
    assert classify_knowledge(own, own) is None and classify_knowledge(wrong, refused) is None
    cut = replace(own, reply="It is 330 metres tall. It was", finish_reason="length")
    assert classify_knowledge(cut, wrong) == ("prki_int", "It is 330 metres tall.")
    assert classify_knowledge(wrong, cut) == ("prki_ext", "It is 330 metres tall.")
    unjudged = replace(wrong, reply_verdict=None)
    assert classify_knowledge(own, unjudged) is None and classify_knowledge(unjudged, own) is None


@pytest.mark.parametrize(
    ("visual", "textual", "holding", "modality"),
    [
        ([0.9, 0.1], [0.2, 0.8], [True, False], ("v", 0)),
        ([0.9, 0.1], [0.2, 0.8], [False, True], ("t", 1)),
        ([0.9, 0.1], [0.2, 0.8], [True, True], None),
        ([0.9, 0.1], [0.2, 0.8], [False, False], None),
        ([0.9, 0.1], [0.8, 0.2], [True, False], None),
        ([], [], [], None),
    ],
)
def test_the_modality_that_alone_points_to_the_answer(
    visual: list[float], textual: list[float], holding: list[bool], modality: object
) -> None:
    assert classify_modality(visual, textual, holding) == modality


STAGES = ("image_search", "entries", "parametric_answer", "choose_entry", "entry_answer", "finalise")


def split_mind(request: ChatRequest) -> str:
    """By itself it knows when, from an entry how tall, and of entries it always takes B."""
    text = request.messages[-1].content
    if "Reply with its letter" in text:
        return "B"
    if "Reference:" in text:
        return "It is 330 metres tall." if "tall" in text else "In 1700."
    return "It was finished in 1889." if "When" in text else "It is 5 metres tall."


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("core")
    run = recorded_run(save_data(folder / "data"), folder / "run", recorded_agent(split_mind, STAGES, doubles=True))
    out = folder / "out"
    assert core_data.main(f"{run} --out {out} --held-out 0.5 --cache {folder} --eval-model None".split()) == 0
    return out


def test_the_sets_are_mined_from_a_run(data: Path) -> None:
    rows = read_examples(data / TRAIN) + read_examples(data / HELD_OUT)
    about = json.loads((data / "about.json").read_text())
    counted = {name: about["train"][name] + about["held_out"][name] for name in about["train"]}
    # Only of the Eiffel Tower are 1889 and 330 metres right: one turn each. Every first entry of a picture is its own thing's,
    # the second one's text names the question's words: picture right, text wrong.
    assert counted == {"prki_int": 1, "prki_ext": 1, "vtki_v": 10, "vtki_t": 0, "sft_v": 10, "sft_t": 0}
    (internal,) = (row for row in rows if row.objective == "prki_int")
    assert internal.reply == "It was finished in 1889." and "Reference:" in internal.messages[-1].content
    choice = next(row for row in rows if row.objective == "vtki_v")
    assert choice.reply == "A" and choice.choices == 2
    answer = next(row for row in rows if row.objective == "sft_v" and row.session_id == "s0")
    assert 'Reference: "Eiffel Tower"' in answer.messages[-1].content and answer.reply == answer.ground_truth
    assert answer.request().messages[-1].images


@pytest.mark.parametrize("kind", ["llama", "mllama"])
def test_both_phases_lower_their_loss(kind: str, data: Path, tmp_path: Path) -> None:
    model, out = SAVE[kind](tmp_path / kind), tmp_path / "out"
    more = [
        "training.learning_rate=0.01",
        "training.dtype=float32",
        "training.checkpointing=false",
        "training.epochs=1",
    ]
    changes = [word for change in more for word in ("--set", change)]
    if kind == "llama":  # a text model reads the same words without the pictures
        data = without_pictures(data, tmp_path / "data")
    arguments = ["--data", str(data), "--model", str(model), "--out", str(out), "--max-steps", "4", *changes]
    assert core_train.main(arguments) == 0
    about = json.loads((out / "about.json").read_text())
    for phase in core_train.PHASES:
        assert about[phase]["held_out_loss"]["after"] < about[phase]["held_out_loss"]["before"]
    assert (out / "adapter" / "adapter_config.json").is_file()


def without_pictures(data: Path, to: Path) -> Path:
    to.mkdir()
    for name in (TRAIN, HELD_OUT):
        rows = [json.loads(line) for line in (data / name).read_text().splitlines()]
        for row in rows:
            for message in row["messages"]:
                message["images"] = []
        (to / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return to
