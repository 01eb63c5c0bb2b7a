"""Answer shown: how many accepted answers are in what the answer's prompt shows. No chat model is asked; it takes minutes on two cores.

    python -m lab.benchmarks.answer_shown examples/museum                           # a folder with questions.csv, indexed by `crag index`
    python -m lab.benchmarks.answer_shown museum --looks results/museum/1           # with the looks of an earlier run
    python -m lab.benchmarks.answer_shown validation                                # a split of the mini set, with the recorded looks
    python -m lab.benchmarks.answer_shown examples/museum --set evidence.chunk_characters=1200 --json after.json --against before.json

It runs the preset up to its answer over the real search, detector and rerankers of the profile. The first look comes from --looks, else
from lab/strong_model/looks.jsonl (validation, examples/museum, lab/strong_model/library). A turn without one is searched for by its
question and the whole photo, and the tables count such turns. Earlier answers of a dialog are the accepted ones. The model's second
searches are not made: the figure is that of the first prompt, so that a preset whose model chooses its searches has none here.

To steer retrieval, chunks and evidence by it: save a run with --json, change the code or a --set, index again if the change is in what is
indexed (`crag index COLLECTION`), and compare with --against, which lists the questions that were gained and lost. --show lists every lost
question with the sources that have its answer. A yes or a no is in no text, and is left out; an answer that has to be calculated is mostly
not indexed. Of the mini set answers that only the photo has (source image) have a row of their own. Tune on validation, or on collections
that nobody else is measured by.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import Field
from rich.console import Console
from rich.progress import track

from agents.base.cache_folder import DEFAULT_CACHE, CacheOption
from agents.base.command_options import Flag, Options
from agents.crag_agent import CragAgent
from agents.profiles.model_set import ModelSet
from agents.record import TurnRecord, read_record
from agents.settings.run_config import RunConfig
from evaluation.commands import make_console
from evaluation.files.manifest import read_json, write_json
from evaluation.records import EvaluationError
from evaluation.scores.answer_shown import ShownAnswer, find_shown_answer, summarise_shown
from evaluation.scores.losses import Source
from evaluation.studies.collection_runs import load_questions
from evaluation.studies.result_tables import ResultTable, shorten
from lab.benchmarks.common import run
from lab.strong_model.looks import LOOKS, GivenLook, Look, make_look, read_looks
from mini_crag_mm.content_models import Split
from mini_crag_mm.loader import AskedTurn, PreparedSet, read_kg, read_pages

_PATIENCE = ("limits.seconds_per_turn=36000", "limits.seconds_per_dialog=360000", "trace.requests=true")
"""Nothing is cut short by the clock of a busy machine, and the record has each prompt."""

_ALL = "all"
_IN_PHOTO = "image"  # source of an answer of the mini set that no index has
_MAX_CHARACTERS = 90


@dataclass(frozen=True)
class MeasuredTurn:
    """A question, its accepted answers, how far they came, and what kind of source the set names for it."""

    interaction_id: str
    question: str
    answers: tuple[str, ...]
    shown: ShownAnswer
    source: str | None
    has_look: bool


class AnswerShownOptions(Options):
    """Options of the measurement."""

    where: Annotated[str, Flag(positional=True, metavar="COLLECTION_OR_SPLIT")] = Field(
        description="folder of a collection with questions, or a split of the mini set"
    )
    preset: str = Field("best", description="preset whose search and evidence are measured")
    profile: str = Field("server_embedded", description="profile of the search and the small models")
    set: Annotated[tuple[str, ...], Flag(metavar="STAGE.OPTION=VALUE", repeated=True)] = Field(
        (), description="setting to change; may be repeated"
    )
    looks: Annotated[Path | None, Flag(metavar="PATH")] = Field(
        None,
        description='run folder, or JSON lines {"question": ..., "look": {...}} (or interaction_id in place of question)',
    )
    no_looks: bool = Field(False, description="search for every question by itself and the whole photo")
    limit: int | None = Field(None, ge=1, description="ask only the first so many questions")
    show: bool = Field(False, description="list the questions whose answer was lost")
    json_file: Annotated[Path | None, Flag(names=("--json",), metavar="FILE")] = Field(
        None, description="write the result of each turn to this file"
    )
    against: Annotated[Path | None, Flag(metavar="FILE")] = Field(
        None, description="file of an earlier --json: list the questions that were gained and lost since"
    )
    cache: CacheOption = Field(DEFAULT_CACHE, description="folder with indices and models")

    @property
    def split(self) -> Split:
        """The split of the mini set."""
        return "validation" if self.where == "validation" else "public_test"


def measure(options: AnswerShownOptions) -> int:
    """Measure and print the tables.

    Raises:
        EvaluationError: Questions, looks or the earlier file cannot be read.
    """
    console = make_console()
    before = None if options.against is None else read_json(options.against)
    collection = None if options.where in get_args(Split) else Path(options.where)
    config = RunConfig.read(
        options.preset, options.profile, overrides=[*_PATIENCE, *options.set], cache=options.cache, knowledge=collection
    )
    looks = {} if options.no_looks else read_looks(options.looks or LOOKS)
    turns = list(_measure_turns(options, config, collection, looks))
    tables = build_tables(turns, options.where, config.settings.limits.evidence_tokens)
    content = build_content(turns, options)
    tables += [build_lost_table(turns)] if options.show else []
    tables += [build_changes(before, content)] if before is not None else []
    for table in tables:
        table.show(console)
    if options.json_file is not None:
        write_json(options.json_file, content)
    return 0


def _measure_turns(
    options: AnswerShownOptions, config: RunConfig, collection: Path | None, looks: Mapping[str, Look]
) -> Iterator[MeasuredTurn]:
    """Ask the turns one by one, so that the model knows whose look it gives."""
    split = config.collection.split if config.collection is not None else options.where
    asked = [*(_list_own_turns(collection) if collection is not None else _list_turns(options, looks))][: options.limit]
    model, records = GivenLook(), list[TurnRecord]()
    models = config.models()
    ready = dict.fromkeys((role for role in models.specifications if role.endswith("chat")), model)
    agent = CragAgent.from_config(
        config, config.pipeline(**config.plan_search(split)), models=ModelSet(config.profile, config.cache, ready=ready)
    )
    agent.trace_to(None, lambda lines: records.extend(map(read_record, lines)))
    indexed = _list_indexed(config, split)
    for each in track(asked, f"{options.where}: {options.preset}", console=Console(stderr=True)):
        look = looks.get(each.turn.interaction_id) or looks.get(each.turn.query)
        model.look = look or make_look(each.turn.query)
        agent.batch_generate_response([each.turn.query], [each.image], [each.history])
        if records[-1].error:
            raise EvaluationError(f"{each.turn.query!r} failed: {records[-1].error}")
        found = find_shown_answer(records[-1], each.accept, indexed)
        if found is not None and each.facts.get("answerable") is not False:
            yield MeasuredTurn(
                each.turn.interaction_id,
                each.turn.query,
                each.accept,
                found,
                each.facts.get("source"),
                look is not None,
            )


def _list_turns(options: AnswerShownOptions, looks: Mapping[str, Look]) -> Iterator[AskedTurn]:
    """Yield the turns of a split; those with a look, if looks are used."""
    for each in PreparedSet(options.split, options.cache).turns():
        if options.no_looks or each.turn.interaction_id in looks or each.turn.query in looks:
            yield each


def _list_own_turns(collection: Path) -> Iterator[AskedTurn]:
    """Yield the questions of a collection, after earlier ones with their first accepted answer."""
    data = load_questions(collection)
    for session in data.sessions:
        history: tuple[dict[str, str], ...] = ()
        for turn in session.turns:
            accept = data.accept.get(turn.interaction_id, ())
            yield AskedTurn(session, turn, data.image(session).image, history, accept, {})
            said = next(iter(accept), turn.ground_truth)
            history += ({"role": "user", "content": turn.query}, {"role": "assistant", "content": said})


def _list_indexed(config: RunConfig, split: str) -> list[Source] | None:
    """List the indexed sources of a collection, or of a split of the mini set with whole pages."""
    if config.collection is not None:
        return config.read_indexed()
    pages = [page for page in read_pages() if page["split"] in (None, split)]
    sources = [(page["page_url"], f"{page['page_name']} {page['page_snippet']}") for page in pages]
    for image in read_kg("validation" if split == "validation" else "public_test"):
        for entity in image["entities"]:
            name, attributes = entity["entity_name"], entity["entity_attributes"] or {}
            sources += [(name, name), *((f"{name} ({key})", str(value)) for key, value in attributes.items())]
    return sources


def build_tables(turns: Sequence[MeasuredTurn], title: str, budget: int | None) -> list[ResultTable]:
    """Build the table of the figure, by the source of the answer where the set names it."""
    counted = [turn for turn in turns if turn.source != _IN_PHOTO]
    groups = {_ALL: counted}
    for source in sorted({turn.source for turn in turns if turn.source}):
        groups[f"answer from {source}"] = [turn for turn in turns if turn.source == source]
    rows = []
    for name, group in groups.items():
        summary = summarise_shown(turn.shown for turn in group)
        if summary is not None:
            lost = ", ".join(f"{loss.value} {count}" for loss, count in summary.losses.items())
            share = f"{100 * summary.share:.0f}"
            rows.append((name, str(summary.total), str(summary.shown), share, f"{summary.tokens:.0f}", lost))
    without = sum(not turn.has_look for turn in turns)
    notes = [f"budget: limits.evidence_tokens = {budget}"] if budget is not None else []
    if without:
        notes.append(f"{without} of {len(turns)} turns have no look: searched for by the question and the whole photo")
    headings = ("questions", "answerable", "answer shown", "%", "tokens shown", "lost")
    return [ResultTable(f"{title}: answer shown", headings, rows, notes)]


def build_lost_table(turns: Sequence[MeasuredTurn]) -> ResultTable:
    """Build the table of the questions whose answer was lost, with the sources that have it."""
    rows = [
        (
            turn.shown.loss.value,
            shorten(turn.question, _MAX_CHARACTERS),
            shorten(" | ".join(turn.answers), _MAX_CHARACTERS),
            shorten(", ".join(turn.shown.sources[:2]), _MAX_CHARACTERS),
        )
        for turn in turns
        if turn.shown.loss is not None and turn.source != _IN_PHOTO
    ]
    return ResultTable("Lost", ("where", "question", "accepted answers", "sources"), sorted(rows), words=True)


def build_content(turns: Sequence[MeasuredTurn], options: AnswerShownOptions) -> dict[str, Any]:
    """Return the content of the file of --json."""
    return {
        "where": options.where,
        "preset": options.preset,
        "profile": options.profile,
        "set": list(options.set),
        "turns": {
            turn.interaction_id: {
                "question": turn.question,
                "lost": None if turn.shown.loss is None else turn.shown.loss.value,
                "tokens": turn.shown.tokens,
            }
            for turn in turns
        },
    }


def build_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> ResultTable:
    """Build the table of the questions that were gained and lost between two files of --json."""
    earlier, later = before["turns"], after["turns"]
    rows = []
    for key in earlier.keys() & later.keys():
        was, now = earlier[key]["lost"], later[key]["lost"]
        if (was is None) != (now is None):
            change = "gained" if now is None else "lost"
            rows.append((change, was or "shown", now or "shown", shorten(later[key]["question"], _MAX_CHARACTERS)))
    return ResultTable("Changes", ("change", "before", "now", "question"), sorted(rows), words=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables.

    Returns:
        0, or 2 if questions, looks or indices cannot be read.
    """
    return run(measure, AnswerShownOptions, arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
