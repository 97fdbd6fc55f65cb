"""What `semel explain` says of a rule, an invariant, an error class or a Kafka error code: as text and as data.

Keeps: an id means one thing. Rules are S001 and on, invariants a letter other than S with a number, errors have names.
"""

from __future__ import annotations

import inspect
import textwrap
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from semel.check.invariants import Invariant, invariants
from semel.check.known_errors import (
    error_class,
    error_names,
    import_line,
    is_fenced_for_clients,
    kafka_code,
    raised_for,
)
from semel.check.rule import Rule
from semel.check.rules import RULES, find_rule, nearest_rule
from semel.errors import ConfigError, FencedError, SemelError
from semel.guarantee import Guarantee
from semel.protocol.error_codes import ErrorCode

WIDTH = 96


class Kind(StrEnum):
    """What is explained; the values are fields of the JSON output."""

    RULE = "rules"
    INVARIANT = "invariants"
    ERROR = "errors"
    CODE = "codes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What is said of one of them: a text for people, and fields for programs."""

    kind: Kind
    text: str
    data: dict[str, object]


def explain(name: str) -> Explanation:
    """Find what a name stands for, in any case; ConfigError with what was perhaps meant when it stands for nothing."""
    wanted = name.strip()
    if wanted.upper().removeprefix("S").isdecimal():
        return explain_rule(find_rule(wanted))
    for invariant in invariants():
        if invariant.id == wanted.upper():
            return explain_invariant(invariant)
    for error_name in error_names():
        if error_name.lower() == wanted.rpartition(".")[2].lower():  # a traceback names it with its module
            return explain_error(error_class(error_name))
    code = kafka_code(wanted)
    if code is not None:
        return explain_code(code)
    raise _nothing_called(name)


def explain_rule(rule: Rule) -> Explanation:
    """What goes wrong without it, and the fault that shows it."""
    rows = [
        ("requires", rule.requires),
        ("severity", rule.severity),
        ("matters to", ", ".join(guarantees_of(rule))),
        ("if ignored", ", ".join(sorted(rule.anomalies)) or "work stops; no record is lost or doubled"),
        ("the fault", rule.fault),
        ("shown by", rule.shown_by),
        ("sources", rule.sources),
        ("see it", f"semel drill {rule.id}" if rule.shown_by else ""),
    ]
    data: dict[str, object] = {
        "rule": rule.id,
        "title": rule.title,
        "about": rule.about.value,
        "severity": rule.severity.value,
        "guarantees": guarantees_of(rule),
        "anomalies": sorted(rule.anomalies),
        "requires": rule.requires,
        "wrong": rule.wrong,
        "fault": rule.fault,
        "shown_by": rule.shown_by,
        "drill": f"semel drill {rule.id}" if rule.shown_by else "",
        "sources": rule.sources,
    }
    return Explanation(kind=Kind.RULE, text=_page(f"{rule.id}  {rule.title}", [rule.wrong], rows), data=data)


def explain_invariant(invariant: Invariant) -> Explanation:
    """What is always so."""
    tested = "no test names it yet" if invariant.is_planned else "held by tests that name it"
    rows = [("about", invariant.family), ("state", tested), ("sources", "docs/DESIGN.md, Invariants")]
    data: dict[str, object] = {
        "invariant": invariant.id,
        "family": invariant.family,
        "text": invariant.text,
        "planned": invariant.is_planned,
    }
    title = f"{invariant.id}  an invariant: what is always so"
    return Explanation(kind=Kind.INVARIANT, text=_page(title, [invariant.text], rows), data=data)


def explain_error(cls: type[SemelError]) -> Explanation:
    """What it means, whether the work may have been done, what to do, and how a program catches it."""
    meaning, todo = meaning_of(cls)
    parent = cls.__bases__[0].__name__
    happened = f"{cls.outcome}, unless its `outcome` says otherwise"
    rows = [("happened?", happened), ("is a", parent if issubclass(cls.__bases__[0], SemelError) else "")]
    rows.append(("import", import_line(cls)))
    data: dict[str, object] = {
        "error": cls.__name__,
        "meaning": meaning,
        "todo": todo,
        "outcome": cls.outcome.value,
        "parent": parent,
        "module": cls.__module__,
    }
    return Explanation(kind=Kind.ERROR, text=_page(f"{cls.__name__}  {meaning}", [todo], rows), data=data)


def explain_code(code: ErrorCode) -> Explanation:
    """Which error it becomes, and what that error says to do."""
    error = raised_for(code)
    by_clients = FencedError if is_fenced_for_clients(code) else type(error)
    rows = [
        ("in Spark", type(error).__name__ + (f"; {error.next_command}" if error.next_command else "")),
        ("in clients", by_clients.__name__),
        ("because", error.because),
        ("next", f"semel explain {by_clients.__name__}"),
    ]
    data: dict[str, object] = {
        "code": int(code),
        "name": code.name,
        "in_spark": type(error).__name__,
        "in_clients": by_clients.__name__,
        "next": error.next_command,
    }
    return Explanation(kind=Kind.CODE, text=_page(f"{code.name}  Kafka's error code {code:d}", [], rows), data=data)


def guarantees_of(rule: Rule) -> list[str]:
    """The guarantees that ask for it."""
    return [guarantee.value for guarantee in Guarantee if rule.matters_to(guarantee)]


def meaning_of(cls: type[SemelError]) -> tuple[str, str]:
    """The first line of its docstring, and the rest as one paragraph."""
    first, _, rest = inspect.cleandoc(cls.__doc__ or "").partition("\n")
    return first, " ".join(rest.split())


def _page(title: str, paragraphs: list[str], rows: list[tuple[str, str]]) -> str:
    blocks = [title, *("\n".join(textwrap.wrap(paragraph, WIDTH)) for paragraph in paragraphs if paragraph)]
    return "\n\n".join([*blocks, "\n".join(f"  {label:<10}  {text}" for label, text in rows if text)])


def _nothing_called(name: str) -> ConfigError:
    """Say what was perhaps meant: an id or a name that looks alike, or a rule about this word."""
    wanted = name.strip().lower()
    # NONE is no error, and many words are like it.
    codes = [code.name for code in ErrorCode if code is not ErrorCode.NONE]
    names = [*(rule.id for rule in RULES), *(one.id for one in invariants()), *error_names(), *codes]
    by_lower = {known.lower(): known for known in names}
    close = [by_lower[match] for match in get_close_matches(wanted, by_lower, n=3)]
    rule = nearest_rule(name)
    if rule is not None and rule.id not in close:
        close.append(f"{rule.id}, {rule.title}")
    return ConfigError(
        f"there is nothing called {name!r} to explain",
        you_want="; or ".join(close) or f"{RULES[0].id} to {RULES[-1].id}, E9, FencedError, PRODUCER_FENCED or code=90",
        next_command="semel explain",
    )
