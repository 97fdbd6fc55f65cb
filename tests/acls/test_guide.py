"""Every part of semel that needs no Spark runs with exactly the rights of the guide, and says what is missing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import semel
from semel.pipeline import acts
from semel.wire.admin import delete_group, list_groups
from semel.wire.cluster import WireCluster
from semel.wire.settings import WireSettings
from tests.acls.conftest import ApacheWithUsers
from tests.acls.guide import promises
from tests.acls.parts import OF_A_PIPELINE, OF_BATCH_JOBS, PARTS, PartFailed, Stage, attempt, release
from tests.acls.rights import PASSWORDS, Right
from tests.acls.user_talk import UserTalk, versions_of
from tests.differential.talk import Side

CLIENT_S_MAX = 30.0
PROMISES = promises()
HIDDEN = [("semel check", "DESCRIBE topic `orders`")]  # Kafka does not tell what it hides
CASES = [(part, number) for part, rows in PROMISES.items() for number in range(len(rows))]
_numbers = count()


class Theatre:
    """A cluster on which the administrator sets the stage and `app` acts."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        host, port = bootstrap.split(":")
        side = Side("cluster", host, int(port))
        self.talk = UserTalk(side, versions_of(side), "")
        self._admin = AdminClient({**self.settings("admin")})

    def settings(self, user: str) -> dict[str, str]:
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": PASSWORDS[user],
        }

    def stage(self, folder: Path, part: str) -> Stage:
        """New topics with one order; for commands also a pipeline, or a batch job, that has committed once."""
        prefix = f"script-guide-{next(_numbers)}-"
        stage = Stage(self.settings("app"), folder, prefix)
        made = self._admin.create_topics([NewTopic(stage.name(name), 1, 1) for name in ("orders", "bills")])
        for future in made.values():
            future.result(CLIENT_S_MAX)
        client = Producer(self.settings("admin"))
        client.produce(stage.name("orders"), b"one")
        assert client.flush(CLIENT_S_MAX) == 0
        before = "Exactly-once sink" if part in OF_A_PIPELINE else ""
        before = "Batch job with a run id" if part in OF_BATCH_JOBS else before
        assert not before or attempt(before, self.as_admin(stage)) == ""
        return stage

    def as_admin(self, stage: Stage) -> Stage:
        """The same names, with all rights."""
        return replace(stage, client=self.settings("admin"))

    def groups(self, stage: Stage) -> set[str]:
        """What the administrator sees of the pipeline: its ledger and its runs."""
        with contextlib.closing(WireCluster(WireSettings.from_options(self.as_admin(stage).options))) as cluster:
            return {one for one in list_groups(cluster, cluster.deadline()) if one.startswith(stage.prefix)}


@pytest.fixture(scope="module")
def theatre(embedded_cluster: semel.Cluster) -> Iterator[Theatre]:
    made = Theatre(embedded_cluster.bootstrap)
    yield made
    made.talk.let(())
    made.talk.close()


@pytest.fixture(scope="module")
def apache_theatre(apache: ApacheWithUsers) -> Iterator[Theatre]:
    made = Theatre(apache.bootstrap)
    yield made
    made.talk.let(())
    made.talk.close()


def test_the_guide_has_every_part() -> None:
    assert list(PROMISES) == list(PARTS)
    assert all(PROMISES.values())


@pytest.mark.parametrize("part", PARTS)
def test_these_rights_are_enough(theatre: Theatre, tmp_path: Path, part: str) -> None:
    _check_enough(theatre, tmp_path, part)


@pytest.mark.quick(14)
@pytest.mark.parametrize(("part", "number"), CASES)
def test_each_of_them_is_needed(theatre: Theatre, tmp_path: Path, part: str, number: int) -> None:
    _check_needed(theatre, tmp_path, part, number)


@pytest.mark.full
@pytest.mark.parametrize("part", PARTS)
def test_these_rights_are_enough_on_apache(apache_theatre: Theatre, tmp_path: Path, part: str) -> None:
    _check_enough(apache_theatre, tmp_path, part)


@pytest.mark.full
@pytest.mark.parametrize(("part", "number"), CASES)
def test_each_of_them_is_needed_on_apache(apache_theatre: Theatre, tmp_path: Path, part: str, number: int) -> None:
    _check_needed(apache_theatre, tmp_path, part, number)


def _check_enough(theatre: Theatre, folder: Path, part: str) -> None:
    stage = theatre.stage(folder, part)
    theatre.talk.let([row.right(stage.prefix) for row in PROMISES[part]])
    assert attempt(part, stage) == ""


