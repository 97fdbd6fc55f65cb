"""Every rule about loss or duplication: ignored, its fault does damage; followed, the same fault does none."""

from collections.abc import Iterator

import pytest

from semel.drill.damage.records import QUICK, Damage, tally
from semel.drill.damage.running import own_settings, rule_files, run_rule
from semel.engine.embedded import Cluster
from semel.errors import ConfigError
from tests.spark.conftest import spark

__all__ = ["spark"]

IN_SPARK = {"S014"}


@pytest.fixture(scope="module")
def _shared() -> Iterator[Cluster]:
    with Cluster(brokers=3, config=QUICK) as started:
        yield started


@pytest.fixture
def shared(_shared: Cluster) -> Iterator[Cluster]:
    yield _shared
    _shared.disarm()


def damage(shared: Cluster, rule: str, *, followed: bool) -> Damage:
    found = rule_files()[rule]
    if own_settings(found, followed=followed) is not None:
        return run_rule(rule, followed=followed)
    return found.run(shared, followed=followed)


@pytest.fixture(params=list(rule_files()))
def rule(request: pytest.FixtureRequest) -> str:
    """Each in turn; those that run in Spark do so in the session of all tests."""
    if request.param in IN_SPARK:
        request.getfixturevalue("spark")
    return str(request.param)


@pytest.mark.quick(6)
def test_ignored(shared: Cluster, rule: str) -> None:
    found = damage(shared, rule, followed=False)
    assert found.fired > 0
    assert found.lost + found.duplicated > 0


@pytest.mark.quick(6)
def test_followed(shared: Cluster, rule: str) -> None:
    found = damage(shared, rule, followed=True)
    assert found.fired > 0
    assert (found.lost, found.duplicated) == (0, 0)
    assert found.sent > 0


@pytest.mark.parametrize(
    ("seen", "lost", "duplicated"),
    [(["a", "b"], 0, 0), (["a"], 1, 0), (["a", "a"], 1, 1), (["b", "a", "b", "b"], 0, 2), (["a", "b", "x"], 0, 0)],
)
def test_a_loss_and_a_duplicate_do_not_cancel(seen: list[str], lost: int, duplicated: int) -> None:
    assert tally(["a", "b"], seen, fired=1) == Damage(sent=2, lost=lost, duplicated=duplicated, fired=1)


def test_a_rule_without_damage() -> None:
    with pytest.raises(ConfigError, match="no damage"):
        run_rule("S043", followed=True)
