"""Texts of records for people: what a terminal or a browser would obey instead of showing is written out.

A record says what its author wants. An escape sequence in it may repaint a terminal, and a character that turns the
direction of writing may make one name look like another.
"""

from __future__ import annotations

import unicodedata

# Controls, invisible and direction-turning marks, halves of pairs, line and paragraph separators.
_OBEYED = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def visible(text: str) -> str:
    r"""The text with each such character as `\x1b` or `\u202e`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_written_out(one) if unicodedata.category(one) in _OBEYED else one for one in text)


def _written_out(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
