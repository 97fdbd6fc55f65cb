"""One object store for the tests of this folder."""

from tests.support.object_store import object_store

__all__ = ["object_store"]
