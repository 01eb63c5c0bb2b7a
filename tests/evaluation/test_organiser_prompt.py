"""The judge's words in a checkout of the organiser's code. The words here are invented; theirs are not ours to ship."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from agents.models.base import ChatMessage
from evaluation.judge.openai_judge import OpenAIJudge
from evaluation.judge.organiser_prompt import read_organiser
from evaluation.records import JudgeError

KIT = '''
import nothing_like_it

raise RuntimeError("this file must not be run")

class Evaluator:
    @staticmethod
    def get_system_message() -> str:
        """What the judge is told."""
        return (
            "Judge {literally}.\\n"
            "Say 'accuracy'."
        )

    def evaluate(self, data):
        query, ground_truth, agent_response = data
        messages = [
            {"role": "system", "content": self.get_system_message()},
            {"role": "user", "content": f"Q: {query}\\nT: {ground_truth}\\nP: {agent_response}\\n"},
        ]
        return messages
'''

RELEASE_JUDGE = '''
from evaluation_prompt import Prompts

class Judge:
    def __init__(self):
        self.prompt = Prompts()

    def get_system_message(self) -> str:
        """Two parts."""
        message = self.prompt.get_rules() + "\\n\\n" + self.prompt.get_examples()
        return message

    def evaluate(self, query, ground_truth, agent_response):
        return [
            {"role": "system", "content": self.get_system_message()},
            {"role": "user", "content": f"Now: {query} | {ground_truth} | {agent_response}"},
        ]
'''

RELEASE_WORDS = '''
RULES = """End in "Result: CORRECT"."""
EXAMPLES = """One {{ example }}."""

class Prompts:
    rules: str
    def __init__(self):
        self.rules: str = RULES
        self.examples = EXAMPLES
    def get_rules(self):
        return self.rules
    def get_examples(self):
        return self.examples.strip()
'''

AGENT = """
def ask(query):
    return [{"role": "system", "content": "Be brief."}, {"role": "user", "content": f"{query}"}]
"""

VALUES = {"query": "How {tall}?", "ground_truth": "330 m", "response": "{{ query }}"}


def checkout(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".py").write_text(text)
    return folder


def test_the_starter_kits_words_are_read_and_not_run(tmp_path: Path) -> None:
    prompt = read_organiser(checkout(tmp_path, local_evaluation=KIT, agents__agent=AGENT, agents__torn="def ("))
    assert prompt.style == "structured" and set(prompt.settings.exact or {}) == {"response_format", "stream"}
    assert prompt.request(**VALUES).messages == (
        ChatMessage("system", "Judge {literally}.\nSay 'accuracy'."),
        ChatMessage("user", "Q: How {tall}?\nT: 330 m\nP: {{ query }}\n"),  # what is judged is never a template
    )
    assert prompt.words.startswith("the organiser's words, local_evaluation.py, SHA-256 ")


def test_the_research_releases_words_are_put_together_from_two_files(tmp_path: Path) -> None:
    prompt = read_organiser(
        checkout(
            tmp_path, evaluation__llm_judge=RELEASE_JUDGE, evaluation__evaluation_prompt=RELEASE_WORDS, agents__a=AGENT
        )
    )
    assert prompt.style == "explained" and prompt.settings.exact == {"max_tokens": 1024, "temperature": 0.0}
    system, user = prompt.request(**VALUES).messages
    assert system.content == 'End in "Result: CORRECT".\n\nOne {{ example }}.'
    assert user.content == "Now: How {tall}? | 330 m | {{ query }}"
    assert "evaluation/llm_judge.py" in prompt.words


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"agent": AGENT},
        {"local_evaluation": KIT.replace("'accuracy'", "yes")},  # no form of reply that we know
        {
            "local_evaluation": KIT.replace('"Judge {literally}.', 'open("words").read() + "x')
        },  # cannot be told without running
        {"local_evaluation": KIT.replace("{ground_truth}", "")},
        {"llm_judge": RELEASE_JUDGE},  # its words are missing
        {"llm_judge": RELEASE_JUDGE, "words": RELEASE_WORDS.replace("EXAMPLES =", "EXAMPLES = EXAMPLES if 1 else")},
        {"llm_judge": RELEASE_JUDGE.replace("message =", "message = message +")},  # a circle
    ],
)
def test_a_checkout_without_a_judge_is_refused(tmp_path: Path, files: dict[str, str]) -> None:
    for text in files.values():
        ast.parse(text)
    with pytest.raises(JudgeError, match="no judge's messages found"):
        read_organiser(checkout(tmp_path, **files))
    with pytest.raises(JudgeError, match="no such folder"):
        read_organiser(tmp_path / "elsewhere")


def test_the_judge_says_whose_words_it_was_given(tmp_path: Path) -> None:
    kit = checkout(tmp_path, local_evaluation=KIT)
    judge = OpenAIJudge("gpt-4o", base_url="http://127.0.0.1:1/v1", organiser=kit)
    assert judge.style == "structured"  # as their words ask, whatever the model's default
    assert judge.name.startswith("gpt-4o (structured; the organiser's words, local_evaluation.py")
    with pytest.raises(JudgeError, match="its judge is structured, not explained"):
        OpenAIJudge("gpt-4o", base_url="http://127.0.0.1:1/v1", organiser=kit, style="explained")
