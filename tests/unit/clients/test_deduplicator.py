"""K9 inside the window a key is admitted once, also across crashes, restarts and members of a group."""

from __future__ import annotations

import hashlib
import random
import threading
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import semel
from semel.clients.store_session import Connection
from semel.clients.stores import Store
from semel.errors import ConfigError
from tests.support.waiting import eventually
from tests.unit.clients.databases import another, next_work, owned, standing
from tests.unit.clients.messages import B


def admit_and_fail(store: Store, seen: semel.Deduplicator) -> None:
    with next_work(store) as t:
        assert seen.admit(t, b"k")
        raise ZeroDivisionError


def test_a_key_is_admitted_once_and_again_after_an_abort(store: Store) -> None:
    seen = semel.Deduplicator(store, "s", window_records=10)
    with pytest.raises(ZeroDivisionError):
        admit_and_fail(store, seen)
    with next_work(store) as t:
        assert [seen.admit(t, key) for key in (b"k", b"k", "k", b"other")] == [True, False, False, True]
    again = semel.Deduplicator(store, "s", window_records=10)
    with next_work(store) as t:
        assert not again.admit(t, b"k"), "a restart remembers"


def test_scopes_are_apart(store: Store) -> None:
    one, two = (semel.Deduplicator(store, scope, window_records=1) for scope in ("one", "two"))
    with next_work(store) as t:
        assert one.admit(t, b"k")
        assert two.admit(t, b"k")


def admitted(store: Store, seen: semel.Deduplicator, *records: tuple[str, int]) -> list[bool]:
    with next_work(store) as t:
        return [seen.admit(t, key, at) for key, at in records]


def test_a_time_window_is_exact_inside_and_says_what_it_cannot_know(store: Store) -> None:
    seen = semel.Deduplicator(store, "s", window_ms=100)
    with next_work(store) as t:
        assert seen.admit(t, b"a", 1000)
        assert seen.admit(t, b"b", 1100)
        assert not seen.admit(t, b"a", 1100), "exactly as old as the window"
        assert seen.admit(t, b"c", 1101)
        assert seen.admit(t, b"a", 1101), "younger than the window by one"
        assert seen.judged_blindly == 0
        assert seen.admit(t, b"d", 1000), "older than the window: admitted, and counted"
        assert seen.judged_blindly == 1
    strict = semel.Deduplicator(store, "s", window_ms=100, before_window="refuse")
    with next_work(store) as t:
        assert not strict.admit(t, b"e", 1000)
        assert strict.judged_blindly == 1


def test_times_out_of_order_are_judged_as_far_as_the_window_reaches(store: Store) -> None:
    """The key at 1000 is older than the window by 1200; the record at 1100 still has to meet it."""
    seen = semel.Deduplicator(store, "s", window_ms=100)
    assert admitted(store, seen, ("k", 1000), ("x", 1101), ("k", 1050)) == [True, True, False]
    assert admitted(store, seen, ("y", 1200)) == [True]
    assert admitted(store, seen, ("k", 1100)) == [False]
    assert admitted(store, seen, ("late", 1150), ("late", 1100), ("late", 1200)) == [True, False, False]
    assert seen.judged_blindly == 0


@pytest.mark.parametrize("in_between", [3, 4])
def test_a_count_window_counts_the_keys_in_between(store: Store, in_between: int) -> None:
    others = ["A", "B", "C", "D"][:in_between]
    for transactions in (1, 2):
        seen = semel.Deduplicator(store, f"s{transactions}", window_records=3)
        first, last = ["K", *others], ["A", "K"]  # a refused one does not count
        if transactions == 1:
            first, last = [], first + last
        found = [verdict for part in (first, last) for verdict in admitted(store, seen, *((key, 0) for key in part))]
        assert found == [True] * (1 + in_between) + [False, in_between > 3]


