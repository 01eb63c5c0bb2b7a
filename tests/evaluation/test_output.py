"""Where commands print."""

import pytest
from rich.table import Table

from evaluation.commands import make_console


def test_a_table_in_a_pipe_is_as_wide_as_it_has_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    make_console().print(Table(*(f"heading {number}" for number in range(14))))
    assert "heading 13" in capsys.readouterr().out
