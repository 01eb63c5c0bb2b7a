from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_httpserver import HTTPServer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from agents.profiles.profile import Limits
from evaluation.records import EvaluationError
from evaluation.run.truncation import Truncator, approximate_ends, load_truncator, make_truncator

BEGIN = "<|begin_of_text|>"
RULE = Truncator("rule", approximate_ends)


@pytest.fixture(scope="module")
def byte_level(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny byte-level BPE of Llama's kind, which puts a special token first, saved as a checkpoint."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=[BEGIN, "<|eot_id|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator(["the tower is very tall and the river is long"] * 20, trainer)
    begin = (BEGIN, tokenizer.token_to_id(BEGIN))
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{BEGIN} $A", special_tokens=[begin])
    folder = tmp_path_factory.mktemp("tokenizer") / "Llama-3.2-tiny"
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=BEGIN).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def real(byte_level: Path) -> Truncator:
    """On the evaluator's own tokenizer."""
    return make_truncator(byte_level, exact=True)


@pytest.fixture(scope="module")
def stand_in(byte_level: Path) -> Truncator:
    """On another one that is used in its place."""
    return make_truncator(byte_level, exact=False)


@pytest.fixture(scope="module")
def evaluator(byte_level: Path) -> Tokenizer:
    """As both releases set it up."""
    tokenizer = Tokenizer.from_file(str(byte_level / "tokenizer.json"))
    tokenizer.enable_truncation(75)
    return tokenizer


WORDS = st.lists(
    st.sampled_from(["the", " tower", " is", BEGIN, "<|eot_id|>", " \n", "塔", "🦁", "'s", "!"]), max_size=120
)


@given(text=st.text(max_size=400) | WORDS.map("".join))
def test_the_evaluators_own_tokenizer_cuts_as_both_releases_do(
    real: Truncator, evaluator: Tokenizer, text: str
) -> None:
    assert real.truncate(text) == evaluator.decode(evaluator.encode(text).ids)


def test_74_tokens_of_text_are_left_and_written_special_tokens_go(real: Truncator) -> None:
    assert real.truncate("!" * 80) == "!" * 74
    assert real.truncate("the tower<|eot_id|> is tall") == "the tower is tall"


@given(text=st.text(max_size=400))
def test_what_a_substitute_keeps_is_a_prefix_within_the_limit(stand_in: Truncator, text: str) -> None:
    for truncator in (stand_in, RULE):
        prefix = truncator.truncate(text)
        assert text.startswith(prefix)
        assert truncator.count(prefix) <= truncator.limit
        assert truncator.truncate(prefix) == prefix
        if truncator.count(text) <= truncator.limit:
            assert prefix == text


def test_as_much_is_kept_as_fits(stand_in: Truncator) -> None:
    text = " ".join(["the tower is very tall"] * 60)
    assert stand_in.count(text) > stand_in.limit == Limits().answer_tokens == 74
    assert stand_in.limit - 1 <= stand_in.count(stand_in.truncate(text)) <= stand_in.limit


def test_a_substitute_cuts_no_character_of_several_tokens_in_two(stand_in: Truncator) -> None:
    text = "塔" * 60
    prefix = stand_in.truncate(text)
    assert prefix == "塔" * len(prefix)
    assert 0 < stand_in.count(prefix) <= 74


def test_special_tokens_do_not_count(real: Truncator) -> None:
    assert real.count("") == 0


def test_a_tokenizer_by_path_is_named(byte_level: Path) -> None:
    truncator = load_truncator(str(byte_level))  # whatever its path says, it is another one
    assert truncator.name == f"{byte_level} (stand-in for meta-llama/Llama-3.2-1B-Instruct)"
    assert truncator.cut is None


def test_the_evaluators_tokenizer_is_recognised_by_its_output(tmp_path: Path) -> None:
    """The words and ids of Llama 3 that the sample takes; no more of its vocabulary is needed for that."""
    steps = ["H e", "He l", "Hel l", "Hell o", "Ġ w", "Ġw o", "Ġwo r", "Ġwor l", "Ġworl d"]
    word_ids = {"!": 0, "Hello": 9906, "Ġworld": 1917, BEGIN: 128000}
    pieces = [*pre_tokenizers.ByteLevel.alphabet(), *(step.replace(" ", "") for step in steps)]
    vocabulary = word_ids | {piece: 200 + place for place, piece in enumerate(pieces) if piece not in word_ids}
    tokenizer = Tokenizer(models.BPE(vocabulary, [(first, second) for first, second in map(str.split, steps)]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([BEGIN])
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{BEGIN} $A", special_tokens=[(BEGIN, 128000)])
    folder = tmp_path / "mine"
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=BEGIN).save_pretrained(folder)
    truncator = load_truncator(str(folder))
    assert truncator.name == str(folder)
    assert truncator.truncate("!" * 80) == "!" * 74


@pytest.mark.parametrize("hub", ["absent", "in trouble"])
def test_a_hub_out_of_reach_is_not_waited_for(
    hub: str, httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hugging Face's library would try each file of the tokenizer six times, for a minute, with a warning each."""
    httpserver.expect_request(re.compile("/.*")).respond_with_data("no", status=503)
    address = httpserver.url_for("") if hub == "in trouble" else "http://127.0.0.1:9/"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address.rstrip("/"))
    assert "stand-in" in load_truncator().name
    assert len(httpserver.log) == (hub == "in trouble")


def test_a_wrong_path_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="no tokenizer at"):
        load_truncator(str(tmp_path))


def test_without_the_real_tokenizer_a_stand_in_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("evaluation.run.truncation.LLAMA_TOKENIZER", str(tmp_path / "gated"))
    truncator = load_truncator()
    assert truncator.cut is None
    assert "stand-in" in truncator.name
    monkeypatch.setattr("evaluation.run.truncation.STAND_IN_PACKAGE", "no_such_package_anywhere")
    assert load_truncator().name.startswith("rule")


def test_the_rule_errs_on_the_short_side() -> None:
    # counted with the Llama-3 tokenizer's rules: words of the vocabulary are one token, digits go by threes
    assert RULE.count("It is in Paris.") >= 5
    assert RULE.count("1,083 ft") >= 4
    assert RULE.count("20000") == 2
