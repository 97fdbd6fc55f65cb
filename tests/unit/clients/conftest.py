"""What the tests of the clients share."""

from tests.support.postgres import postgres
from tests.unit.clients.databases import store

__all__ = ["postgres", "store"]
