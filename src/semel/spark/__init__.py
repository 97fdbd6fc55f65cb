"""What runs inside Spark: the source `format("semel")`, sessions that know it, the writers, the worker daemon.

Why lazy: the worker daemon is a module of this package, and every worker pays for what this file imports.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from semel.spark.progress import SourceLag, lag
    from semel.spark.sessions import explain_settings, register, session
    from semel.spark.source import SemelDataSource

__all__ = ["SemelDataSource", "SourceLag", "explain_settings", "lag", "register", "session"]


def require_pyspark() -> None:
    """MissingExtraError, with the command to run, where PySpark is not installed or is another than 4.2."""
    from semel.errors import MissingExtraError, install_command  # noqa: PLC0415

    try:
        import pyspark  # noqa: PLC0415
    except ModuleNotFoundError:
        raise MissingExtraError.of("spark", "what runs inside Spark") from None
    # Not the package's metadata: Spark's own download has PySpark without it.
    if not pyspark.__version__.startswith("4.2."):
        raise MissingExtraError(
            f"semel needs PySpark 4.2, and this is {pyspark.__version__}",
            because="sources and sinks in Python have other classes in each version of Spark",
            next_command=install_command("spark"),
        )


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    if name in __all__:
        require_pyspark()
    if name == "SemelDataSource":
        from semel.spark.source import SemelDataSource  # noqa: PLC0415

        return SemelDataSource
    if name in ("SourceLag", "lag"):
        from semel.spark import progress  # noqa: PLC0415

        return getattr(progress, name)
    if name in __all__:
        from semel.spark import sessions  # noqa: PLC0415

        return getattr(sessions, name)
    raise AttributeError(f"module 'semel.spark' has no attribute {name!r}")
