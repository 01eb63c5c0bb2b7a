"""Citations: the parser on whatever models write, the check, the stages of MAVIS with scripted models, and the switch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from agents.asking.readers.answers import long_answer
from agents.methods.citations import (
    add_markers,
    check_citations,
    has_supported_figures,
    is_verbatim_in,
    join_sentences,
    merge_repeated,
    parse_cited,
)
from agents.models.base import ChatReply, ChatRequest
from agents.papers.mavis import CitedAnswer, DocumentsStage, KnowledgeStage
from agents.settings.presets import load_settings
from agents.stages.cite import Cite
from agents.stages.finalise import Finalise
from agents.stages.queries import Queries
from agents.turn import IDK, Candidate, CitedSentence, Evidence, Turn
from tests.agent.scripted import (
    ScriptedChat,
    ScriptedPipeline,
    ScriptedReranker,
    WordOverlapReranker,
    context,
    run,
    run_stages,
    settings,
    turn,
)


@pytest.mark.parametrize(
    ("answer", "sentences"),
    [
        ("It is 330 m tall [1]. It is old [2, 3].", [("It is 330 m tall.", (1,)), ("It is old.", (2, 3))]),
        ("It is 330 m tall. [1] It is old. [2][3]", [("It is 330 m tall.", (1,)), ("It is old.", (2, 3))]),
        ("[1] It is 330 m tall. [2] It is old.", [("It is 330 m tall.", (1,)), ("It is old.", (2,))]),
        ("Tall [Doc 2] and old [Info 3; 1].", [("Tall and old.", (2, 3, 1))]),
        ("First【4】.\nSecond [^2].", [("First.", (4,)), ("Second.", (2,))]),
        ("As [1-3] say.", [("As say.", (1, 2, 3))]),
        ("Twice [1] and again [1].", [("Twice and again.", (1,))]),
        ("An [aside], a list[0x], nothing.", [("An [aside], a list[0x], nothing.", ())]),
        ("Dr. Eiffel lived at St. Louis [2].", [("Dr. Eiffel lived at St. Louis.", (2,))]),
        ("It was made by [1]. It is old [2].", [("It is old.", (2,))]),
        ("The man is 【3】", []),
        ("It is what it was. [1] He is the [one].", [("It is what it was.", (1,)), ("He is the [one].", ())]),
        ("[1]", []),
        ("", []),
    ],
)
def test_markers_are_read_as_models_write_them(answer: str, sentences: list[tuple[str, tuple[int, ...]]]) -> None:
    assert [(sentence.text, sentence.citations) for sentence in parse_cited(answer)] == sentences


def test_a_wide_range_does_not_become_a_thousand_citations() -> None:
    assert len(parse_cited("All [1-9999].")[0].citations) == 50


@given(st.lists(st.tuples(st.sampled_from(["It is tall", "Paris is old"]), st.lists(st.integers(1, 9), unique=True))))
def test_what_is_written_is_read_again(sentences: list[tuple[str, list[int]]]) -> None:
    given_sentences = tuple(CitedSentence(f"{text}.", tuple(numbers)) for text, numbers in sentences)
    assert parse_cited(" ".join(add_markers(sentence) for sentence in given_sentences)) == given_sentences


def test_the_check_by_hand() -> None:
    sentences = [CitedSentence("a", (1, 2, 9)), CitedSentence("b", (2,)), CitedSentence("c")]
    support = [{1: 0.9, 2: 0.4}, {1: 0.7, 2: 0.1}, {1: 0.2, 2: 0.3}]
    checked_sentences = check_citations(sentences, support, threshold=0.5, attribute=False)
    assert [sentence.citations for sentence in checked_sentences] == [(1,), (), ()]
    assert [(item.number, item.fault) for item in checked_sentences[0].dropped] == [
        (2, "not supported"),
        (9, "no such document"),
    ]
    attributed_sentences = check_citations(sentences, support, threshold=0.5, attribute=True)
    assert [(sentence.citations, sentence.found) for sentence in attributed_sentences] == [
        ((1,), False),
        ((1,), True),
        ((), False),
    ]


def test_support_that_is_no_number_supports_nothing() -> None:
    assert (
        check_citations([CitedSentence("a", (1,))], [{1: float("nan")}], threshold=0.0, attribute=True)[0].citations
        == ()
    )


def test_figures_and_words_of_a_document() -> None:
    assert has_supported_figures("It weighs 1,250 kg.", ["weight 1250 kg"])
    assert not has_supported_figures("It is 331 m tall.", ["It is 330 m tall."])
    assert is_verbatim_in("330 m.", "The height of X is 330 m (1,083 ft).")
    assert not is_verbatim_in("30 m", "The height is 330 m")
    assert not is_verbatim_in("...", "anything")


def test_an_answer_ends_with_a_whole_sentence_within_the_limit() -> None:
    """20 tokens are 60 characters; a marker takes 9 of them."""
    sentences = (
        CitedSentence("A sentence of thirty letters..", (1,)),
        CitedSentence("Another one of 29 characters.", (2,)),
    )
    assert (
        join_sentences(sentences, 20, markers=False) == "A sentence of thirty letters.. Another one of 29 characters."
    )
    assert join_sentences(sentences, 20, markers=True) == "A sentence of thirty letters. [1]."
    assert join_sentences(sentences, 5, markers=False) == "A sentence of"
    assert join_sentences((), 5, markers=True) == ""


def document(text: str, source: Any = "web", title: str = "T", **fields: Any) -> Evidence:
    return Evidence(text, source, title, **fields)


TOWER = (document("The tower is 330 m tall. Soup is hot."), document("height 330 m", "kg", url="u"), document("soup"))


def cite_answer(answer: str, **cite: Any) -> Turn:
    dialog_turn = turn("How tall is it?", evidence=TOWER, candidate=Candidate(answer, None))
    reranker = WordOverlapReranker()
    run(Cite, [dialog_turn], context(settings(cite={"threshold": 0.6, **cite}), reranker=reranker))
    assert reranker.calls == 1
    return dialog_turn


def test_citations_that_do_not_exist_or_do_not_support_are_dropped() -> None:
    dialog_turn = cite_answer(
        "The tower is 330 m tall. [1][3][8] Soup is cold. [3]", attribute=False, unsupported="drop"
    )
    assert dialog_turn.cited is not None
    assert [(sentence.text, sentence.citations) for sentence in dialog_turn.cited] == [
        ("The tower is 330 m tall.", (1,))
    ]
    notes = dialog_turn._notes
    assert notes["sentences"][0]["dropped"] == ["[3] not supported", "[8] no such document"]
    assert [sentence["given"] for sentence in notes["sentences"]] == [True, False]
    assert notes["abstained"] == 1
    assert [item["modality"] for item in notes["documents"]] == ["text", "image", "text"]


def test_a_wrong_figure_is_not_supported_however_alike_the_words() -> None:
    dialog_turn = cite_answer("The tower is 331 m tall. [1]", attribute=False, unsupported="drop")
    assert dialog_turn.cited == ()
    dialog_turn.route = "rag"
    run(Finalise, [dialog_turn], context(settings()))
    assert dialog_turn.answer == IDK
    assert "no sentence" in str(dialog_turn._findings["decision"])


def test_without_markers_wanted_the_answer_is_plain_and_with_them_marked() -> None:
    dialog_turn = cite_answer("The tower is 330 m tall. Nobody knows why.")
    run(Finalise, [dialog_turn], context(settings()))
    assert dialog_turn.answer == "The tower is 330 m tall. Nobody knows why."
    run(Finalise, [dialog_turn], context(settings(finalise={"cite": True})))
    assert dialog_turn.answer == "The tower is 330 m tall [1]. Nobody knows why."


def test_who_does_not_know_cites_nothing() -> None:
    dialog_turn = turn("q", evidence=TOWER, candidate=Candidate("I don't know", None))
    run(Cite, [dialog_turn, turn("q")], context(settings(), reranker=WordOverlapReranker()))
    assert dialog_turn.cited is None


@pytest.mark.parametrize("preset", ["best", "direct_rag", "cruise", "core_mmrag", "coherence", "vlm_only", "mavis"])
@pytest.mark.filterwarnings("error")
def test_the_switch_works_with_every_preset(preset: str) -> None:
    run_settings = load_settings(preset, "embedded", overrides=["finalise.cite=true"])
    assert run_settings.stages[-1] == "finalise" and "cite" in run_settings.stages[-3:]
    assert "cite" not in run_settings.without(["cite"]).stages
    if preset != "mavis":
        assert "cite" not in load_settings(preset, "embedded").stages


def test_queries_may_be_the_models_alone() -> None:
    chat = ScriptedChat(lambda _: '{"queries": ["height of the Eiffel Tower", "who built it"]}')
    dialog_turn, silent = turn("How tall is this?"), turn("Why?")
    table = {"split": "model", "prompt": "search_queries", "keep_question": False, "k": 1}
    run(Queries, [dialog_turn], context(settings(queries=table), chat=chat))
    assert dialog_turn.queries == ("height of the Eiffel Tower",)
    run(Queries, [silent], context(settings(queries=table), chat=ScriptedChat(lambda _: '{"queries": []}')))
    assert silent.queries == ("Why?",)


def test_documents_are_the_top_k_of_each_query_over_both_modalities() -> None:
    evidence = (
        document("tall tower"), document("tall tall hat"), document("old stone", "kg"), document("old tall tower", "kg"),
    )  # fmt: skip
    dialog_turn = turn("q", evidence=evidence, queries=("tall tower", "old stone"))
    reranker = WordOverlapReranker()
    run(DocumentsStage, [dialog_turn], context(settings(documents={"k": 1}), reranker=reranker))
    assert reranker.calls == 1
    assert [chunk.text for chunk in dialog_turn.evidence] == ["tall tower", "old stone"]
    assert dialog_turn._notes["ranking"] == [""]  # each address once
    dialog_turn.evidence = tuple(replace(chunk, url=chunk.text) for chunk in evidence)
    run(DocumentsStage, [dialog_turn], context(settings(documents={"k": 1}), reranker=reranker))
    assert dialog_turn._notes["ranking"] == ["tall tower", "old tall tower", "old stone", "tall tall hat"]
    dialog_turn.evidence = evidence
    run(DocumentsStage, [dialog_turn], context(settings(documents={"k": 4, "modality": "image"}), reranker=reranker))
    assert {chunk.source for chunk in dialog_turn.evidence} == {"kg"}


class Pictures(ScriptedPipeline):
    """A search whose knowledge graph holds pictures in a folder."""

    def __init__(self, folder: Any) -> None:
        super().__init__({}, {})
        self.picture_folder = folder


def cache_picture(tmp_path: Any, url: str) -> Pictures:
    from agents.search.pages.web_cache import cache_name

    Image.new("RGB", (5, 7), "red").save(tmp_path / cache_name(url), "PNG")
    return Pictures(tmp_path)


def test_knowledge_is_extracted_without_question_or_photo_and_each_document_once(tmp_path: Any) -> None:
    chat = ScriptedChat(lambda request: "none" if "soup" in request.messages[-1].content else "It is 330 m tall.")
    url = "https://i.example/t.png"
    ranked = (TOWER[0], document("height 330 m", "kg", url=url), document("soup"))
    first, second = turn("A very particular question?", evidence=ranked), turn("Another?", evidence=ranked[:1])
    run(KnowledgeStage, [first, second], context(settings(), cache_picture(tmp_path, url), chat=chat))
    assert chat.batches == [3]
    assert not any("particular" in message.content for request in chat.requests for message in request.messages)
    sizes = [picture.size for request in chat.requests for message in request.messages for picture in message.images]
    assert sizes == [(5, 7)]  # the document's own picture, never that of the question
    assert first.knowledge == {ranked[0]: "It is 330 m tall.", ranked[1]: "It is 330 m tall."}
    assert second.knowledge == {ranked[0]: "It is 330 m tall."}


def test_a_model_is_not_asked_about_a_picture_that_it_cannot_see(tmp_path: Any) -> None:
    chat = ScriptedChat(lambda _: "A fact.")
    url = "https://i.example/t.png"
    ranked = (document("height 330 m", "kg", url="https://i.example/elsewhere.png"), document("opened 1889"))
    dialog_turn = turn("q", evidence=ranked)
    run(KnowledgeStage, [dialog_turn], context(settings(), cache_picture(tmp_path, url), chat=chat))
    assert ["opened 1889" in request.messages[-1].content for request in chat.requests] == [True]
    assert dialog_turn.knowledge == {ranked[1]: "A fact."}
    without = turn("q", evidence=ranked[:1])
    run(KnowledgeStage, [without], context(settings(), cache_picture(tmp_path, url), chat=chat))
    assert (chat.batches, dict(without.knowledge)) == ([1], {})


def test_extraction_leaves_the_answer_its_time() -> None:
    chat = ScriptedChat(lambda _: "A fact.")
    dialog_turn = turn("q", evidence=TOWER)
    run(KnowledgeStage, [dialog_turn], context(settings(), seconds=2.5, chat=chat))
    assert (chat.batches, dict(dialog_turn.knowledge)) == ([], {})


def test_the_answer_sees_extracted_knowledge_in_the_place_of_documents_and_pictures(tmp_path: Any) -> None:
    url = "https://i.example/t.png"
    ranked = (TOWER[0], document("height 330 m", "kg", url=url))
    search = cache_picture(tmp_path, url)

    def ask(method: str, limits: dict[str, int] | None = None, **fields: Any) -> ChatRequest:
        chat = ScriptedChat(lambda _: "It is 330 m tall [1].")
        dialog_turn = turn("How tall?", evidence=ranked, **fields)
        run_settings = settings(cited_answer={"method": method}, limits=limits or {})
        run(CitedAnswer, [dialog_turn], context(run_settings, search, chat=chat))
        assert dialog_turn.candidate is not None
        assert dialog_turn.candidate.text == "It is 330 m tall [1]."
        return chat.requests[0]

    plain = ask("vanilla")
    assert [picture.size for picture in plain.messages[-1].images] == [(64, 48), (5, 7)]
    assert '[2] "T": "height 330 m"' in plain.messages[-1].content
    assert "Picture 1 after the photo belongs to [2]" in plain.messages[-1].content
    sheet = ask("vanilla", limits={"pictures": 1})
    assert [picture.size for picture in sheet.messages[-1].images] == [(1120, 1120)]
    assert "labelled [n] belongs to document [n]" in sheet.messages[-1].content
    assert "after the photo" not in sheet.messages[-1].content
    knowledge_request = ask("vanilla", knowledge={ranked[1]: "A red square."})
    assert [picture.size for picture in knowledge_request.messages[-1].images] == [(64, 48)]
    assert '[2] "T": "A red square."' in knowledge_request.messages[-1].content
    assert "Relevant documents:" in ask("chain_of_thought").messages[-1].content


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ("Relevant documents: [1]\nInformation: tall\nAnswer: It is tall [1].\nIt is old [2].", "It is tall [1]. It is old [2]."),
        ("Relevant documents: [1]\nInformation: ta", None),
        ("It is tall [1].", "It is tall [1]."),
        ("The man who gave this bird its name is [1].", None),
        ("", None),
    ],
)  # fmt: skip
def test_the_answer_of_a_reasoned_reply(reply: str, text: str | None) -> None:
    candidate = long_answer(ChatReply(reply, "stop"))
    assert (candidate.text if candidate else None) == text


def test_mavis_from_end_to_end_with_a_model_that_can(tmp_path: Any) -> None:
    """All stages of the preset that need no index, with a scripted model in the place of a large one."""

    def say(request: ChatRequest) -> str:
        prompt = request.messages[0].content + request.messages[-1].content
        if "search queries" in prompt:
            return '{"queries": ["height of the tower"]}'
        if "take down" in prompt:
            return "The tower is 330 m tall."
        return "The tower is 330 m tall [1]. It was sold twice [2]. Soup is hot [7]."

    chat = ScriptedChat(say)
    dialog_turn = turn("How tall is this?", evidence=TOWER)
    run_settings = load_settings("mavis", "gpu")
    run_settings = run_settings.without(["understand", "image_search", "web_search", "evidence"])
    run_stages(
        [dialog_turn], context(run_settings, ScriptedPipeline({}, {}), chat=chat, reranker=WordOverlapReranker())
    )
    assert dialog_turn.error is None
    assert dialog_turn.answer == "The tower is 330 m tall [1]."
    assert chat.batches == [1, 2, 1]  # the document of the graph came without its picture: nobody is asked about it


def test_support_is_that_of_the_best_sentence_of_a_document() -> None:
    exact = ScriptedReranker(lambda _, passage: 1.0 if passage == "T: Soup is hot." else 0.1)
    dialog_turn = turn("q", evidence=TOWER, candidate=Candidate("Soups are hot [1].", None))
    run(Cite, [dialog_turn], context(settings(cite={"attribute": False}), reranker=exact))
    assert dialog_turn.cited is not None
    assert dialog_turn.cited[0].citations == (1,)


def test_repeated_sentences_are_merged_with_all_their_citations() -> None:
    assert merge_repeated(parse_cited("It is old [1]. It is old [2]. It is tall. It is old.")) == (
        CitedSentence("It is old.", (1, 2)),
        CitedSentence("It is tall."),
    )
