from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from agents.asking.ask import Ask, Question
from agents.asking.readers.fields import queries_form
from agents.english.bridging import write_hop_questions
from agents.stage import Context, Cosine, Stage, StageOptions
from agents.turn import Turn

_QUERIES_WHEN_SHORT = 1
_MAX_NAMES = 4  # that task 2's winner puts into a query


class Queries(Stage):
    """Writes the queries for the web: the question with the name of the entity (QA-Dragon, sections 3.5.1 and 3.5.2).

    The model splits it, or the rules of ``agents/english/bridging.py`` do. Queries of a first look come next; if that look named
    nothing, one more query says what the photo shows.
    """

    class Options(StageOptions):
        fuse_entity: bool = Field(True, description="put the name of the entity into the query (section 3.5.2)")
        min_score: Cosine = Field(
            -1.0, description="cosine of its picture from which an entity is sure enough to be named in a query"
        )
        fuse_summary: bool = Field(False, description="put the summary of the picture into the query (CRUISE, eq. 2)")
        split: Literal["none", "rules", "model"] = Field(
            "none", description="who splits a question into its steps (section 3.5.1)"
        )
        prompt: str = Field("query_splitting", description="template in prompts/ for the model that splits")
        enhance: bool = Field(
            False, description="the model's queries are made clear and complete in a second call (section 3.5.1)"
        )
        keep_question: bool = Field(True, description="the question is a query too, beside those of the model")
        k: int = Field(4, ge=1, description="queries of a turn")
        names: Cosine | None = Field(
            None,
            description="minimum cosine at which an entity's name is given to the model that writes queries; one more query joins all "
            "such names with the question (task 2's winner); None: neither",
        )

    options: Options
    fills = ("queries", "hops")
    doing = "writing search queries"
    when_short = f"{_QUERIES_WHEN_SHORT} query, unsplit"

    def list_asks(self) -> tuple[Ask[list[str]], ...]:
        """Return the prompts that split the question and revise the queries, if a model does so."""
        if self.options.split != "model":
            return ()
        options = self.options
        ask = Ask(options.prompt, queries_form(options.k))
        return (ask, Ask("query_enhancement", queries_form(options.k))) if options.enhance else (ask,)

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``queries``: the main query first, each once; and ``hops`` where rules split."""
        options = self.options
        split = "none" if context.short else options.split
        limit = _QUERIES_WHEN_SHORT if context.short else options.k
        concerned = [turn for turn in turns if turn.tools.text]
        for turn in concerned:
            main = turn.search_text(
                entity=options.fuse_entity, summary=options.fuse_summary, minimum=self._surest(turn)
            )
            if split == "rules" and turn.needs_image:
                entities = turn.shown_entities(options.min_score) or (None,)
                turn.hops = tuple(hop for entity in entities for hop in write_hop_questions(turn.question, entity))
            turn.queries = _unique([main, *self._list_look_queries(turn), *turn.hops, *_list_bare(turn)], limit)
        if split == "model":
            self._ask(concerned, context)
        for turn in concerned if options.names is not None and not context.short else ():
            names = ", ".join(self._list_recognised_names(turn))
            turn.queries = _unique([*turn.queries, names and f"{names} : {turn.question}"], options.k + 1)
        for turn in concerned:
            turn.record(queries=turn.queries)
            turn.note(hops=list(turn.hops))

    def _ask(self, turns: Sequence[Turn], context: Context) -> None:
        options = self.options

        def values(turn: Turn) -> dict[str, Any]:
            sure = options.fuse_entity and turn.entity_score >= options.min_score
            return {
                **turn.values,
                "reasoning": turn.draft.reasoning if turn.draft else "",
                "entity": turn.entity_name if sure else None,
                "names": self._list_recognised_names(turn),
                "limit": options.k,
            }

        query_lists = self._write_queries(turns, values, context)
        for turn, own in zip(turns, query_lists, strict=True):
            turn.queries = _unique(
                [*turn.queries, *own] if options.keep_question else own or turn.queries,
                options.k,
            )

    def _surest(self, turn: Turn) -> float:
        """Return the lowest cosine at which an entity is named: ``min_score``, or any if there is no other name to search with."""
        guessed = turn.look is not None and turn.look.name is not None
        return self.options.min_score if guessed or turn.shown_entities(self.options.min_score) else -1.0

    def _list_look_queries(self, turn: Turn) -> tuple[str, ...]:
        """Return the queries of a first look.

        If nothing in the photo has a name, the question with what the photo shows is added (CRUISE, eq. 2).
        """
        look = turn.look
        if look is None:
            return ()
        nameless = look.name is None and not turn.shown_entities(self.options.min_score)
        described = turn.search_text(entity=False, summary=True)
        return (*look.queries, described) if nameless and turn.is_about_photo else look.queries

    def _write_queries(
        self, turns: Sequence[Turn], values: Callable[[Turn], Mapping[str, Any]], context: Context
    ) -> list[list[str]]:
        """Return the queries that the model writes for each turn, revised in a second call if the preset says so."""
        ask, *revising = self.list_asks()
        query_lists = [answer.value for answer in context.put([Question(ask, values(turn), (turn,)) for turn in turns])]
        for second in revising:
            turn_queries = [(turn, own) for turn, own in zip(turns, query_lists, strict=True) if own]
            questions = [Question(second, {**values(turn), "queries": own}, (turn,)) for turn, own in turn_queries]
            revised = iter(context.put(questions))
            query_lists = [(next(revised).value or own) if own else own for own in query_lists]
        return query_lists

    def _list_recognised_names(self, turn: Turn) -> tuple[str, ...]:
        """Return the distinct names of the pictures with a cosine of at least ``names``, one a picture, best first."""
        minimum = self.options.names
        hits = [hit for hit in turn.image_hits if minimum is not None and hit.score >= minimum]
        return tuple(dict.fromkeys(hit.entities[0].name for hit in hits if hit.entities))[:_MAX_NAMES]


def _list_bare(turn: Turn) -> tuple[str, ...]:
    """Return the question without any name, which a wrong name cannot lead astray, if a vision model looked at its photo."""
    return (turn.question,) if turn.look is not None and turn.look.by_model else ()


def _unique(queries: Sequence[str], limit: int) -> tuple[str, ...]:
    by_words: dict[str, str] = {}
    for query in queries:
        if query.strip():
            by_words.setdefault(" ".join(query.lower().split()).rstrip("?"), query)
    return tuple(by_words.values())[:limit]