@settings(max_examples=20)  # each makes a database
@given(st.lists(st.integers(0, 6), max_size=60), st.integers(1, 5), st.integers(1, 7))
def test_a_count_window_agrees_with_a_list_of_all(keys: list[int], window: int, chunk: int) -> None:
    """A key is refused while at most `window` others were admitted since, however the records are cut into batches."""
    found: list[bool] = []
    history: list[int] = []
    wanted: list[bool] = []
    for key in keys:
        wanted.append(key not in history[-window - 1 :])
        if wanted[-1]:
            history.append(key)
    with TemporaryDirectory() as folder, semel.SqliteStore(Path(folder) / "s.db") as store:
        seen = semel.Deduplicator(store, "s", window_records=window)
        for start in range(0, len(keys), chunk):
            with next_work(store) as t:
                found += seen.admit_many(t, [(str(key), None) for key in keys[start : start + chunk]])
    assert found == wanted


@settings(max_examples=20)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40)), max_size=40), st.integers(1, 12), st.integers(1, 5))
def test_a_time_window_agrees_with_a_list_of_all(records: list[tuple[int, int]], window: int, chunk: int) -> None:
    """Of two records that both can be judged and are no farther apart than the window, one is admitted."""
    admitted_at: dict[int, list[int]] = {}
    newest, wanted, found = 0, list[bool | None](), list[bool]()
    for key, at in records:
        if at < newest - window:
            wanted.append(None)
            continue
        wanted.append(all(abs(at - other) > window for other in admitted_at.get(key, [])))
        if wanted[-1]:
            admitted_at.setdefault(key, []).append(at)
            newest = max(newest, at)
    with TemporaryDirectory() as folder, semel.SqliteStore(Path(folder) / "s.db") as store:
        seen = semel.Deduplicator(store, "s", window_ms=window, before_window="refuse")
        for start in range(0, len(records), chunk):
            with next_work(store) as t:
                found += seen.admit_many(t, [(str(key), at) for key, at in records[start : start + chunk]])
        assert found == [bool(one) for one in wanted]
        assert seen.judged_blindly == wanted.count(None)


NOW_MS = 1_000_000


def test_a_time_of_the_far_future_is_refused_and_moves_nothing(store: Store) -> None:
    """It would make every other record too old to be judged."""
    seen = semel.Deduplicator(store, "s", window_ms=100, now_ms=lambda: NOW_MS)
    assert admitted(store, seen, ("k", NOW_MS), ("x", NOW_MS + 100)) == [True, True]
    with pytest.raises(ConfigError, match="ahead of this machine's clock") as caught:
        admitted(store, seen, ("y", NOW_MS + 101))
    record = SimpleNamespace(timestamp_ms=NOW_MS + 101)
    _, way_out = caught.value.next_command.split("; or ")
    with next_work(store) as t:
        assert eval(way_out, {"seen": seen, "t": t, "key": "y", "record": record, "now_ms": NOW_MS})
    assert admitted(store, seen, ("k", NOW_MS)) == [False]
    assert seen.judged_blindly == 0


def test_a_clock_that_goes_back_is_told(store: Store) -> None:
    now_ms = [NOW_MS]
    seen = semel.Deduplicator(store, "s", window_ms=100, now_ms=lambda: now_ms[0])
    assert admitted(store, seen, ("k", NOW_MS)) == [True]
    now_ms[0] -= 100
    assert admitted(store, seen, ("k", NOW_MS)) == [False]
    now_ms[0] -= 1
    for at in (NOW_MS, NOW_MS - 200):
        with pytest.raises(ConfigError, match="is 101 ms ahead") as caught:
            admitted(store, seen, ("x", at))
    way_out = caught.value.next_command.split("; or ")[1].split(" forgets")[0]
    eval(way_out, {"store": store})
    assert admitted(store, seen, ("x", NOW_MS - 101)) == [True]


def test_the_window_is_kept_with_the_scope(store: Store) -> None:
    seen = semel.Deduplicator(store, "it's", window_records=3)
    late = semel.Deduplicator(store, "it's", window_records=2)  # nobody has used the scope yet
    assert admitted(store, seen, ("k", 0)) == [True]
    with pytest.raises(ConfigError, match="another window"):
        admitted(store, late, ("k", 0))
    for other in ({"window_records": 4}, {"window_ms": 3}):
        with pytest.raises(ConfigError, match="another window") as caught:
            semel.Deduplicator(store, "it's", **other)  # type: ignore[arg-type]
        assert caught.value.you_want == "window_records=3, or another scope"
    semel.Deduplicator(store, "it's", window_records=3, before_window="refuse")
    eval(caught.value.next_command.split(" forgets")[0], {"store": store})
    timed = semel.Deduplicator(store, "it's", window_ms=3)
    assert admitted(store, timed, ("k", 5)) == [True]
    with pytest.raises(ConfigError, match="another window"):
        admitted(store, seen, ("k", 0))


