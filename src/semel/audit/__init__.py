"""Hold what came out of a pipeline against what went in: lost, doubled, altered, reordered, with examples.

    from semel.audit import Side

    report = semel.audit(orders, Side(payments, key="order_id"), key="id")

Why the module can be called: the package and its one function have the same name, so `semel.audit` has to be both.
PySpark is imported when it is called.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from semel.audit.expectation import Expectation
    from semel.audit.finding import Example, Finding, Gap, Incomplete, Kind, Place
    from semel.audit.ledger_gaps import Commit
    from semel.audit.report import Comparison, Report, json_schema
    from semel.audit.sides import Side

__all__ = [
    "Commit",
    "Comparison",
    "Example",
    "Expectation",
    "Finding",
    "Gap",
    "Incomplete",
    "Kind",
    "Place",
    "Report",
    "Side",
    "json_schema",
]

_HOMES = {
    "Commit": "ledger_gaps",
    "Comparison": "report",
    "Expectation": "expectation",
    "Report": "report",
    "Side": "sides",
    "json_schema": "report",
}


def __dir__() -> list[str]:
    """What there is to use, also what is not imported yet."""
    return sorted(__all__)


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    if name in __all__:
        return getattr(import_module(f"semel.audit.{_HOMES.get(name, 'finding')}"), name)
    raise AttributeError(f"module 'semel.audit' has no attribute {name!r}")


class _CallableModule(ModuleType):
    def __call__(self, *sides: object, **options: object) -> Report:
        from importlib.util import find_spec  # noqa: PLC0415

        from semel.errors import MissingExtraError  # noqa: PLC0415

        if find_spec("pyspark") is None:
            raise MissingExtraError.of("spark", "an audit")
        from semel.audit.running import audit  # noqa: PLC0415

        return audit(*sides, **options)  # type: ignore[arg-type]


# Python looks `__call__` up in the class, so the module needs one of its own.
sys.modules[__name__].__class__ = _CallableModule
