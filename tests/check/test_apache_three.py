"""Three nodes of Apache Kafka with strict settings: every rule about them holds, until a node is down."""

from collections.abc import Iterator

import pytest

from semel.check.rule import About, Finding
from semel.check.rules import RULES
from semel.drill.damage.records import WAIT_S_MAX, commit_position, consumer, new_name, new_topic, producer
from semel.engine.apache import ApacheCluster
from semel.history.verdict import Verdict
from tests.check.conftest import STRICT
from tests.check.looking import broken, client, held, look, said
from tests.support.waiting import eventually

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def three() -> Iterator[ApacheCluster]:
    with ApacheCluster(brokers=3, config=STRICT) as started:
        yield started


def test_strict_settings_and_a_node_that_is_down(three: ApacheCluster) -> None:
    topic, group, name = new_topic(three, "fine", replicas=3), new_name("fine"), new_name("fine")
    reader, writer = consumer(three, group), producer(three, {"transactional.id": name})
    commit_position(reader, topic, 0)
    writer.init_transactions(WAIT_S_MAX)
    findings = look(
        three.bootstrap,
        topic,
        groups=[group],
        transactional_ids=[name],
        clients=[client({"transactional.id": name}, role="producer")],
    )
    assert [one for one in findings if one.verdict is not Verdict.HELD] == []
    of_cluster = {rule.id for rule in RULES if rule.about not in (About.CLIENT, About.QUERY)} - {"S036"}
    assert of_cluster - {one.rule for one in findings} == set()
    broken(_look_when_known(three, new_topic(three, "double", replicas=2)), "S020")
    three.kill_node(3)
    eventually(lambda: _verdict(three, topic) is Verdict.BROKEN, 60, what="the node left the in-sync replicas")
    held(look(three.bootstrap, topic), "S020")
    reader.close()


def _look_when_known(three: ApacheCluster, topic: str) -> list[Finding]:
    """A node hears of a topic later than another; until then it says, rightly, that it knows of none."""

    def known() -> list[Finding] | None:
        findings = look(three.bootstrap, topic)
        return findings if said(findings, "S043").verdict is Verdict.HELD else None

    return eventually(known, 60, what="every node that is asked knows the topic")


def _verdict(three: ApacheCluster, topic: str) -> Verdict:
    (found,) = [one for one in look(three.bootstrap, topic) if one.rule == "S024"]
    return found.verdict