@pytest.mark.parametrize("key", [5, 0, None, True, 1.5, bytearray(b"k"), ("k",), "\ud800"])
def test_keys_are_bytes_or_text(store: Store, key: object) -> None:
    """An int would be that many zero bytes."""
    seen = semel.Deduplicator(store, "s", window_records=3)
    with pytest.raises(ConfigError, match="bytes or text"), next_work(store) as t:
        seen.admit(t, key)  # type: ignore[arg-type]


def test_a_bad_record_among_others_admits_none(store: Store) -> None:
    """Who catches the error and goes on would never see the first one again."""
    seen = semel.Deduplicator(store, "s", window_ms=100)
    with next_work(store) as t:
        for bad in (("k", None), (5, 1)):
            with pytest.raises(ConfigError):
                seen.admit_many(t, [("first", 1), bad])  # type: ignore[list-item]
        assert seen.admit(t, "first", 1)


def test_a_long_key_is_refused_and_its_digest_is_the_way_out(store: Store) -> None:
    seen, key = semel.Deduplicator(store, "s", window_records=3), random.Random(1).randbytes(8_000)
    with next_work(store) as t:
        assert seen.admit(t, key[:1_000])
        with pytest.raises(ConfigError, match="at most 1000 bytes") as caught:
            seen.admit(t, key)
        way_out = caught.value.you_want.replace(", …", "")
        assert [eval(way_out, {"seen": seen, "t": t, "key": key, "hashlib": hashlib}) for _ in range(2)] == [
            True,
            False,
        ]


@pytest.mark.parametrize("at", [1.5, "5", True, -1, 2**63])
def test_times_are_milliseconds(store: Store, at: object) -> None:
    seen = semel.Deduplicator(store, "s", window_ms=3)
    with pytest.raises(ConfigError, match=r"whole number|no time"), next_work(store) as t:
        seen.admit(t, "k", at)  # type: ignore[arg-type]


# A file has one writer.
@pytest.mark.parametrize("store", ["postgres"], indirect=True)
def test_members_take_turns_in_a_scope(store: Store) -> None:
    """One that judged while another had not committed could admit what the other has admitted and forgotten."""
    seen = semel.Deduplicator(store, "s", window_ms=100)
    assert admitted(store, seen, ("k", 1000)) == [True]
    other = another(store)
    its = semel.Deduplicator(other, "s", window_ms=100)
    verdicts: list[bool] = []

    def judge() -> None:
        with other.transaction(owned(other, (B, standing(other)[B]))[0]) as t:
            verdicts.append(its.admit(t, "k", 1050))

    with next_work(store) as t:
        assert seen.admit(t, "x", 5000), "which forgets k"
        thread = threading.Thread(target=judge)
        thread.start()
        with closing(store.connect()) as watcher:
            eventually(lambda: is_waiting(watcher), what="the other waits for its turn")
    thread.join(60)
    other.close()
    assert (verdicts, its.judged_blindly) == ([True], 1), "too old to be judged, and it is said"


def is_waiting(connection: Connection) -> bool:
    found = connection.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone()[0]
    return bool(found)


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
def test_a_window_without_a_sensible_bound_is_refused(store: Store, options: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        semel.Deduplicator(store, "s", **options)  # type: ignore[arg-type]


def test_a_record_without_time_cannot_be_placed_in_a_time_window(store: Store) -> None:
    seen = semel.Deduplicator(store, "s", window_ms=5)
    with pytest.raises(ConfigError, match="no time"), next_work(store) as t:
        seen.admit(t, b"k")


def test_a_transaction_of_another_store_is_refused(store: Store, tmp_path: Path) -> None:
    other = semel.SqliteStore(tmp_path / "other.db")
    seen = semel.Deduplicator(store, "s", window_records=5)
    with pytest.raises(ConfigError, match="another store"), next_work(other) as t:
        seen.admit(t, b"k")
    other.close()
