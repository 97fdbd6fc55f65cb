"""Randomness: every draw keeps its promise; a seed repeats, and its named streams do not disturb each other."""

import pytest

from semel.world import RealRng, Rng, SeededRng


@pytest.fixture(params=[RealRng, lambda: SeededRng(5)], ids=["real", "seeded"])
def rng(request: pytest.FixtureRequest) -> Rng:
    made: Rng = request.param()
    return made


def test_draws_stay_in_their_range_and_reach_its_ends(rng: Rng) -> None:
    assert {rng.integer(-1, 1) for _ in range(300)} == {-1, 0, 1}
    assert {rng.choice("abc") for _ in range(300)} == set("abc")
    assert all(2.0 <= rng.uniform(2.0, 3.0) <= 3.0 for _ in range(100))
    assert {rng.chance(0.5) for _ in range(100)} == {True, False}
    assert not any(rng.chance(0.0) for _ in range(100))
    assert all(rng.chance(1.0) for _ in range(100))


def test_tokens_and_uuids(rng: Rng) -> None:
    assert [len(rng.token_bytes(n)) for n in (0, 1, 33)] == [0, 1, 33]
    assert rng.token_bytes(16) != rng.token_bytes(16)
    ids = {rng.uuid() for _ in range(50)}
    assert len(ids) == 50
    assert {(one.version, one.variant) for one in ids} == {(4, "specified in RFC 4122")}


def test_forks_differ_from_their_parent_and_each_other(rng: Rng) -> None:
    streams = [rng, rng.fork("a"), rng.fork("b"), rng.fork("a").fork("b")]
    assert len({stream.token_bytes(16) for stream in streams}) == 4


def draws(rng: Rng) -> tuple[object, ...]:
    return rng.uniform(0, 1), rng.integer(0, 10**9), rng.choice(range(10**6)), rng.token_bytes(8), rng.uuid()


def test_one_seed_one_stream() -> None:
    assert draws(SeededRng(1)) == draws(SeededRng(1))
    assert draws(SeededRng(1)) != draws(SeededRng(2))
    assert draws(SeededRng(1).fork("disk")) == draws(SeededRng(1).fork("disk"))
    assert draws(SeededRng(1).fork("disk")) != draws(SeededRng(2).fork("disk"))


def test_a_draw_in_one_place_leaves_other_streams_as_they_were() -> None:
    quiet, busy = SeededRng(1), SeededRng(1)
    draws(busy)
    draws(busy.fork("network"))
    assert draws(quiet.fork("disk")) == draws(busy.fork("disk"))
