"""How many replies to each prompt keep its format, so that the stage that asked can read them.

    python -m benchmarks.readable_replies --presets best,cruise --num-conversations 20

The first single-turn questions go through each preset with the real models of the profile; every reply is read by the parser
of the stage that asked for it. A prompt whose replies cannot be read is a fault of the prompt or of its parser; so is an example in a
prompt whose words come back as the answer: exit status 1 where fewer than ``--least`` percent can be read and are the model's own.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from agents.asking.prompts import Prompt
from agents.crag_agent import CragAgent
from agents.models.base import ChatReply, ChatRequest
from agents.runtime.deadline import Deadline
from agents.settings.profiles import PROMPTS
from agents.settings.run_config import RunConfig, preset_names
from agents.stage import Context
from agents.texts.refusals import refuses
from benchmarks.common import parser_of, run, table_of
from evaluation.commands import output
from mini_crag_mm.loader import PreparedSet, write_lines

_SHORT = 4  # characters of a word that any reply may share with its prompt

Reader = Callable[[ChatReply], Any]
"""What is taken from a reply, as JSON; None where it cannot be read."""

MAX_SHORT_WORDS = 12
"""Words of an answer that was asked for "in at most five words"; articles and units may come beside them."""

_NO_LIMIT = ("limits.seconds_per_turn=3600", "limits.seconds_per_dialog=36000")  # no reply is to be cut by the clock

MAX_QUESTION_WORDS = 60
"""Words of a question that stands alone; a longer reply has explained itself."""


def readers() -> dict[str, Reader]:
    """What the stage of each prompt takes from a reply, by the stage's own parser; a refusal is "I don't know"."""
    from agents.methods.candidates import candidate_of
    from agents.methods.citations import parse_cited
    from agents.methods.entry_replies import entry_letter, parse_four_steps
    from agents.methods.token_probabilities import said_yes
    from agents.methods.verification_chain import parse_chain
    from agents.stages.draft import parse_draft
    from agents.stages.knowledge import extracted
    from agents.stages.route import parse_flags
    from agents.stages.verify import verdict
    from agents.texts.replies import json_object, listed, strings, was_cut, yes_or_no
    from agents.turn import IDK

    def answer(reply: ChatReply) -> str | None:
        said = candidate_of(reply)
        if said is None:
            return None
        return IDK if refuses(said.text) else said.text

    def brief(reply: ChatReply) -> str | None:
        said = answer(reply)
        return said if said is not None and len(said.split()) <= MAX_SHORT_WORDS else None

    def line(reply: ChatReply) -> str | None:
        said = reply.text.strip()
        return said if said and "\n" not in said and len(said.split()) <= MAX_QUESTION_WORDS else None

    def cited(reply: ChatReply) -> Any:
        if refuses(reply.text):
            return IDK
        sentences = [[sentence.text, list(sentence.citations)] for sentence in parse_cited(reply.text)]
        return sentences if any(numbers for _, numbers in sentences) else None

    def chain(reply: ChatReply) -> Any:
        said = parse_chain(reply.text)
        findings = [[each.question, each.supported] for each in said.findings]
        return None if said.confidence is None else {"confidence": said.confidence, "findings": findings}

    def field(key: str, kind: type) -> Reader:
        return lambda reply: value if type(value := (json_object(reply.text) or {}).get(key)) is kind else None

    def texts(key: str) -> Reader:
        return lambda reply: strings((json_object(reply.text) or {}).get(key), 10) or None

    def draft(reply: ChatReply) -> Any:
        said = parse_draft(reply, 5)
        if not said.steps and refuses(said.answer):
            return IDK
        whole = said.steps and said.answer
        return {"steps": len(said.steps), "object": said.object_name, "answer": said.answer} if whole else None

    def steps(reply: ChatReply) -> Any:
        said = parse_four_steps(reply.text, 5)
        return None if said.final is None else [said.parametric, said.entry, said.external, said.final]

    def facts(reply: ChatReply) -> str | None:
        said = extracted(reply)
        return "none" if said is None and reply.text.strip().lower().startswith("none") else said

    def flags(reply: ChatReply) -> Any:
        said = parse_flags(reply.text)
        return None if None in said else list(said)

    def tools(reply: ChatReply) -> Any:
        found = json_object(reply.text) or {}
        said = [found.get(key) for key in ("need_image_search", "need_text_search")]
        return said if all(isinstance(value, bool) for value in said) else None

    return {
        "answer_with_evidence": answer,
        "answer_without_evidence": answer,
        "answer_reasoned": answer,
        "answer_verdict": lambda reply: verdict(reply)[0],
        "answer_verifier": lambda reply: verdict(reply)[0],
        "chain_of_verification": chain,
        "cited_answer": cited,
        "cited_answer_reasoned": cited,
        "consistency_judge": lambda reply: yes_or_no(reply.text),
        "context_relevance": said_yes,
        "draft": draft,
        "entity_selection": field("entity", int),
        "entry_answer": brief,
        "entry_choice": lambda reply: entry_letter(reply.text, 5),
        "four_steps": steps,
        "image_summary": line,
        "knowledge_extraction": facts,
        "object_choice": field("object", str),
        "object_list": texts("object_list"),
        "parametric_answer": brief,
        "query_flags": flags,
        "query_splitting": texts("queries"),
        "reconcile": brief,
        "search_queries": texts("queries"),
        "short_queries": lambda reply: listed(reply.text, 8, cut=was_cut(reply)) or None,
        "standalone_question": line,
        "tool_router": tools,
    }


