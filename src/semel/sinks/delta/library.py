"""The names that the sink uses of deltalake, which is an optional library without types."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from semel.errors import MissingExtraError


class Library:
    """What of deltalake is used here."""

    def __init__(self) -> None:
        """Import it now."""
        try:
            package: Any = import_module("deltalake")
            transaction: Any = import_module("deltalake.transaction")
            exceptions: Any = import_module("deltalake.exceptions")
        except ImportError:
            raise MissingExtraError.of("delta", "a DeltaSink") from None
        self.table = package.DeltaTable
        self.schema = package.Schema
        self.add_action = transaction.AddAction
        self.properties = transaction.CommitProperties
        self.transaction = transaction.Transaction
        self.error = exceptions.DeltaError
        self.commit_failed = exceptions.CommitFailedError
        self.not_found = exceptions.TableNotFoundError
