"""Agents of other repositories in processes of their own: what they are given, and what their failures cost."""

from __future__ import annotations

import json
import os
import select
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from agents.base.cluster import MAX_DEATHS
from evaluation.records import EvaluationError
from evaluation.run.foreign_agent import ForeignAgent, ForeignAgentError, ForeignAgentPlace, NotText, find_python
from tests.evaluation.kits import Make, ask, write_release

HANG = "__import__('threading').Event().wait()"
PID = "[str(os.getpid())]"


class Search:
    """A pipeline that says what it was asked."""

    web_search = True

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def __call__(self, query: Any, k: int) -> list[dict[str, Any]]:
        self.asked.append(query)
        if isinstance(query, str) and query == "nothing":
            raise ValueError("Text input is not supported")
        if isinstance(query, str) and query == "broken":
            raise LookupError("no index")
        value = query if isinstance(query, str) else getattr(query, "size", None)
        return [{"index": number, "score": np.float32(0.25), "of": value} for number in range(k)]


def test_an_agent_gets_what_the_kits_evaluator_passes(make: Make, kit: Path) -> None:
    agent = make()
    assert agent.get_batch_size() == 4
    histories = [[{"role": "user", "content": "é\ud800"}, {"role": "assistant", "content": "b"}], []]
    answers = agent.batch_generate_response(["one", "two"], [Image.new("CMYK", (3, 2)), None], histories)
    assert answers == ["one (3, 2) é\ud800|b the fork's own base", "two None  the fork's own base"]
    assert (kit.parent / "agent.log").read_text().splitlines()[1:] == ["built"]


@pytest.mark.parametrize("ours", [False, True])
def test_its_own_agents_package_is_used_even_where_ours_is_installed(make: Make, kit: Path, ours: bool) -> None:
    (kit / "agents" / "plain.py").write_text(
        "import sys, agents, PIL\n"
        "class Plain:\n"
        "    def __init__(self, search_pipeline): assert search_pipeline is None\n"
        "    def get_batch_size(self): return 1\n"
        "    def batch_generate_response(self, queries, images, message_histories):\n"
        "        try:\n"
        "            __import__(queries[0])\n"
        "        except ImportError as error:\n"
        "            return [str(error)]\n"
        "        return [str(list(agents.__path__))]\n"
    )
    agent = make("agents.plain:Plain", python=Path(sys.executable)) if ours else make("agents.plain:Plain")
    assert ask(agent, "json") == [str([str(kit / "agents")])]
    assert ask(agent, "agents.settings") == ["No module named 'agents.settings'"]
    assert ask(agent, "evaluation") == ["No module named 'evaluation'"]


def test_it_works_in_its_folder_with_its_own_libraries(make: Make, kit: Path, own_python: Path) -> None:
    agent = make("Scripted")
    assert ask(agent, "[os.getcwd(), sys.prefix]") == [str(kit), str(own_python.parents[1])]
    assert ask(agent, "[str(sys.stdin.read())]") == [""]