@dataclass
class Count:
    """The replies to one prompt under one preset."""

    preset: str
    prompt: str
    replies: int = 0
    readable: int = 0
    copied: int = 0  # readable ones that say what the prompt itself says
    cut: int = 0
    examples: list[str] = field(default_factory=list)
    replies_read: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """Part of the replies that can be read, 0 to 1."""
        return self.readable / self.replies if self.replies else 1.0

    @property
    def own(self) -> float:
        """Part of the replies that can be read and say nothing that stands in the prompt's template, 0 to 1."""
        return (self.readable - self.copied) / self.replies if self.replies else 1.0


def copied(read: Any, template: str) -> bool:
    """Whether something that was read from a reply stands in the template of its prompt, such as the answer of an example."""
    if isinstance(read, list | dict):
        return any(copied(each, template) for each in (read.values() if isinstance(read, dict) else read))
    if not isinstance(read, str) or len(read) <= _SHORT or refuses(read):
        return False
    return re.search(rf"\b{re.escape(read.lower())}\b", template.lower()) is not None


@dataclass(frozen=True, kw_only=True)
class ReadContext(Context):
    """A context that hands each reply on, with the name of the prompt that was asked."""

    read: Callable[[str, ChatReply], None]

    def ask(self, prompt: Prompt, requests: Sequence[ChatRequest], deadline: Deadline | None = None) -> list[ChatReply]:
        """As the stages' own."""
        replies = super().ask(prompt, requests, deadline)
        for reply in replies:
            self.read(prompt.name, reply)
        return replies


def count(preset: str, options: argparse.Namespace, console: Console) -> list[Count]:
    """Ask the first single-turn questions and read every reply; raises one of ``common.FAILURES`` where something is missing."""
    mini = PreparedSet(options.split, options.cache)
    pipeline = mini.search(options.profile)
    from agents.asking.reply_cache import ReplyStore

    replies = ReplyStore(options.reply_cache) if options.reply_cache is not None else None
    config = RunConfig.read(preset, options.profile, overrides=_NO_LIMIT, cache=options.cache)
    agent = CragAgent.from_config(config, pipeline, replies=replies)
    counts: dict[str, Count] = {}
    read_by = readers()

    def read(name: str, reply: ChatReply) -> None:
        if reply.finish_reason in ("abort", "error"):
            return
        seen = counts.setdefault(name, Count(preset, name))
        seen.replies += 1
        seen.cut += reply.finish_reason == "length"
        value = read_by[name](reply)
        finish = reply.finish_reason
        seen.replies_read[reply.text] = {"prompt": name, "reply": reply.text, "finish": finish, "read": value}
        if value is not None:
            seen.readable += 1
            seen.copied += copied(value, (PROMPTS / f"{name}.j2").read_text(encoding="utf-8"))
        elif len(seen.examples) < options.examples:
            seen.examples.append(reply.text)

    agent.pipeline.context = ReadContext(**vars(agent.pipeline.context), read=read)
    asked = list(mini.turns(options.num_conversations, kinds=["single-turn"]))
    for start in range(0, len(asked), agent.get_batch_size()):
        batch = asked[start : start + agent.get_batch_size()]
        agent.batch_generate_response([each.turn.query for each in batch], [each.image for each in batch])
    console.print(f"{preset}: {sum(each.replies for each in counts.values())} replies read", highlight=False)
    return [counts[name] for name in sorted(counts)]


def _measure(options: argparse.Namespace) -> int:
    console = output()
    presets = options.presets.split(",") if options.presets != "all" else preset_names()
    found = [each for preset in presets for each in count(preset, options, console)]
    title = f"Replies that can be read, {options.num_conversations} {options.split} questions, {options.profile}"
    headings = ("preset", "prompt", "replies", "readable", "copied from the prompt", "cut by the limit")
    rows = [
        (one.preset, one.prompt, str(one.replies), f"{100 * one.share:.0f}%", str(one.copied), str(one.cut))
        for one in found
    ]
    console.print(table_of(title, headings, rows, left=2))
    for each in found:
        for text in each.examples:
            console.print(f"{each.preset}, {each.prompt}, not readable: {text!r}", markup=False, soft_wrap=True)
    if options.out is not None:
        counts = [{name: value for name, value in asdict(each).items() if name != "replies_read"} for each in found]
        options.out.write_text(json.dumps(counts, indent=2, ensure_ascii=False) + "\n")
    if options.replies is not None:
        lines = {line["prompt"] + text: line for each in found for text, line in each.replies_read.items()}
        write_lines(options.replies, lines.values())
    return int(any(100 * each.own < options.minimum for each in found))


def main(arguments: Sequence[str] | None = None) -> int:
    """Count, print, write. Returns the exit status: 0, 1 where too few replies can be read, 2 for what cannot be done."""
    parser = parser_of("readable_replies", __doc__, profile=True)
    # fmt: off
    add = parser.add_argument
    add("--presets", default="all", metavar="A,B", help="presets to run (default: all)")
    add("--num-conversations", type=int, default=20, metavar="N", help="questions (default: 20)")
    add("--least", type=float, default=95.0, metavar="PERCENT",
        help="share that has to be readable and not copied from the prompt (default: 95)")
    add("--examples", type=int, default=3, metavar="N", help="unreadable replies shown of each prompt (default: 3)")
    add("--reply-cache", type=Path, metavar="DIR", help="keep replies in this folder and take them from it")
    add("--replies", type=Path, metavar="FILE",
        help="also write each different reply with what was read (JSON lines): candidates for tests/agent/real_replies.jsonl")
    add("--out", type=Path, metavar="FILE", help="also write the counts and examples as JSON")
    # fmt: on
    return run(_measure, parser, arguments)


if __name__ == "__main__":
    sys.exit(main())
