"""Runs over the questions of a collection: their options, their folders, and their turns with what is known of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from agents.base.command_options import Flag
from agents.settings.shared_options import JsonOptions
from evaluation.data.own_dataset import OwnQuestions, load_own_questions
from evaluation.data.question_files import require_questions
from evaluation.files.outputs import read_turn_table
from evaluation.files.traces import TRACE, read_traces
from evaluation.records import has_question, index_questions
from evaluation.run.options import AgentOptions, RunJudgeOptions, RunOptions
from evaluation.studies.lost_turns import JudgedQuestion

RESULTS = Path("results")


class CollectionRunOptions(AgentOptions, RunJudgeOptions, JsonOptions):
    """A collection, the agent that answers its questions, and who judges."""

    group = "agent"

    collection: Annotated[Path, Flag(positional=True)] = Field(
        description="folder of your own photos, pages and questions (docs/own_knowledge.md)"
    )
    preset: str = Field(
        "best", description="preset of the agent: a file in presets/ by its name, or a .toml file by its path"
    )
    without: Annotated[tuple[str, ...], Flag(metavar="STAGE", repeated=True)] = Field(
        (), description="leave a stage of the preset out; may be repeated"
    )
    eval_model: Annotated[str | None, Flag(metavar="MODEL")] = Field(
        None, description="judge, as in local_evaluation.py; not given: the rule judge, with the accepted answers"
    )
    resume: bool = Field(False, description="continue the run in --output-dir; errors are asked again")
    no_progress: bool = Field(False, description="no progress bars")

    @property
    def judge_name(self) -> str:
        """Name of the judge."""
        return self.eval_model or "rule"

    def make_run_options(self, output_dir: Path, settings: Sequence[str] = (), **more: Any) -> RunOptions:
        """Return the options of the evaluation for a run over the questions, with further settings of the preset."""
        shared = {name: getattr(self, name) for name in RunOptions.model_fields.keys() & type(self).model_fields}
        own = {
            "knowledge": self.collection,
            "output_dir": output_dir,
            "set": (*self.set, *settings),
            "eval_model": self.judge_name,
            # What is asked again after a change of the collection or of its gate is mostly the same.
            "reply_cache": self.reply_cache or Path(),
        }
        return RunOptions.model_validate({**shared, **own, **more})


def choose_folder(collection: Path) -> Path:
    """Return a new folder for a run: results/NAME/1, and so on."""
    place = RESULTS / collection.resolve().name
    numbers = [int(path.name) for path in place.glob("*") if path.name.isdecimal()]
    return place / str(max(numbers, default=0) + 1)


def load_questions(collection: Path) -> OwnQuestions:
    """Load the questions of a collection.

    Raises:
        EvaluationError: It holds none, or they are malformed.
    """
    return load_own_questions(require_questions(collection))


def read_judged_questions(run: Path, questions: OwnQuestions, collection: Path) -> list[JudgedQuestion]:
    """Read the judged turns of a run with their records, accepted answers and photos.

    A turn whose question or answers were edited since is left out, for nothing here says what it was judged by.

    Raises:
        EvaluationError: The folder holds no judged run.
    """
    records, current = read_traces(run / TRACE), index_questions(questions.sessions)
    return [
        JudgedQuestion(
            judged,
            records.get(judged.turn.key),
            questions.accept.get(judged.turn.interaction_id, ()),
            ""
            if (photo := questions.photos.get(judged.turn.session_id)) is None
            else os.path.relpath(photo, collection),
        )
        for judged in read_turn_table(run)
        if has_question(judged.turn, current.get(judged.turn.key))
    ]
