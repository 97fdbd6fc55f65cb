"""The invariants of semel by their ids, as invariants.md beside this file says them.

That file is the one place of their texts: `semel explain` reads it, and `make generate` copies it into docs/DESIGN.md.
It is in the package, since an installed semel has no docs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_ENTRY = re.compile(r"- \*\*([A-Z]\d+)\*\* (\(planned\) )?(.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariant:
    """What is always so in one part of semel. A planned one is named by no test yet."""

    id: str
    family: str
    text: str
    is_planned: bool


@cache
def invariants() -> tuple[Invariant, ...]:
    """All of them, in the order of the file."""
    return tuple(parse(files("semel.check").joinpath("invariants.md").read_text(encoding="utf-8")))


def parse(page: str) -> list[Invariant]:
    """Read the entries below each heading; other lines are for readers of the page."""
    found: list[Invariant] = []
    family, entry, lines = "", None, list[str]()
    for line in [*page.splitlines(), ""]:
        if entry is not None and line.startswith("  "):
            lines.append(line.strip())
            continue
        if entry is not None:
            text = " ".join(lines)
            found.append(Invariant(id=entry[1], family=family, text=text, is_planned=entry[2] is not None))
        if line.startswith("### "):
            family = line.removeprefix("### ")
        entry = _ENTRY.fullmatch(line)
        lines = [entry[3]] if entry is not None else []
    return found