def _check_needed(theatre: Theatre, folder: Path, part: str, number: int) -> None:
    stage = theatre.stage(folder, part)
    missing = PROMISES[part][number]
    theatre.talk.let([row.right(stage.prefix) for row in PROMISES[part] if row is not missing])
    said = attempt(part, stage)
    if (part, f"{missing.operation} {missing.on}") in HIDDEN:
        assert (said, missing.phrases) == ("", [])
        return
    assert missing.phrases
    for phrase in missing.phrases:
        assert phrase in said


# --- a release that may not delete everything

RUNS, QUERY = "semel pipeline release", "semel pipeline reset"


def let_release(theatre: Theatre, stage: Stage, *groups: tuple[str, str]) -> None:
    """All rights of the guide but those on groups, which are these: the operation and how the name is taken."""
    rights = [row.right(stage.prefix) for row in PROMISES[QUERY] if "group" not in row.on]
    theatre.talk.let([*rights, *(Right(one, "GROUP", stage.name("billing"), pattern) for one, pattern in groups)])


def _refused(stage: Stage) -> str:
    with pytest.raises(PartFailed) as failed:
        release(stage)
    return str(failed.value)


TOO_FEW = pytest.mark.parametrize(
    "groups",
    [[("DELETE", "LITERAL")], [("DELETE", "LITERAL"), ("DESCRIBE", "PREFIXED")]],
    ids=["runs are hidden", "runs are seen"],
)


@TOO_FEW
def test_a_release_that_may_not_delete_runs_changes_nothing(
    theatre: Theatre, tmp_path: Path, groups: list[tuple[str, str]]
) -> None:
    _check_refused(theatre, tmp_path, groups)


@pytest.mark.full
@TOO_FEW
def test_a_release_that_may_not_delete_runs_changes_nothing_on_apache(
    apache_theatre: Theatre, tmp_path: Path, groups: list[tuple[str, str]]
) -> None:
    _check_refused(apache_theatre, tmp_path, groups)


def _check_refused(theatre: Theatre, folder: Path, groups: list[tuple[str, str]]) -> None:
    stage = theatre.stage(folder, RUNS)
    there = theatre.groups(stage)
    let_release(theatre, stage, *groups)
    said = _refused(stage)
    assert f"the right DELETE on groups that begin with '{stage.name('billing')}:run:' (a prefixed ACL)" in said
    assert "nothing was changed" in said
    assert "fenced" not in said
    assert theatre.groups(stage) == there
    let_release(theatre, stage, ("DELETE", "PREFIXED"))
    release(stage)
    assert theatre.groups(stage) == set()


def test_a_release_that_may_not_delete_the_ledger_changes_nothing(theatre: Theatre, tmp_path: Path) -> None:
    stage = theatre.stage(tmp_path, QUERY)
    let_release(theatre, stage, ("READ", "LITERAL"))
    said = _refused(stage)
    assert f"the right DELETE on the group '{stage.name('billing')}'" in said
    assert "fenced" not in said


def test_the_pipeline_of_a_query_needs_its_own_group_alone(theatre: Theatre, tmp_path: Path) -> None:
    stage = theatre.stage(tmp_path, QUERY)
    let_release(theatre, stage, ("DELETE", "LITERAL"))
    assert "may be left" not in release(stage)
    assert theatre.groups(stage) == set()


def test_a_right_that_goes_while_it_deletes(theatre: Theatre, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is fenced by then: what is missing is said, and the same command finishes it."""
    stage = theatre.stage(tmp_path, RUNS)
    let_release(theatre, stage, ("DELETE", "LITERAL"))
    monkeypatch.setattr(acts, "_check_may_delete", lambda *_: None)
    said = _refused(stage)
    assert f"groups that begin with '{stage.name('billing')}:run:' (a prefixed ACL): it is fenced" in said
    assert "the same command again, which finishes it" in said
    assert len(theatre.groups(stage)) == 2
    monkeypatch.undo()
    let_release(theatre, stage, ("DELETE", "PREFIXED"))
    assert "1 run id of a batch job is deleted" in release(stage)
    assert theatre.groups(stage) == set()


def test_runs_that_are_hidden_beside_no_ledger(theatre: Theatre, tmp_path: Path) -> None:
    """Nobody can tell whether there are any, so that is said."""
    stage = theatre.stage(tmp_path, RUNS)
    with contextlib.closing(WireCluster(WireSettings.from_options(theatre.as_admin(stage).options))) as cluster:
        delete_group(cluster, stage.name("billing"), cluster.deadline())
    let_release(theatre, stage, ("DELETE", "LITERAL"))
    said = release(stage)
    assert "run ids of batch jobs may be left: this user may not see groups that begin with" in said
    assert len(theatre.groups(stage)) == 1
