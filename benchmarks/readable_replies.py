"""How many replies to each prompt keep its format, so that the stage that asked can read them.

    python -m benchmarks.readable_replies --presets best,cruise --num-conversations 20

The first single-turn questions go through each preset with the real models of the profile; every reply is read by the parser
of the stage that asked for it. A prompt whose replies cannot be read is a fault of the prompt or of its parser: exit status 1 where fewer
than ``--least`` percent can.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console

from agents.crag_agent import CragAgent
from agents.deadline import Deadline
from agents.launch import Launch, preset_names
from agents.models.base import ChatReply, ChatRequest
from agents.prompts import Prompt
from agents.stage import Context
from benchmarks.common import parser_of, run, table_of
from mini_crag_mm.loader import PreparedSet

Readable = Callable[[str], bool]

MOST_SHORT_WORDS = 12
"""Words of an answer that was asked for "in at most five words"; articles and units may come beside them."""

_NO_LIMIT = ("limits.seconds_per_turn=3600", "limits.seconds_per_dialog=36000")  # no reply is to be cut by the clock

MOST_QUESTION_WORDS = 60
"""Words of a question that stands alone; a longer reply has explained itself."""


def readers() -> dict[str, Readable]:
    """What the stage of each prompt needs to find in a reply, by the stage's own parser."""
    from agents.methods.candidates import candidate_of
    from agents.methods.citations import parse_cited
    from agents.methods.entry_replies import entry_letter, parse_four_steps
    from agents.methods.verification_chain import parse_chain
    from agents.stages.draft import parse_draft
    from agents.stages.knowledge import extracted
    from agents.stages.route import parse_flags
    from agents.stages.verify import verdict
    from agents.texts.refusals import refuses
    from agents.texts.replies import json_object, listed, strings, yes_or_no

    def said(text: str) -> ChatReply:
        return ChatReply(text, "stop")

    def answers(text: str) -> bool:
        return candidate_of(said(text)) is not None

    def briefly(text: str) -> bool:
        return answers(text) and (refuses(text) or len(text.split()) <= MOST_SHORT_WORDS)

    def one_line(text: str) -> bool:
        return bool(text.strip()) and "\n" not in text.strip() and len(text.split()) <= MOST_QUESTION_WORDS

    def cites(text: str) -> bool:
        return refuses(text) or any(sentence.citations for sentence in parse_cited(text))

    def holds(key: str, kind: type) -> Readable:
        return lambda text: type((json_object(text) or {}).get(key)) is kind

    def lists(key: str) -> Readable:
        return lambda text: bool(strings((json_object(text) or {}).get(key), 10))

    def drafts(text: str) -> bool:
        draft = parse_draft(said(text), 5)
        return bool(draft.steps and draft.answer)

    def tools(text: str) -> bool:
        found = json_object(text) or {}
        return all(isinstance(found.get(key), bool) for key in ("need_image_search", "need_text_search"))

    return {
        "answer_with_evidence": answers,
        "answer_without_evidence": answers,
        "answer_reasoned": answers,
        "answer_verdict": lambda text: verdict(said(text))[0] is not None,
        "answer_verifier": lambda text: verdict(said(text))[0] is not None,
        "chain_of_verification": lambda text: parse_chain(text).confidence is not None,
        "cited_answer": cites,
        "cited_answer_reasoned": cites,
        "consistency_judge": lambda text: yes_or_no(text) is not None,
        "draft": drafts,
        "entity_selection": holds("entity", int),
        "entry_answer": briefly,
        "entry_choice": lambda text: entry_letter(text, 5) is not None,
        "four_steps": lambda text: parse_four_steps(text, 5).final is not None,
        "image_summary": one_line,
        "knowledge_extraction": lambda text: (
            extracted(said(text)) is not None or text.strip().lower().startswith("none")
        ),
        "object_choice": holds("object", str),
        "object_list": lists("object_list"),
        "parametric_answer": briefly,
        "query_flags": lambda text: None not in parse_flags(text),
        "query_splitting": lists("queries"),
        "reconcile": briefly,
        "search_queries": lists("queries"),
        "short_queries": lambda text: bool(listed(text, 8)),
        "context_relevance": lambda text: yes_or_no(text) is not None,
        "standalone_question": one_line,
        "tool_router": tools,
    }


@dataclass
class Count:
    """The replies to one prompt under one preset."""

    preset: str
    prompt: str
    replies: int = 0
    readable: int = 0
    cut: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def share(self) -> float:
        """Part of the replies that can be read, 0 to 1."""
        return self.readable / self.replies if self.replies else 1.0


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
    """Ask the first single-turn questions and read every reply.

    Raises:
        agents.profiles.SettingsError: There is no such preset or profile.
        ModelError: A model cannot be loaded.
        SearchError: An index is missing.
    """
    mini = PreparedSet(options.split, options.cache)
    pipeline = mini.search(options.profile)
    from agents.models.chat.reply_cache import ReplyStore

    replies = ReplyStore(options.reply_cache) if options.reply_cache is not None else None
    launch = Launch.read(preset, options.profile, overrides=_NO_LIMIT, cache=options.cache)
    agent = CragAgent.from_launch(launch, pipeline, replies=replies)
    counts: dict[str, Count] = {}
    read_by = readers()

    def read(name: str, reply: ChatReply) -> None:
        if reply.finish_reason in ("abort", "error"):
            return
        seen = counts.setdefault(name, Count(preset, name))
        seen.replies += 1
        seen.cut += reply.finish_reason == "length"
        if read_by[name](reply.text):
            seen.readable += 1
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
    console = Console()
    presets = options.presets.split(",") if options.presets != "all" else preset_names()
    found = [each for preset in presets for each in count(preset, options, console)]
    title = f"Replies that can be read, {options.num_conversations} {options.split} questions, {options.profile}"
    rows = [(one.preset, one.prompt, str(one.replies), f"{100 * one.share:.0f}%", str(one.cut)) for one in found]
    console.print(table_of(title, ("preset", "prompt", "replies", "readable", "cut by the limit"), rows, left=2))
    for each in found:
        for text in each.examples:
            console.print(f"{each.preset}, {each.prompt}, not readable: {text!r}", markup=False, soft_wrap=True)
    if options.out is not None:
        options.out.write_text(json.dumps([asdict(each) for each in found], indent=2, ensure_ascii=False) + "\n")
    return int(any(100 * each.share < options.least for each in found))


def main(arguments: Sequence[str] | None = None) -> int:
    """Count, print, write. Returns the exit status: 0, 1 where too few replies can be read, 2 for what cannot be done."""
    parser = parser_of("readable_replies", __doc__, profile=True)
    parser.add_argument("--presets", default="all", metavar="A,B", help="presets to run (default: all)")
    parser.add_argument("--num-conversations", type=int, default=20, metavar="N", help="questions (default: 20)")
    parser.add_argument(
        "--least", type=float, default=95.0, metavar="PERCENT", help="share that has to be readable (default: 95)"
    )
    parser.add_argument(
        "--examples", type=int, default=3, metavar="N", help="unreadable replies shown of each prompt (default: 3)"
    )
    parser.add_argument(
        "--reply-cache", type=Path, metavar="DIR", help="keep replies in this folder and take them from it"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write the counts and examples as JSON")
    return run(_measure, parser, arguments)


if __name__ == "__main__":
    sys.exit(main())