def test_searches_go_through_the_evaluation(make: Make, kit: Path) -> None:
    search, photo = Search(), Image.new("RGB", (7, 5), "red")
    photo.save(kit / "photo.png")
    agent = make("Scripted", search)
    answers = ask(
        agent,
        "[json.dumps(agent.search_pipeline(each, k=2)) for each in "
        "('text', images[0], 'photo.png', __import__('numpy').ones(3), ['a', images[0]])]",
        images=[photo],
    )
    results = [json.loads(each) for each in answers]
    assert results[0] == [{"index": number, "score": 0.25, "of": "text"} for number in range(2)]
    assert [each["of"] for each in results[1] + results[2]] == [[7, 5]] * 4
    assert results[4][0][0]["of"] == "a" and results[4][1][0]["of"] == [7, 5]
    assert isinstance(search.asked[3], np.ndarray) and search.asked[3].tolist() == [1, 1, 1]
    assert search.asked[1].tobytes() == photo.tobytes()
    assert ask(agent, "[str(len(agent.search_pipeline('default')))]") == ["5"]
    assert ask(agent, "[str([agent.search_pipeline.web_search, bool(agent.search_pipeline.image_collection)])]") == [
        "[True, True]"
    ]
    assert ask(
        agent, "[str(isinstance(agent.search_pipeline, sys.modules['cragmm_search.search'].UnifiedSearchPipeline))]"
    ) == ["True"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("agent.search_pipeline('nothing')", "ValueError: Text input is not supported"),
        ("agent.search_pipeline('broken')", "RuntimeError: no index"),
        ("agent.search_pipeline(images[0])", "ValueError: image search is off"),
        ("agent.search_pipeline(7)", "ValueError: cannot search for int"),
        ("agent.search_pipeline.text_model", "AttributeError: the search pipeline has no 'text_model' here"),
    ],
)
def test_a_search_that_fails_raises_in_the_agent(make: Make, query: str, message: str) -> None:
    agent = make("Scripted", Search(), images=False)
    with pytest.raises(ForeignAgentError, match=message):
        ask(agent, query, images=[Image.new("RGB", (2, 2))])
    assert ask(agent, "['went on']") == ["went on"]


def test_threads_of_an_agent_search_side_by_side(make: Make) -> None:
    answers = ask(make("Threads", Search()), *"abcd")
    assert [json.loads(each)[0]["of"] for each in answers] == list("abcd")


def test_whole_pages_come_from_the_caches_of_the_evaluation(make: Make) -> None:
    agent = make("Pages", Search(), read_page={"here": "<html>whole</html>"}.get)
    assert ask(agent, "here") == ["<html>whole</html>"]


def test_names_of_both_releases_are_offered_where_the_repository_lacks_them(make: Make, kit: Path) -> None:
    (kit / "agents" / "base_agent.py").unlink()
    (kit / "agents" / "importing.py").write_text(
        "from agents.base_agent import BaseAgent\n"
        "from example_agents.base_agent import BaseAgent as Same\n"
        "from crag_batch_iterator import CRAGTurnBatchIterator, ImageLoader\n"
        "from crag_image_loader import ImageLoader\n"
        "from crag_web_result_fetcher import WebSearchResult\n"
        "from utils import display_results, is_url\n"
        "from utils.utils import resize_image_if_needed\n"
        "from utils.crag_web_result_fetcher import WebSearchResult\n"
        "from cragmm_search.search import UnifiedSearchPipeline\n"
        "class Importing(BaseAgent):\n"
        "    def get_batch_size(self): return 1\n"
        "    def batch_generate_response(self, queries, images, message_histories):\n"
        "        page = WebSearchResult({'page_url': 'u', 'page_name': 'n'})\n"
        "        CRAGTurnBatchIterator(None, 1) if queries[0] == 'iterate' else None\n"
        "        return [str([BaseAgent is Same, page.page_name, page.get('none', 0), 'page_content' in page, len(page), is_url('x')])]\n"
    )
    agent = make("agents.importing:Importing", Search())
    assert ask(agent, "now") == ["[True, 'n', 0, True, 2, False]"]
    with pytest.raises(ForeignAgentError, match="CRAGTurnBatchIterator of the starter kit is not offered"):
        ask(agent, "iterate")


def test_modules_of_the_repository_come_before_offered_ones(make: Make, kit: Path) -> None:
    (kit / "utils.py").write_text("mine = 'my utils'\n")
    (kit / "crag_web_result_fetcher.py").write_text("class WebSearchResult(dict):\n    mine = 'my pages'\n")
    agent = make("Scripted", pages=Path("/cache of pages"))
    assert ask(agent, "[__import__('utils').mine, WebSearchResult.mine]") == ["my utils", "my pages"]
    assert ask(agent, "[os.environ['CRAG_WEBSEARCH_CACHE_DIR']]") == ["/cache of pages"]


