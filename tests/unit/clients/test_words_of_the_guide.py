"""The tables of acts in the guide and in DESIGN quote refusals: what they quote is what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
WORDS_MIN = 3


def quoted(page: str, heading: str) -> list[str]:
    """The fixed parts of every quotation: what stands between names, numbers and punctuation."""
    text = (ROOT / page).read_text()
    section = text.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    quotations = re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", section)
    parts = [part.strip() for one in quotations for part in re.split(r"\borders-0\b|\brecord \d+ of \d+|[:,;]|\n", one)]
    return [part for part in parts if len(part.split()) >= WORDS_MIN]


def said() -> str:
    """All texts of the clients, with strings that go over several lines put together."""
    sources = "\n".join(path.read_text() for path in sorted((ROOT / "src/semel/clients").glob("*.py")))
    return re.sub(r'"\s*\n\s*f?"', "", sources)


PAGES = [("docs/guide/clients.md", "What your program may do"), ("docs/DESIGN.md", "What happens to a client's batch")]


@pytest.mark.parametrize(("page", "heading"), PAGES, ids=["guide", "design"])
def test_what_is_quoted_is_said(page: str, heading: str) -> None:
    found, parts = said(), quoted(page, heading)
    assert len(parts) > 10
    assert [part for part in parts if part not in found] == []
