"""What the tests of the clients share."""

from tests.support.postgres import postgres

__all__ = ["postgres"]
