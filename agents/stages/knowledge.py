from collections.abc import Sequence

from agents.asking.ask import Ask, Question
from agents.asking.readers.lines import FACTS
from agents.evidence.passages import classify_document
from agents.evidence.shown import select_documents
from agents.stage import Context, Stage
from agents.turn import Turn

_ANSWER_SECONDS = 3.0  # for each turn, left to the answer


ASK = Ask("knowledge_extraction", FACTS)


class KnowledgeStage(Stage):
    """Asks what each document says by itself, without question and photo (MAVIS, section 5.2); each once, in one batched call."""

    fills = ("knowledge",)
    doing = "reading the documents"
    asks = (ASK,)
    min_seconds, wanted_seconds = 2.0, 4.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``knowledge``; a document that nothing could be taken from, or for which time ran out, keeps its own words.

        So does an image document whose picture is not there: asked what a picture shows that it does not see, a model invents it.
        """
        chunks = (chunk for turn in turns for chunk in select_documents(turn.evidence))
        distinct = {(chunk.title, chunk.text): chunk for chunk in chunks}
        if not distinct or not context.deadline.allows(_ANSWER_SECONDS * len(turns)):
            return
        urls = [chunk.url for chunk in distinct.values() if classify_document(chunk) == "image" and chunk.url]
        pictures = context.search.pictures(urls, context.fetch, context.deadline)
        distinct = {key: it for key, it in distinct.items() if classify_document(it) == "text" or it.url in pictures}
        readers: dict[tuple[str, str], list[Turn]] = {key: [] for key in distinct}
        for turn in turns:
            for key in {(chunk.title, chunk.text) for chunk in select_documents(turn.evidence)} & distinct.keys():
                readers[key].append(turn)
        questions = [
            Question(
                ASK,
                {"image": pictures.get(chunk.url), "document": chunk, "modality": classify_document(chunk)},
                tuple(readers[key]),
            )
            for key, chunk in distinct.items()
        ]
        answers = context.put(questions, context.deadline.sooner(_ANSWER_SECONDS * len(turns)))
        texts_by_key = {key: answer.value for key, answer in zip(distinct, answers, strict=True)}
        for turn in turns:
            texts_by_chunk = {
                chunk: texts_by_key.get((chunk.title, chunk.text)) for chunk in select_documents(turn.evidence)
            }
            turn.knowledge = {chunk: knowledge for chunk, knowledge in texts_by_chunk.items() if knowledge is not None}
            turn.note(documents=len(turn.knowledge), knowledge=list(turn.knowledge.values()))
