"""The tables of docs/MUTATIONS.md, held against the code."""

from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "MUTATIONS.md"


def check_page(section: str, rows: list[str]) -> None:
    """The table under this heading has these rows."""
    _, text = PAGE.read_text().split(f"\n## {section}\n")
    table = [line for line in text.split("\n## ")[0].splitlines() if line.startswith("| ")]
    assert table[2:] == rows, "\n".join(["the table should be:", *rows])