def test_the_research_release_builds_and_calls_in_its_own_way(tmp_path: Path, own_python: Path) -> None:
    root = write_release(tmp_path)
    options = {"model_name": "org/Echo-11B", "is_multi_turn": True}
    for reference in ("example_agents.echo_agent:EchoAgent", "example_agents.user_config:MODEL_KEYWORD_TO_AGENT"):
        place = ForeignAgentPlace(root, reference, own_python, tmp_path / "log", 60.0)
        agent = ForeignAgent(place, options)
        more = {"rag_context_list": ["", "abc"], "domains": ["food", "book"]}
        answers = agent.batch_generate_response(["a", "b"], [None, None], [[], []], **more)
        assert answers == ["org/Echo-11B True 0 food", "org/Echo-11B True 3 book"]
        agent.close()
    with pytest.raises(EvaluationError, match="has no key that is part of 'llama'"):
        ForeignAgent(place, {"model_name": "Llama"})


def test_an_agent_that_raises_lives_on(make: Make, kit: Path) -> None:
    agent = make("Scripted")
    before = ask(agent, PID)
    with pytest.raises(
        ForeignAgentError, match=r"^ZeroDivisionError: division by zero; agent\.log has its traceback$"
    ) as raised:
        ask(agent, "1/0")
    first, *_, last = raised.value.traceback.splitlines()
    assert first.startswith("Traceback") and last == "ZeroDivisionError: division by zero"
    assert "in batch_generate_response" in raised.value.traceback and "agent_child" not in raised.value.traceback
    assert ask(agent, PID) == before
    assert "Traceback" in (kit.parent / "agent.log").read_text()


@pytest.mark.parametrize(
    ("crash", "message"),
    [
        ("os._exit(3)", "ended with status 3; agent.log ends with: built"),
        ("[print('last words'), os._exit(0)]", "ended with status 0; agent.log ends with: last words"),
        ("sys.exit('enough')", "ended with status 1; agent.log ends with: enough"),
        ("os.kill(os.getpid(), 9)", "ended by SIGKILL"),
        ("__import__('ctypes').string_at(0)", "ended by SIGSEGV"),
    ],
)
def test_a_crash_costs_one_batch(make: Make, crash: str, message: str) -> None:
    agent = make("Scripted")
    before = ask(agent, PID)
    with pytest.raises(ForeignAgentError, match=message):
        ask(agent, crash)
    assert ask(agent, PID) != before


def test_a_process_that_dies_again_and_again_is_not_started_for_ever(make: Make) -> None:
    agent = make("Scripted")
    for _ in range(MAX_DEATHS - 1):
        with pytest.raises(ForeignAgentError, match="status 1"):
            ask(agent, "os._exit(1)")
    assert ask(agent, PID), "an answer ends the row"
    for _ in range(MAX_DEATHS):
        with pytest.raises(ForeignAgentError, match="status 1"):
            ask(agent, "os._exit(1)")
    with pytest.raises(ForeignAgentError, match=f"died {MAX_DEATHS} times in a row and is not started again"):
        ask(agent, PID)


@pytest.mark.parametrize("hang", [HANG, "__import__('ctypes').PyDLL(None).pause()"])
def test_a_hang_is_killed_and_the_log_says_where(make: Make, kit: Path, hang: str) -> None:
    """The second one holds Python's lock, so that no thread of the process can end it."""
    agent = make("Scripted", seconds=0.5)
    with pytest.raises(ForeignAgentError, match=r"took more than 0\.5 s and was killed; agent\.log has where it hung"):
        ask(agent, hang)
    assert "in batch_generate_response" in (kit.parent / "agent.log").read_text()


def test_the_children_of_an_agent_are_killed_with_it(make: Make, kit: Path) -> None:
    os.mkfifo(kit / "alive")
    alive = os.open(kit / "alive", os.O_RDONLY | os.O_NONBLOCK)
    agent = make("Scripted", seconds=1.0)
    start = "__import__('subprocess').Popen(['sh', '-c', 'exec 3>alive; echo >&3; exec sleep 1000'])"
    with pytest.raises(ForeignAgentError, match="took more than"):
        ask(agent, f"[{start}, {HANG}]")
    data = b""
    while select.select([alive], [], [], 30)[0] and (block := os.read(alive, 9)):
        data += block
    os.close(alive)
    assert data == b"\n", "its child has begun and ended"


