"""K9 inside the window a key is admitted once, also across crashes, restarts and members of a group."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import semel
from semel.errors import ConfigError


@pytest.fixture
def store(tmp_path: Path) -> Iterator[semel.SqliteStore]:
    made = semel.SqliteStore(tmp_path / "s.db")
    yield made
    made.close()


def admit_and_fail(store: semel.SqliteStore, seen: semel.Deduplicator) -> None:
    with store.transaction() as t:
        assert seen.admit(t, b"k")
        raise ZeroDivisionError


def test_a_key_is_admitted_once_and_again_after_an_abort(store: semel.SqliteStore) -> None:
    seen = semel.Deduplicator(store, "s", window_records=10)
    with pytest.raises(ZeroDivisionError):
        admit_and_fail(store, seen)
    with store.transaction() as t:
        assert [seen.admit(t, key) for key in (b"k", b"k", "k", b"other")] == [True, False, False, True]
    again = semel.Deduplicator(store, "s", window_records=10)
    with store.transaction() as t:
        assert not again.admit(t, b"k"), "a restart remembers"


def test_scopes_are_apart(store: semel.SqliteStore) -> None:
    one, two = (semel.Deduplicator(store, scope, window_records=1) for scope in ("one", "two"))
    with store.transaction() as t:
        assert one.admit(t, b"k")
        assert two.admit(t, b"k")


def test_a_time_window_is_exact_inside_and_says_what_it_cannot_know(store: semel.SqliteStore) -> None:
    seen = semel.Deduplicator(store, "s", window_ms=100)
    with store.transaction() as t:
        assert seen.admit(t, b"a", 1000)
        assert seen.admit(t, b"b", 1100)
        assert not seen.admit(t, b"a", 1100), "exactly as old as the window"
        assert seen.admit(t, b"c", 1101)
        assert seen.admit(t, b"a", 1101), "younger than the window by one"
        assert seen.judged_blindly == 0
        assert seen.admit(t, b"d", 1000), "older than the window: admitted, and counted"
        assert seen.judged_blindly == 1
    strict = semel.Deduplicator(store, "s", window_ms=100, before_window="refuse")
    with store.transaction() as t:
        assert not strict.admit(t, b"e", 1000)
        assert strict.judged_blindly == 1


@settings(max_examples=20)  # each makes a database
@given(st.lists(st.integers(0, 6), max_size=60), st.integers(1, 5), st.integers(1, 7))
def test_a_count_window_agrees_with_a_queue(keys: list[int], window: int, chunk: int) -> None:
    """Inside one transaction the window only moves at its end, so the model forgets there too."""
    admitted: list[bool] = []
    model: deque[int] = deque()
    wanted: list[bool] = []
    with TemporaryDirectory() as folder, semel.SqliteStore(Path(folder) / "s.db") as store:
        seen = semel.Deduplicator(store, "s", window_records=window)
        for start in range(0, len(keys), chunk):
            part = keys[start : start + chunk]
            with store.transaction() as t:
                admitted += seen.admit_many(t, [(str(key), None) for key in part])
            for key in part:
                wanted.append(key not in model)
                if wanted[-1]:
                    model.append(key)
            while len(model) > window:
                model.popleft()
    assert admitted == wanted


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"window_records": 1, "window_ms": 1},
        {"window_records": 0},
        {"window_ms": -1},
        {"before_window": "x", "window_ms": 1},
    ],
)
def test_a_window_without_a_sensible_bound_is_refused(store: semel.SqliteStore, options: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        semel.Deduplicator(store, "s", **options)  # type: ignore[arg-type]


def test_a_record_without_time_cannot_be_placed_in_a_time_window(store: semel.SqliteStore) -> None:
    seen = semel.Deduplicator(store, "s", window_ms=5)
    with pytest.raises(ConfigError, match="no time"), store.transaction() as t:
        seen.admit(t, b"k")


def test_a_transaction_of_another_store_is_refused(store: semel.SqliteStore, tmp_path: Path) -> None:
    other = semel.SqliteStore(tmp_path / "other.db")
    seen = semel.Deduplicator(store, "s", window_records=5)
    with pytest.raises(ConfigError, match="another store"), other.transaction() as t:
        seen.admit(t, b"k")
    other.close()
