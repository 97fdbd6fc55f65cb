"""What every page that semel writes for a browser is made of: its frame and its style, texts, tables, figures.

Keeps: what records and programs say is text and nothing else. Every text passes `text_of`, and the page tells the
       browser to run no script and to load nothing, should one ever slip through.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files

from semel.audit.visible import visible

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def document(what: str, verdict: str, parts: Iterable[str], *, command: str = "", made: str = "") -> str:
    """The whole page; `command` repeats what was done, `made` says when and by what."""
    style = files("semel.audit").joinpath("page.css").read_text(encoding="utf-8")
    body = list(parts)
    if command:
        body += ["<h2>How to reproduce</h2>", f"<pre>{text_of(command)}</pre>"]
    made = f'<p class="soft">{text_of(made)}</p>' if made else ""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"/>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        f"<title>semel {what}: {verdict}</title><style>\n{style}</style></head><body>\n"
        f'<h1>{what.capitalize()}: <span class="{verdict}">{verdict}</span></h1>{made}\n' + "\n".join(body) + "\n"
        "</body></html>\n"
    )


def totals(numbers: Mapping[str, int]) -> str:
    """A few numbers, large, each with its name."""
    shown = "".join(f"<div><b>{number:,}</b>{text_of(name)}</div>" for name, number in numbers.items())
    return f'<div class="totals">{shown}</div>'


def table(headings: Sequence[str], rows: Iterable[Sequence[str | int]]) -> Iterator[str]:
    """Texts to the left, numbers to the right; a verdict has its colour."""
    shown = "".join(f"<th>{text_of(one)}</th>" for one in headings)
    yield f'<div class="wide"><table><thead><tr>{shown}</tr></thead><tbody>'
    for row in rows:
        yield f"<tr>{''.join(map(_cell, row))}</tr>"
    yield "</tbody></table></div>"


def _cell(content: str | int) -> str:
    if isinstance(content, int):
        return f'<td class="count">{content:,}</td>'
    word = content.partition(":")[0]
    css = f' class="{word}"' if word in ("HELD", "BROKEN", "UNKNOWN") else ""
    return f"<td{css}>{text_of(content)}</td>"


def figure(name: str, told: str, drawn: str) -> str:
    """A chart under its name; `told` says its measure."""
    return f"<figure><figcaption><span>{text_of(name)}</span><span>{text_of(told)}</span></figcaption>{drawn}</figure>"


def text_of(text: str) -> str:
    """The text as HTML that only shows it: no markup of its own takes effect."""
    # bdi: letters that run from right to left do not pull their neighbours along.
    shown = escape(visible(text))
    return shown if shown.isascii() else f"<bdi>{shown}</bdi>"
