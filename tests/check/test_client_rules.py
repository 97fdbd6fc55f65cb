"""S001 to S012, S044, S046: settings of clients, each once wrong and once right."""

import pytest

from semel.check.rule import Finding, Severity
from semel.engine.embedded import Cluster
from semel.guarantee import Guarantee
from tests.check.looking import broken, client, held, look

Settings = dict[str, object]
MOST, LEAST, EXACTLY = Guarantee
IN_FLIGHT = "max.in.flight.requests.per.connection"
CASES: list[tuple[str, Guarantee, Settings, Settings]] = [
    ("S001", LEAST, {"acks": "1"}, {"acks": "all"}),
    ("S001", EXACTLY, {"acks": 0}, {"acks": "-1"}),
    ("S002", LEAST, {"acks": "all", "retries": "0"}, {"acks": "all", "retries": "3"}),
    ("S002", MOST, {"acks": "1", "retries": "3"}, {"acks": "1", "retries": "0"}),
    ("S003", EXACTLY, {"enable.idempotence": "false"}, {"enable.idempotence": "true"}),
    ("S003", EXACTLY, {"acks": "1"}, {"acks": "all"}),
    ("S004", EXACTLY, {"acks": "all", IN_FLIGHT: "6"}, {"acks": "all", IN_FLIGHT: "5"}),
    ("S005", LEAST, {"transactional.id": "t"}, {"acks": "all"}),
    ("S006", EXACTLY, {"acks": "all"}, {"transactional.id": "t"}),
    ("S007", LEAST, {"group.id": "g"}, {"group.id": "g", "enable.auto.commit": False}),
    ("S008", EXACTLY, {"group.id": "g"}, {"group.id": "g", "isolation.level": "read_committed"}),
    ("S009", LEAST, {"group.id": "g"}, {"group.id": "g", "auto.offset.reset": "earliest"}),
    ("S009", MOST, {"group.id": "g", "auto.offset.reset": "earliest"}, {"group.id": "g"}),
    ("S010", LEAST, {"acks": "all", "delivery.timeout.ms": "20000"}, {"acks": "all", "delivery.timeout.ms": "40000"}),
    ("S012", LEAST, {"auto.offset.reset": "earliest"}, {"auto.offset.reset": "earliest", "group.id": "g"}),
]


@pytest.mark.parametrize(("rule", "guarantee", "wrong", "right"), CASES, ids=lambda value: str(value)[:40])
def test_a_client_setting(weak: Cluster, rule: str, guarantee: Guarantee, wrong: Settings, right: Settings) -> None:
    def findings(settings: Settings) -> list[Finding]:
        return look(weak.bootstrap, guarantee=guarantee, clients=[client(settings)])

    finding = broken(findings(wrong), rule)
    assert "app.properties" in finding.fix
    held(findings(right), rule)


def test_the_times_of_a_transaction(weak: Cluster) -> None:
    def findings(settings: Settings, library: str) -> list[Finding]:
        return look(weak.bootstrap, clients=[client({"transactional.id": "t", **settings}, library=library)])

    broken(findings({"message.timeout.ms": 90_000}, "librdkafka"), "S011")
    finding = held(findings({}, "librdkafka"), "S011")
    assert "delivery.timeout.ms=60000" in finding.found, "librdkafka lowers it by itself"
    told = look(weak.bootstrap, clients=[client({"acks": "all"}, library="librdkafka")])
    assert "S011" not in {one.rule for one in told}, "without a transaction the two are not compared"
    for limit_ms in ("10000", "60000"):
        told = findings({"transaction.timeout.ms": limit_ms}, "java")
        assert "S011" not in {one.rule for one in told}, "the Java client does not compare the two"
        held(told, "S010")


@pytest.mark.parametrize("guarantee", Guarantee)
def test_a_name_that_no_library_knows(weak: Cluster, guarantee: Guarantee) -> None:
    def findings(settings: Settings, library: str = "java") -> list[Finding]:
        return look(weak.bootstrap, guarantee=guarantee, clients=[client(settings, library=library)])

    finding = broken(findings({"ack": "1", "enable.idempotance": "true", "acks": "all"}), "S047")
    assert "ack (acks?), enable.idempotance (enable.idempotence?)" in finding.found
    assert "acks for ack" in finding.fix
    assert finding.severity is Severity.ERROR
    held(findings({"acks": "all", "client.id": "a"}), "S047")


def test_a_name_like_no_other_may_belong_to_a_serializer(weak: Cluster) -> None:
    settings: Settings = {"acks": "all", "schema.registry.url": "http://hush:hush@a"}
    finding = broken(look(weak.bootstrap, clients=[client(settings)]), "S047")
    assert finding.severity is Severity.WARNING
    assert "schema.registry.url" in finding.found
    assert "hush" not in finding.found + finding.fix
    strict = broken(look(weak.bootstrap, clients=[client(settings, library="librdkafka")]), "S047")
    assert strict.severity is Severity.ERROR, "librdkafka does not start with it"


def test_two_producers_hash_keys_in_different_ways(weak: Cluster) -> None:
    java = client({"acks": "all"}, "java.properties")
    native = client({"acks": "all"}, "native.properties", library="librdkafka")
    same = client({"acks": "all", "partitioner": "murmur2_random"}, "native.properties", library="librdkafka")
    broken(look(weak.bootstrap, clients=[java, native]), "S044")
    held(look(weak.bootstrap, clients=[java, same]), "S044")


def test_the_offsets_of_a_consumer_beside_a_producer_have_a_transaction(weak: Cluster) -> None:
    reading = client({"group.id": "g", "enable.auto.commit": False}, "in.properties")
    plain, owner = client({"acks": "all"}, "out.properties"), client({"transactional.id": "t"}, "out.properties")
    finding = broken(look(weak.bootstrap, clients=[reading, plain]), "S046")
    assert "in.properties" in finding.fix
    held(look(weak.bootstrap, clients=[reading, owner]), "S046")
    for guarantee, clients in ((EXACTLY, [reading]), (EXACTLY, [plain]), (LEAST, [reading, plain])):
        findings = look(weak.bootstrap, guarantee=guarantee, clients=clients)
        assert "S046" not in {one.rule for one in findings}, "the settings do not tell"


def test_a_rule_is_not_applied_where_the_guarantee_does_not_ask_for_it(weak: Cluster) -> None:
    findings = look(weak.bootstrap, guarantee=MOST, clients=[client({"acks": "0", "retries": "0"})])
    assert "S001" not in {one.rule for one in findings}
    assert "S003" not in {one.rule for one in findings}


def test_a_producer_is_not_judged_as_a_consumer(weak: Cluster) -> None:
    findings = look(weak.bootstrap, clients=[client({"acks": "all"})])
    assert not {one.rule for one in findings} & {"S007", "S008", "S009", "S012"}
