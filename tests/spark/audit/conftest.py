"""A database for the tests of tables."""

from tests.support.postgres import postgres

__all__ = ["postgres"]
