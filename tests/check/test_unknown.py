"""What could not be seen is UNKNOWN, never passed: permissions, brokers that do not answer, facts nobody has."""

import pytest

from semel.broker.runtime.intercept import After, AnswerError, DropRequest
from semel.check.examination import Examination, verdict_of
from semel.check.facts import FactMissing, Facts, Unknown, known, number, setting
from semel.check.gathering import cluster as gathering
from semel.check.gathering.cluster import ClusterFacts, Wanted
from semel.check.judging import judge_all
from semel.check.rules import RULES
from semel.drill.damage.records import commit_position, consumer, new_name, new_topic
from semel.engine.embedded import Cluster
from semel.errors import EnvironmentFailure
from semel.guarantee import Guarantee
from semel.history.verdict import Verdict
from semel.protocol.error_codes import ErrorCode
from tests.check.looking import broken, held, look, said, unknown, wired
from tests.features.reading import wire_to_coordinator

TOPIC_SETTINGS = ["S021", "S022", "S023", "S025", "S027", "S030"]
BROKER_SETTINGS = ["S034", "S035", "S040", "S041", "S042"]


@pytest.fixture
def topic(weak: Cluster) -> str:
    """A topic that breaks and keeps some rules."""
    return new_topic(weak, "unseen", replicas=3)


def test_settings_that_may_not_be_described(weak: Cluster, topic: str) -> None:
    hook = weak.intercept("DescribeConfigs", AnswerError(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED), times=None)
    findings = look(weak.bootstrap, topic)
    assert hook.fired
    for rule in TOPIC_SETTINGS + BROKER_SETTINGS:
        assert "AUTHORIZATION_FAILED" in unknown(findings, rule).found
    held(findings, "S020")


def test_a_topic_that_may_not_be_described(weak: Cluster, topic: str) -> None:
    other = new_topic(weak, "seen", replicas=3)
    hook = weak.intercept(
        "Metadata",
        AnswerError(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        times=None,
        where=lambda seen: any(row.name == topic for row in getattr(seen.request, "topics", None) or ()),
    )
    findings = look(weak.bootstrap, topic, other)
    assert hook.fired
    of_topic = [one for one in findings if one.subject == f"topic {topic}"]
    for rule in ("S020", "S024", "S030", "S038", "S043"):
        unknown(of_topic, rule)
    held(of_topic, "S023")
    assert said([one for one in findings if one.subject == f"topic {other}"], "S020").verdict is Verdict.HELD


@pytest.mark.parametrize("api", ["DescribeGroups", "OffsetFetch"])
def test_a_group_that_may_not_be_described(weak: Cluster, topic: str, api: str) -> None:
    group = new_name("unseen")
    client = consumer(weak, group)
    commit_position(client, topic, 0)
    client.close()
    hook = weak.intercept(api, AnswerError(code=ErrorCode.GROUP_AUTHORIZATION_FAILED), times=None)
    findings = look(weak.bootstrap, topic, groups=[group])
    assert hook.fired
    unknown(findings, "S037")


def test_transactions_that_may_not_be_described(weak: Cluster, topic: str) -> None:
    wire_to_coordinator(weak, "t").close()
    code = AnswerError(code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    hook = weak.intercept("DescribeTransactions", code, times=None)
    unknown(look(weak.bootstrap, topic, transactional_ids=["t"]), "S039")
    assert hook.fired


def test_producers_that_may_not_be_described(weak: Cluster, topic: str) -> None:
    hook = weak.intercept("DescribeProducers", AnswerError(code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED), times=None)
    unknown(look(weak.bootstrap, topic), "S038")
    assert hook.fired


def test_a_broker_that_does_not_answer(weak: Cluster, topic: str) -> None:
    hook = weak.intercept(
        "DescribeConfigs", DropRequest(then=After.SILENCE), times=None, where=lambda seen: seen.broker_id == 2
    )
    with wired(weak.bootstrap, api_ms=300) as cluster:
        wanted = Wanted(guarantee=Guarantee.EXACTLY_ONCE)
        findings = judge_all(RULES, ClusterFacts(cluster, 0).gather(wanted))
    assert hook.fired
    verdicts = {one.subject: one.verdict for one in findings if one.rule == "S034"}
    assert verdicts["broker 2"] is Verdict.UNKNOWN
    assert verdicts["broker 1"] is Verdict.BROKEN
    broken([one for one in findings if one.subject != "broker 2"], "S034")


def test_the_time_for_all_facts_is_limited(weak: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "ALL_MS_MAX", 400)
    hook = weak.intercept("DescribeConfigs", DropRequest(then=After.SILENCE), times=None)
    findings = look(weak.bootstrap, topic)
    assert hook.fired < 4, "once the time is up nothing is asked any more"
    unknown(findings, "S023")
    unknown(findings, "S034")


def test_a_group_without_a_topic_to_compare_with(weak: Cluster, topic: str) -> None:
    group = new_name("alone")
    client = consumer(weak, group)
    commit_position(client, topic, 0)
    client.close()
    unknown(look(weak.bootstrap, groups=[group]), "S037")


def test_a_cluster_that_is_not_there() -> None:
    with wired("127.0.0.1:1", api_ms=200) as cluster:
        examination = Examination(guarantee=Guarantee.EXACTLY_ONCE, now_ms=lambda: 0, cluster=cluster)
        with pytest.raises(EnvironmentFailure, match="cannot be examined") as caught:
            examination.gather()
    assert caught.value.next_command


def test_no_finding_at_all_is_unknown() -> None:
    assert verdict_of([]) is Verdict.UNKNOWN


def test_facts_that_are_missing() -> None:
    with pytest.raises(FactMissing, match="refused"):
        known(Unknown("refused"))
    with pytest.raises(FactMissing, match=r"does not tell retention\.ms"):
        setting({}, "retention.ms")
    with pytest.raises(FactMissing, match="not a number"):
        number({"retention.ms": "long"}, "retention.ms")


def test_without_a_cluster_only_files_are_judged() -> None:
    facts = Facts(guarantee=Guarantee.EXACTLY_ONCE, now_ms=0)
    assert judge_all(RULES, facts) == []
