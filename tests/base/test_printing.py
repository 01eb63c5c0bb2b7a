"""Texts of strangers reach a terminal without the characters that steer it."""

from __future__ import annotations

import io
import logging

import pytest
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from agents.base.command_options import Options
from agents.base.console import SafeConsole
from agents.base.printing import log_to_stderr, print_error, print_text, without_escapes

ESCAPES = "escapes of a terminal: answers, file names, URLs, errors, logs"
CLEAR = "\x1b[2J\x1b]0;owned\x07\x9b31m\x08\r\x00"
HARMLESS = "[2J]0;owned31m"


@pytest.mark.hostile(ESCAPES)
def test_controls_are_removed_and_all_else_stays() -> None:
    assert without_escapes(f"a{CLEAR}b") == f"a{HARMLESS}b"
    assert (
        without_escapes("height \N{RIGHT-TO-LEFT OVERRIDE}12\N{POP DIRECTIONAL FORMATTING} \N{LEFT-TO-RIGHT ISOLATE}m")
        == "height 12 m"
    )
    text = "Straße\t330 m\nשלום 👩‍🚀 \N{NO-BREAK SPACE}价格"
    assert without_escapes(text) == text


@pytest.mark.hostile(ESCAPES)
def test_what_is_printed_has_no_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    print_text("answer", CLEAR, end="!")
    print_error(ValueError(CLEAR))
    assert capsys.readouterr() == (f"answer {HARMLESS}!", f"{HARMLESS}\n")


@pytest.mark.hostile(ESCAPES)
@pytest.mark.parametrize("wrap", [str, Text, Panel, Text.from_markup], ids=["text", "Text", "Panel", "markup"])
def test_a_console_keeps_its_own_colours_alone(wrap: type) -> None:
    console = SafeConsole(file=(buffer := io.StringIO()), force_terminal=True, color_system="standard", width=60)
    table = Table("column")
    table.add_row(CLEAR if wrap is str else wrap(CLEAR))
    console.print(table, style="red")
    console.print(CLEAR if wrap is str else wrap(CLEAR), style="red", soft_wrap=True)
    printed = buffer.getvalue()
    assert "\x1b[31m" in printed and printed.count("owned") == 2
    assert not any(part in printed for part in ("\x1b[2J", "\x1b]", "\x07", "\x9b", "\x08", "\x00"))


@pytest.mark.hostile(ESCAPES)
def test_logs_have_no_escapes(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "root", logging.RootLogger(logging.WARNING))
    log_to_stderr()
    try:
        raise ValueError(CLEAR)
    except ValueError:
        logging.root.exception("the page %s cannot be read", CLEAR)
    stderr = capsys.readouterr().err
    assert f"the page {HARMLESS} cannot" in stderr and f"ValueError: {HARMLESS}" in stderr and "\x1b" not in stderr


@pytest.mark.hostile(ESCAPES)
def test_errors_of_a_command_line_have_no_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        Options.parse([f"--{CLEAR}"])
    stderr = capsys.readouterr().err
    assert HARMLESS in stderr and "\x1b" not in stderr
