"""What is chosen by a word: a name of this project, a path, or a class of a package outside of it; and what is said of slips."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agents.base.named import ImportPath, canonical, find_file, import_path, look_up, parse_name
from agents.models.base import ChatModel, ChatRequest, ModelError
from agents.models.registry import ModelRegistry, list_options
from agents.profiles.profile import SettingsError, load_profile
from agents.settings.presets import load_settings
from agents.settings.run_config import RunConfig
from agents.stage import stage_class
from apps.answering import AnswererOptions, CannotStartError, start

MODELS = """
from collections.abc import Sequence
from agents.models.base import ChatReply, ChatRequest

class MyChat:
    name = "mine"
    def __init__(self, said: str, times: int = 1) -> None:
        self._said = said * times
    def chat(self, requests, deadline=None):
        return [ChatReply(self._said, "stop") for _ in requests]

def loud_chat(said: str) -> MyChat:
    return MyChat(said.upper())
"""
PRESET = 'stages = ["answer", "finalise"]\n[profiles.mine.answer]\n[profiles.mine.limits]\nbatch_size = 3\n'


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of one's own with a package, a preset and two profiles; the name of the package is that of the folder's ``package``."""
    package = tmp_path / f"own_{tmp_path.name}"
    package.mkdir()
    (package / "models.py").write_text(MODELS)
    (package / "broken.py").write_text("import no_such_library\n")
    (package / "wrong.py").write_text("1 / 0\n")
    (tmp_path / "quick.toml").write_text(PRESET)
    (tmp_path / "base.toml").write_text(
        f'[models.chat]\nkind = "{package.name}.models:MyChat"\nsaid = "yes"\ntimes = 2\n[search]\nkind = "embedded"\n'
    )
    (tmp_path / "mine.toml").write_text('extends = "base.toml"\n')
    (tmp_path / "more.toml").write_text(
        f'extends = "embedded"\n[models.chat]\nkind = "{package.name}.models:loud_chat"\nsaid = "no"\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def _ask(model: ChatModel) -> str:
    return model.chat([ChatRequest(())])[0].text


@pytest.mark.parametrize("ending", ["", ".toml"])
@pytest.mark.parametrize("absolute", [True, False])
def test_a_preset_and_a_profile_by_path(
    outside: Path, monkeypatch: pytest.MonkeyPatch, ending: str, absolute: bool
) -> None:
    monkeypatch.chdir(outside)
    folder = outside if absolute else Path("..") / outside.name
    config = RunConfig.read(f"{folder}/quick{ending}", f"{folder}/mine{ending}", cache=outside)
    assert config.settings.limits.batch_size == 3, "the overlay is of the profile's name, that of its file"
    assert (config.profile.name, Path(config.preset).name) == ("mine", "quick.toml")
    assert Path(config.preset).is_absolute()
    assert _ask(config.models().chat()) == "yesyes"
    assert load_settings(f"{folder}/quick{ending}", f"{folder}/mine{ending}") == config.settings


def test_a_profile_by_path_extends_a_shipped_one_or_a_file_beside_it(outside: Path) -> None:
    shipped, own = load_profile("embedded"), load_profile(str(outside / "more"))
    assert {**own.models, "chat": None} == {**shipped.models, "chat": None} and own.search == shipped.search
    assert _ask(ModelRegistry(outside).load(own.models["chat"])) == "NO"
    for other in ("base", "./base", "base.toml", str(outside / "base")):
        (outside / "next.toml").write_text(f'extends = "{other}"\n')
        assert load_profile(str(outside / "next.toml")).models["chat"]["said"] == "yes"
    (outside / "embedded.toml").write_text('[models.chat]\nkind = "openai"\n')
    (outside / "next.toml").write_text('extends = "embedded"\n')
    assert load_profile(str(outside / "next.toml")).models.keys() == shipped.models.keys(), "a name of ours goes first"


def test_the_options_of_a_model_from_outside_are_its_parameters(outside: Path) -> None:
    kind = f"own_{outside.name}.models:MyChat"
    assert list_options(kind) == {"times": 1}
    with pytest.raises(ModelError, match=r"its options are: said, times"):
        ModelRegistry(outside).load({"kind": kind, "sad": "x"})


def test_applications_take_paths_and_list_the_names(outside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = ["--preset", str(outside / "quick"), "--profile", str(outside / "mine"), "--cache", str(outside)]
    options = AnswererOptions.parse([*places, "--no-web", "--no-images"])
    assert start(options).batch_size == 3
    with pytest.raises(CannotStartError, match=r"there is no preset '.*/slow' \(no file .*slow.toml\)"):
        start(options.model_copy(update={"preset": str(outside / "slow")}))
    with pytest.raises(SystemExit):
        AnswererOptions.parse(["--help"])
    output = capsys.readouterr().out
    assert "direct_rag" in output and "gpu_fp8" in output


def _kind(reference: str) -> object:
    return list_options(reference)


def _path(reference: str) -> object:
    return load_profile(reference)


@pytest.mark.parametrize(
    ("find", "reference", "message"),
    [
        (RunConfig.read, "bset", r"^there is no preset 'bset'; did you mean 'best'\?; known: .*; or write the path of a .toml file$"),
        (_path, "embeded", r"^there is no profile 'embeded'; did you mean 'embedded'\?; known: .*; or write the path"),
        (stage_class, "rernak", r"^there is no stage 'rernak'; did you mean 'rerank'\?; known: .*; or write package.module:ClassName$"),
        (_kind, "vlm", r"^there is no model kind 'vlm'; did you mean 'vllm'\?; known: .*; or write package.module:ClassName$"),
        (_path, "./embedded.toml", r"^there is no profile './embedded.toml' \(no file embedded.toml\); did you mean 'embedded'"),
        (_path, "PLACE/gone", r"^there is no profile '.*gone' \(no file .*gone.toml\)"),
        (stage_class, "PACKAGE.gone:Mine", r"^there is no stage '.*' \(no module '.*gone' can be imported; is its folder on "),
        (_kind, "gone_too.models:Mine", r"^there is no model kind '.*' \(no module 'gone_too.models' can be imported;"),
        (_kind, "PACKAGE.models:MyCaht", r"^there is no model kind '.*' \(.* has no MyCaht\); did you mean 'MyChat'\?; it defines: "),
        (stage_class, "PACKAGE.models:MyChat", r"^stage '.*:MyChat' is no class derived from agents.stage.Stage$"),
        (_kind, "PACKAGE.models:__name__", r"^model kind '.*' is no class or function with named parameters"),
        (_kind, "PACKAGE.broken:Mine", r"^model kind '.*' needs a library that is not installed: No module named 'no_such_library'$"),
        (stage_class, "PACKAGE.wrong:Mine", r"^stage '.*': importing .*wrong failed: ZeroDivisionError: division by zero$"),
    ],
)  # fmt: skip
def test_slips_are_told_in_one_line(outside: Path, find: Callable[[str], object], reference: str, message: str) -> None:
    reference = reference.replace("PACKAGE", f"own_{outside.name}").replace("PLACE", str(outside))
    with pytest.raises((SettingsError, ModelError), match=message) as raised:
        find(reference)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("reference", ["a", "a:b:c", "a.b:", ":b", "a-b:C", "a/b:C", "a.b:3", "llama3.2:3b", "a..b:C"])
def test_what_is_no_import_path(reference: str) -> None:
    assert import_path(reference) is None


def test_the_forms_of_a_reference(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("")
    assert look_up("a", "x", ValueError, choices=["a"], files=True, attribute="Class") == "a"
    assert look_up("./a", "x", ValueError, files=True, beside=tmp_path) == tmp_path / "a.toml"
    assert look_up("m.n:C.load", "x", ValueError, attribute="Class") == ImportPath("m.n", "C.load")
    assert find_file("a", "x", tmp_path, ValueError) == tmp_path / "a.toml"
    with pytest.raises(ValueError, match="there is no x 3; known: a;"):
        find_file(3, "x", tmp_path, ValueError)
    assert [parse_name(each) for each in ("a", "x/a", "a.toml", "/x/a.b.toml")] == ["a", "a", "a", "a.b"]
    assert canonical("a") == "a" and canonical("a.toml") == canonical("./a") == str(Path.cwd() / "a.toml")
