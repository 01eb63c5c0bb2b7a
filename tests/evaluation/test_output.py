"""What all commands share."""

import pytest
from rich.table import Table

from evaluation.commands import output


def test_a_table_in_a_pipe_is_as_wide_as_it_has_to_be(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    table = Table(*(f"heading {number}" for number in range(14)))
    output().print(table)
    assert "heading 13" in capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", "60")
    output().print(table)
    assert all(len(line) <= 60 for line in capsys.readouterr().out.splitlines())
