from collections.abc import Sequence

from pydantic import Field

from agents.methods.candidates import MAX_READ
from agents.methods.citations import MAX_DOCUMENTS
from agents.models.base import ChatReply
from agents.stage import Context, Stage, StageOptions
from agents.texts.evidence_text import modality_of
from agents.texts.replies import was_cut, whole_sentences
from agents.texts.text import clean, one_line
from agents.turn import Turn

_ANSWER_SECONDS = 3.0  # for each turn, left to the answer
_STOPS = (".", "!", "?", ":", ";", ",")


class KnowledgeStage(Stage):
    """What each document says by itself, without question and photo (MAVIS, section 5.2); one batched call, each distinct document once."""

    class Options(StageOptions):
        pictures: bool = Field(True, description="show the pictures of image documents, where there are any")

    options: Options
    fills = ("knowledge",)
    templates = ("knowledge_extraction",)
    min_seconds, wanted_seconds = 2.0, 4.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``knowledge``; a document that nothing could be taken from, or for which time ran out, keeps its own words.

        So does an image document whose picture is not there: asked what a picture shows that it does not see, a model invents it.
        """
        shown = (chunk for turn in turns for chunk in turn.best_evidence(MAX_DOCUMENTS))
        distinct = {(chunk.title, chunk.text): chunk for chunk in shown}
        if not distinct or not context.deadline.allows(_ANSWER_SECONDS * len(turns)):
            return
        urls = [chunk.url for chunk in distinct.values() if modality_of(chunk) == "image" and chunk.url]
        pictures = context.search.pictures(urls, context.fetch, context.deadline) if self.options.pictures else {}
        distinct = {key: it for key, it in distinct.items() if modality_of(it) == "text" or it.url in pictures}
        replies = context.ask_each(
            "knowledge_extraction",
            list(distinct.values()),
            lambda chunk: {"image": pictures.get(chunk.url), "document": chunk, "modality": modality_of(chunk)},
            context.deadline.sooner(_ANSWER_SECONDS * len(turns)),
        )
        said = {(chunk.title, chunk.text): extracted(reply) for chunk, reply in replies}
        for turn in turns:
            found = {chunk: said.get((chunk.title, chunk.text)) for chunk in turn.best_evidence(MAX_DOCUMENTS)}
            turn.knowledge = {chunk: knowledge for chunk, knowledge in found.items() if knowledge is not None}
            turn.note(documents=len(turn.knowledge), knowledge=list(turn.knowledge.values()))


def extracted(reply: ChatReply) -> str | None:
    """The facts of a reply on one line, a stop behind each line of it; None where there are none."""
    said = reply.text[:MAX_READ]
    lines = clean(whole_sentences(said) if was_cut(reply) else said).split("\n")
    text = one_line(" ".join(line if line.endswith(_STOPS) else f"{line}." for line in lines if line))
    if reply.finish_reason == "error":
        return None
    return None if text.strip(" .").lower() in ("", "none", "nothing", "no facts") else text
