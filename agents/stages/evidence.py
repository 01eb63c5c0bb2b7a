from collections.abc import Iterator, Sequence

from pydantic import Field

from agents.evidence.chunks import (
    ChunkOptions,
    Cut,
    chunk_attributes,
    chunk_page,
    chunk_structure,
    deduplicate,
    format_breadcrumb,
    interleave_by_entity,
    list_entities,
    make_cutter,
)
from agents.evidence.passages import PICTURE_KEY, format_passage, write_identity
from agents.search.hits import WebHit
from agents.stage import Context, Cosine, Stage, StageOptions
from agents.texts.bm25 import score_words
from agents.texts.injection import without_special_tokens
from agents.turn import Evidence, Turn

_CHUNKS_WHEN_SHORT = 24


class EvidenceStage(Stage):
    """Turns attributes into sentences and pages into chunks (QA-Dragon, section 3.6.1).

    Of a full text it keeps the chunks around the passage that search returned (``evidence/chunks.py``).
    """

    class Options(ChunkOptions, StageOptions):
        k_entities: int = Field(1, ge=1, description="entities whose attributes become evidence")
        min_score: Cosine = Field(
            -1.0,
            description="minimum cosine of a picture whose entities become evidence; the best picture always counts",
        )
        breadcrumbs: bool = Field(False, description="add the parts of a page's URL to its title")
        names: bool = Field(
            False, description="a passage says that the photo shows an entity, if it is surely recognised"
        )
        name_replaces_photo: bool = Field(
            False,
            description="the prompts have no photo if a passage says what it shows, unless text is read in it: a recogniser's words, which "
            "stand in for the photo where no model sees it, contradict the name",
        )
        k: int = Field(120, ge=1, description="chunks kept for a turn before reranking")

    options: Options
    fills = ("evidence",)
    gathers = True
    doing = "reading the results"
    when_short = f"{_CHUNKS_WHEN_SHORT} chunks"
    min_seconds, wanted_seconds = 0.2, 0.4

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``evidence``, best retrieval score first. If the question is about several objects, they alternate."""
        options = self.options
        cut = make_cutter(options)
        limit = min(options.k, _CHUNKS_WHEN_SHORT) if context.short else options.k
        for turn in turns:
            named = list_entities(turn, options.k_entities * context.widen, options.min_score)
            identity = {chunk.title: chunk.text for chunk in self._identify(turn)}
            attribute_chunks = [
                chunk
                for entity, hit in named
                for chunk in chunk_attributes(entity, hit, options, cut, identity.get(entity.name, ""))
            ]
            page_chunks = [chunk for hit in turn.web_hits for chunk in self._chunk_page(hit, cut)]
            identities = self._identify(turn) if options.attribute_chunks != "passage" else ()
            if options.attribute_chunks == "passage":  # the same thing may have been found by its text too
                page_chunks = [
                    page for page in page_chunks if not any(page.text in chunk.text for chunk in attribute_chunks)
                ]
            ordered = deduplicate([*identities, *attribute_chunks, *page_chunks])
            if options.chunking == "structure" and len(ordered) > limit:
                ordered = _sort_by_words(ordered, turn.evidence_questions)
            turn.evidence = tuple(interleave_by_entity(turn, ordered)[:limit])
            is_named = bool(identity)
            has_text = turn.look is not None and bool(turn.look.queries)
            turn.is_named = options.name_replaces_photo and is_named and not has_text
            turn.note(chunks=len(ordered), kept=len(turn.evidence))

    def _identify(self, turn: Turn) -> Iterator[Evidence]:
        """Yield what the photo shows, of each entity that is surely recognised: all that the picture is known to show.

        Ranked attributes have it in their passage; otherwise it is its own chunk, kept if it ranks first (``two_stage_rerank``).
        """
        joined = self.options.attribute_chunks == "ranked"
        for entity, hit in list_entities(turn, 1) if self.options.names else ():
            if entity in turn.sure_entities:
                names = ", ".join(dict.fromkeys((entity.name, *(other.name for other in hit.entities))))
                text = without_special_tokens(write_identity(names))
                yield Evidence(
                    text, "kg", entity.name, hit.url, hit.score, key=PICTURE_KEY, value=text if joined else None
                )

    def _chunk_page(self, hit: WebHit, cut: Cut) -> Iterator[Evidence]:
        crumbs = format_breadcrumb(hit.page_url) if self.options.breadcrumbs else ""
        title = ": ".join(filter(None, (crumbs, hit.page_name)))
        if self.options.chunking == "structure":
            return chunk_structure(hit, self.options.chunk_characters, title)
        return chunk_page(hit, cut, title, sections=self.options.chunking != "whole")


def _sort_by_words(chunks: Sequence[Evidence], questions: Sequence[str]) -> list[Evidence]:
    """Sort what is beside the chunks that were found by the words that it shares with the questions.

    A page of two hundred chunks is too much for the rerankers, and encoders know no invented names, which its headings may have.
    """
    found = [chunk for chunk in chunks if not chunk.beside]
    beside = [chunk for chunk in chunks if chunk.beside]
    scores = score_words([format_passage(chunk) for chunk in beside], questions)
    return [*found, *(chunk for chunk, _ in sorted(zip(beside, scores, strict=True), key=lambda scored: -scored[1]))]
