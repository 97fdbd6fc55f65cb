"""How commands print: tables that line up, colour only on a terminal that wants it."""

import io

import pytest

from semel.cli.output import Colour, paint, render_table


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_colour_on_a_terminal() -> None:
    assert paint("ok", Colour.GREEN, Terminal()) == "\x1b[32mok\x1b[0m"


def test_no_colour_in_a_file() -> None:
    assert paint("ok", Colour.GREEN, io.StringIO()) == "ok"


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_no_colour_where_it_is_not_wanted(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    assert paint("ok", Colour.GREEN, Terminal()) == "ok"


def test_an_empty_no_color_means_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "")
    assert paint("ok", Colour.RED, Terminal()) == "\x1b[31mok\x1b[0m"


def test_numbers_stand_right_and_words_left() -> None:
    table = render_table(["codec", "bytes", "verdict"], [["none", "1000", "held"], ["zstd", "9", "broken"]])
    assert table.splitlines() == ["codec  bytes  verdict", "none    1000  held", "zstd       9  broken"]


def test_a_table_without_rows_is_its_headings() -> None:
    assert render_table(["codec", "bytes"], []) == "codec  bytes"


def test_a_ragged_table_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="zip"):
        render_table(["a", "b"], [["1"]])
