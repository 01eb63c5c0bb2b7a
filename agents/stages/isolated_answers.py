from collections import Counter
from collections.abc import Sequence

from agents.asking.ask import Ask, Question
from agents.asking.readers.answers import ANSWER
from agents.methods.candidates import select_answered
from agents.methods.source_votes import GRAPH_VOTES, Vote, count_votes, is_supported_by
from agents.record import SignalKind
from agents.stage import Context, Stage
from agents.turn import Candidate, Evidence, Turn

ALONE = Ask("answer_with_evidence", ANSWER)
LEAD = SignalKind(
    "isolated_answers.lead", "votes by which the answer leads every other that sources give, each asked alone"
)


class IsolatedAnswers(Stage):
    """Answers from each source alone and counts votes for and against the candidate (RobustRAG, arXiv 2405.15556); one batched call.

    Sources are the knowledge graph, each page and the text of the photo. A source votes if its own text holds its answer. Earlier turns
    are not shown, because an order in them must not vote. Turns with a single source are skipped, and so are questions answered in
    steps, which no source answers alone. ``finalise.min_lead`` says how far ahead the candidate has to be.
    """

    fills = ("votes",)
    doing = "asking each source alone"
    asks = (ALONE,)
    signals = (LEAD,)
    min_seconds, wanted_seconds = 1.0, 2.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``votes``."""
        questions: list[tuple[Turn, str, Question[Candidate | None]]] = []
        votes: dict[int, list[Vote]] = {}  # by the identity of a turn
        for turn, candidate in select_answered(turns):
            sources = group_by_source(turn.shown)
            if len(sources) < 2 or candidate.stepwise:
                continue
            votes[id(turn)] = []
            titles = Counter(chunks[0].title for chunks in sources.values() if chunks[0].source == "web")
            for source, chunks in sources.items():
                values = {**turn.values, "evidence": chunks, "history": ()}
                title = chunks[0].title
                is_named = title and chunks[0].source == "web" and titles[title] == 1 and title not in sources
                name = title if is_named else source
                questions.append((turn, name, Question(ALONE, values, (turn,))))
        for (turn, name, question), answer in zip(
            questions, context.put([each for *_, each in questions]), strict=True
        ):
            if answer.failed:
                turn.error = turn.error or f"isolated_answers: {answer.error}"
            elif answer.value is not None:
                turn.record(answers={f"alone: {name}": answer.value.text})
                chunks = question.values["evidence"]
                texts = (f"{chunk.title} {chunk.text}" for chunk in chunks)
                if is_supported_by(answer.value.text, turn.question, texts):
                    votes[id(turn)].append(Vote(answer.value.text, GRAPH_VOTES if chunks[0].source == "kg" else 1))
        for turn, candidate in select_answered(turns):
            if id(turn) in votes:
                turn.votes = count_votes(candidate.text, turn.question, votes[id(turn)])
                turn.record(
                    checks={"votes for it": turn.votes.supporting, "votes for another": turn.votes.opposing},
                    signals=LEAD.entry(turn.votes.lead),
                )


def group_by_source(chunks: Sequence[Evidence]) -> dict[str, list[Evidence]]:
    """Group chunks by who wrote them: the knowledge graph, each page by its URL, the text of the photo."""
    groups: dict[str, list[Evidence]] = {}
    for chunk in chunks:
        name = (chunk.url or chunk.title) if chunk.source == "web" else chunk.source
        groups.setdefault(name, []).append(chunk)
    return groups
