"""What runs inside Spark: the source `format("semel")`, sessions that know it, the writers, the worker daemon.

Why lazy: the worker daemon is a module of this package, and every worker pays for what this file imports.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from semel.spark.sessions import explain_settings, register, session
    from semel.spark.source import SemelDataSource

__all__ = ["SemelDataSource", "explain_settings", "register", "session"]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    if name == "SemelDataSource":
        from semel.spark.source import SemelDataSource  # noqa: PLC0415

        return SemelDataSource
    if name in __all__:
        from semel.spark import sessions  # noqa: PLC0415

        return getattr(sessions, name)
    raise AttributeError(f"module 'semel.spark' has no attribute {name!r}")
