"""How libraries read the text of a setting: as a number, as yes or no.

Why: librdkafka reads with C's `strtol`, which takes `0x10` and `+0`, stops at the first letter or dot and says nothing
     about the rest, and then cuts to 32 bits; a yes is `t` as well. A rule that reads the same text otherwise judges
     settings that the client does not have.
Sources: rd_kafka_anyconf_set_prop in librdkafka's rdkafka_conf.c.
"""

from __future__ import annotations

import re

from semel.clients.setting_defaults import Library

# The one number of librdkafka that may have a fraction, by both its names.
FRACTIONS = frozenset({"linger.ms", "queue.buffering.max.ms"})
_NUMBERS = (".ms", ".bytes", ".kbytes", ".messages", ".cnt", ".fails", ".level", ".size", "retries")
_COUNTS = frozenset({"acks", "request.required.acks", "max.in.flight", "max.in.flight.requests.per.connection"})
_YES = {"librdkafka": frozenset({"true", "t", "1"})}
_YES_ELSEWHERE = frozenset({"true", "1", "yes"})
_STRTOL = re.compile(r"\s*(?P<sign>[+-]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|(?P<octal>0[0-7]*)|(?P<decimal>[1-9][0-9]*))")
_BASES = {"hex": 16, "octal": 8, "decimal": 10}
_LONG_MAX = 2**63 - 1


def is_yes(text: str, library: Library) -> bool:
    """Whether the library takes this for true."""
    return text.strip().lower() in _YES.get(library.name, _YES_ELSEWHERE)


def whole_number(name: str, text: str, library: Library) -> int | None:
    """What the library makes of it; None when that is no number."""
    if library.name != "librdkafka":
        plain = text.strip()
        return int(plain) if plain.removeprefix("-").isdecimal() else None
    if name in FRACTIONS:
        return _fraction(text)
    found = _STRTOL.match(text)
    return None if found is None else _cut(_value(found))


def is_number(name: str) -> bool:
    """Whether librdkafka reads this setting as a whole number."""
    return name not in FRACTIONS and (name.endswith(_NUMBERS) or name in _COUNTS)


def is_read_whole(text: str) -> bool:
    """Whether librdkafka reads all of a number, and the number as it stands; a text without one has names instead."""
    found = _STRTOL.match(text)
    return found is None or (found.end() == len(text.rstrip()) and _cut(_value(found)) == _value(found))


def _value(found: re.Match[str]) -> int:
    size = next(int(found[name], base) for name, base in _BASES.items() if found[name])
    return -min(size, _LONG_MAX + 1) if found["sign"] == "-" else min(size, _LONG_MAX)


def _cut(number: int) -> int:
    """To C's int."""
    # What C does in effect when it turns a long into an int: the upper bits are lost.
    return (number + 2**31) % 2**32 - 2**31


def _fraction(text: str) -> int | None:
    try:
        return int(float(text))
    except (ValueError, OverflowError):
        return None
