"""Writes the pages whose texts stand in the code: docs/rules.md, docs/errors.md, and the invariants in docs/DESIGN.md.

Run it with `make generate`. A test compares what it would write with what is there.
"""

from __future__ import annotations

import sys
import textwrap
from importlib.resources import files
from pathlib import Path

from semel.check.explanation import guarantees_of, meaning_of
from semel.check.known_errors import error_classes, import_line
from semel.check.rules import RULES

DOCS = Path(__file__).resolve().parent.parent / "docs"
BEGIN, END = "<!-- invariants: begin -->\n", "<!-- invariants: end -->\n"


def render_all() -> dict[Path, str]:
    """Every page with its text."""
    design = DOCS / "DESIGN.md"
    return {
        DOCS / "rules.md": rules_page(),
        DOCS / "errors.md": errors_page(),
        design: with_invariants(design.read_text(encoding="utf-8")),
    }


def rules_page() -> str:
    parts = [
        "# Rules\n",
        "What `semel check` looks for, and `semel explain` explains. Made by `make generate`.\n",
    ]
    for rule in RULES:
        ignored = ", ".join(sorted(rule.anomalies)) or "work stops"
        parts.append(f'<a id="{rule.id.lower()}"></a>\n## {rule.id} {rule.title}\n')
        parts.append("\n".join(textwrap.wrap(rule.wrong, 118)) + "\n")
        rows = [
            f"- about: {rule.about}; matters to {', '.join(guarantees_of(rule))}; if ignored: {ignored}",
            f"- severity: {rule.severity}",
            f"- requires: {rule.requires}",
            f"- the fault: {rule.fault}" + (f" (`{rule.shown_by}`)" if rule.shown_by else ""),
            f"- sources: {rule.sources}",
        ]
        parts.append("\n".join(rows) + "\n")
    return "\n".join(parts)


def errors_page() -> str:
    parts = [
        "# Errors\n",
        "Every error of semel is a `semel.SemelError`. Its `.outcome` says whether the work may have been done:\n"
        "`did not happen`, `happened` or `unknown`. `semel explain FencedError` says the same as this page, which\n"
        "`make generate` makes from the docstrings of the classes.\n",
    ]
    for cls in error_classes():
        meaning, todo = meaning_of(cls)
        parent = cls.__bases__[0].__name__
        parts.append(f"## {cls.__name__}\n")
        parts.append("\n".join(textwrap.wrap(f"{meaning} {todo}", 118)) + "\n")
        rows = [f"- `{import_line(cls)}`", f"- outcome, unless it is known better: {cls.outcome}"]
        parts.append("\n".join([*rows, *([f"- is a `{parent}`"] if parent != "Exception" else [])]) + "\n")
    return "\n".join(parts)


def with_invariants(design: str) -> str:
    before, rest = design.split(BEGIN)
    after = rest.split(END)[1]
    texts = files("semel.check").joinpath("invariants.md").read_text(encoding="utf-8")
    return f"{before}{BEGIN}{texts}{END}{after}"


def main() -> None:
    for path, text in render_all().items():
        path.write_text(text, encoding="utf-8")
        sys.stderr.write(f"{path.relative_to(DOCS.parent)}\n")


if __name__ == "__main__":
    main()