def test_a_process_that_speaks_another_language_is_given_up(make: Make) -> None:
    agent = make("Scripted")
    with pytest.raises(ForeignAgentError, match="a frame cannot be passed"):
        ask(agent, "os.write(int(sys.argv[1]), b'\\xff' * 100)")
    with pytest.raises(ForeignAgentError, match="a frame cannot be passed: a question of no kind"):
        ask(
            agent,
            "sys.modules['__main__'].Channel(__import__('socket').socket(fileno=int(sys.argv[1]))).send({'said': 'dig'})",
        )
    assert ask(agent, PID)


@pytest.mark.parametrize(
    ("returned", "kinds"),
    [
        ("None", "NoneType"),
        ("'text'", "str"),
        ("iter(['a'])", "list_iterator"),
        ("['a', None, 7, b'x']", ["a", "NoneType", "int", "bytes"]),
        ("('a', type('Own', (str,), {})('b'))", ["a", "b"]),
        ("[]", []),
    ],
)
def test_what_an_agent_returns_is_passed_on_as_it_is(make: Make, returned: str, kinds: object) -> None:
    answers = ask(make("Scripted"), returned)
    assert [_name(each) for each in answers] == kinds if isinstance(answers, list) else _name(answers) == kinds


def _name(value: object) -> str:
    assert isinstance(value, str | NotText)
    return value if isinstance(value, str) else type(value).__name__


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_memory_is_limited_in_the_process_alone(make: Make) -> None:
    import resource

    agent = make("Scripted", memory=500_000_000)
    with pytest.raises(ForeignAgentError, match="MemoryError"):
        ask(agent, "bytearray(600_000_000)")
    assert ask(agent, "[str(len(bytearray(1 << 20)))]") == ["1048576"]
    assert resource.getrlimit(resource.RLIMIT_DATA)[0] != 500_000_000


def test_an_agent_that_cannot_be_built_is_said_with_its_reason(make: Make, kit: Path, tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match=r"cannot be built: OSError: no weights; its output is in .*agent\.log"):
        make("Broken")
    for reference, message in (
        ("agents.gone:A", "No module named 'agents.gone'"),
        ("agents.my_agent:Gone", "no attribute 'Gone'"),
    ):
        with pytest.raises(EvaluationError, match=message):
            make(reference)
    (kit / "agents" / "needs.py").write_text("import a_library_of_its_own\n")
    with pytest.raises(EvaluationError, match=r"No module named 'a_library_of_its_own'.*--agent-python"):
        make("agents.needs:A")
    with pytest.raises(EvaluationError, match="its process cannot be started"):
        make(python=tmp_path / "no such python")


def test_an_interpreter_without_pillow_is_said(make: Make, kit: Path) -> None:
    bare = kit.parent / "bare"
    bare.write_text(f'#!/bin/sh\nexec {os.path.realpath(sys.executable)} -I -S "$@"\n')
    bare.chmod(0o755)
    with pytest.raises(EvaluationError, match=r"agent\.log ends with: ModuleNotFoundError: No module named 'PIL'"):
        make(python=bare)


def test_the_interpreter_of_a_repository_is_its_own(kit: Path, tmp_path: Path) -> None:
    assert find_python(kit, None) == Path(sys.executable)
    own = kit / ".venv" / "bin" / "python"
    own.parent.mkdir(parents=True)
    own.symlink_to(sys.executable)
    assert find_python(kit, None) == own
    assert find_python(kit, Path(sys.executable)) == Path(sys.executable)
    for wrong in (kit, tmp_path / "none"):
        with pytest.raises(EvaluationError, match=r"--agent-python .* cannot be run"):
            find_python(kit, wrong)


def test_a_process_ends_with_the_evaluation(make: Make) -> None:
    agent = make("Scripted")
    (pid,) = ask(agent, PID)
    agent.close()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)
    agent.close()
