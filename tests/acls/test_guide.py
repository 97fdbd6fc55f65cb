"""Every part of semel that needs no Spark runs with exactly the rights of the guide, and says what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import semel
from tests.acls.conftest import ApacheWithUsers
from tests.acls.guide import promises
from tests.acls.parts import OF_A_PIPELINE, PARTS, Stage, attempt
from tests.acls.rights import PASSWORDS
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
        """New topics with one order; for commands also a pipeline that has committed once."""
        prefix = f"script-guide-{next(_numbers)}-"
        stage = Stage(self.settings("app"), folder, prefix)
        made = self._admin.create_topics([NewTopic(stage.name(name), 1, 1) for name in ("orders", "bills")])
        for future in made.values():
            future.result(CLIENT_S_MAX)
        client = Producer(self.settings("admin"))
        client.produce(stage.name("orders"), b"one")
        assert client.flush(CLIENT_S_MAX) == 0
        if part in OF_A_PIPELINE:
            assert attempt("Exactly-once sink", Stage(self.settings("admin"), folder, prefix)) == ""
        return stage


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
