"""The group of a batch job's run, as the driver's half of the sink asks and fills it; no Spark."""

from __future__ import annotations

import json

import pytest
from confluent_kafka.admin import AdminClient

from semel.broker.runtime.intercept import Action, AnswerError, DropRequest, DropResponse
from semel.engine.embedded import Cluster
from semel.errors import BrokerError, ConfigError, OutcomeUnknownError
from semel.protocol.error_codes import ErrorCode
from semel.sinks.base import Run
from semel.sinks.kafka.runs import run_group
from semel.sinks.recovery import Plan
from semel.sinks.run_ids import DAY_MS
from semel.wire.cluster import WireCluster
from semel.wire.group_offsets import CommittedOffset, committed_offsets
from semel.wire.topology import TopicPartition
from semel.wire.transaction import TransactionClient
from tests.support.topics import create_topic
from tests.wire.empty_micro_batches import empty_run, open_session, write_run

CLIENT_S_MAX = 10.0
SOON = {"kafka.default.api.timeout.ms": "1500"}


def test_a_run_has_a_group_that_names_it(cluster: Cluster, client: WireCluster, topic: str) -> None:
    session = open_session(cluster, topic)
    assert session.prepare_run(empty_run(session, "Zürich 🙂")) == 7 * DAY_MS
    assert [write_run(session, "Zürich 🙂"), write_run(session, "Zürich 🙂")] == [Plan.RUN, Plan.SKIP]
    group = run_group(topic, Run(id="Zürich 🙂"))
    ((place, row),) = committed_offsets(client, group, deadline=client.deadline()).items()
    assert (place, row.offset_next) == (TopicPartition(topic, 0), 1)
    topic_id = str(client.topics(client.deadline(), [topic])[topic].topic_id)
    assert json.loads(row.metadata) == {"semel": 1, "run": "Zürich 🙂", "targets": {topic: topic_id}}


@pytest.mark.parametrize("is_first", [True, False], ids=["first", "second"])
def test_a_run_that_is_in_other_topics_is_refused_before_anybody_is_fenced(
    cluster: Cluster, topic: str, is_first: bool
) -> None:
    """Fewer, more, or one that has only its name from the one that was written."""
    more = f"{topic}-more"
    create_topic(cluster, more)
    session = open_session(cluster, topic, more)
    assert write_run(session, "monday") is Plan.RUN
    fewer = open_session(cluster, topic, **{"kafka.client.id": "fewer"})
    with pytest.raises(
        ConfigError, match=f"was written to {topic}, {more}, and this sink writes to {topic}"
    ) as refused:
        fewer.prepare_run(empty_run(fewer, "monday"))
    assert f"semel pipeline status {topic}" in refused.value.next_command
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    gone = topic if is_first else more
    admin.delete_topics([gone])[gone].result(CLIENT_S_MAX)
    create_topic(cluster, gone)
    again = open_session(cluster, topic, more, **{"kafka.client.id": "again"})
    with pytest.raises(ConfigError, match=f"was written to a topic {gone} that was deleted since"):
        again.prepare_run(empty_run(again, "monday"))
    assert write_run(again, "monday again") is Plan.RUN
    assert write_run(again, "monday again") is Plan.SKIP


def test_an_entry_that_is_undecided_is_not_missing(cluster: Cluster, client: WireCluster, topic: str) -> None:
    """E12, for the entry of a run."""
    session = open_session(cluster, topic, **SOON)
    assert write_run(session, "sunday") is Plan.RUN
    other = TransactionClient(client, f"{topic}-other", timeout_ms=60_000)
    other.begin(client.deadline())
    entry = {TopicPartition(topic, 0): CommittedOffset(offset_next=1)}
    other.commit_offsets(run_group(topic, Run(id="monday")), entry, client.deadline())
    for _ in range(2):
        with pytest.raises(OutcomeUnknownError, match="a transaction that is not decided"):
            write_run(session, "monday")
    assert write_run(session, "tuesday") is Plan.RUN
    other.end(client.deadline(), commit=False)
    assert [write_run(session, "monday"), write_run(session, "monday")] == [Plan.RUN, Plan.SKIP]


def test_a_run_that_was_not_committed_is_not_remembered(cluster: Cluster, topic: str) -> None:
    session = open_session(cluster, topic)
    job = empty_run(session, "monday")
    session.own()
    session.read_ledger(job)
    session.write_ledger(job)
    assert write_run(open_session(cluster, topic, **{"kafka.client.id": "next"}), "monday") is Plan.RUN


def test_the_retention_is_a_secret(cluster: Cluster, topic: str) -> None:
    """Without the permission to ask, a run is written, and how long it is remembered stays unknown."""
    cluster.intercept("DescribeConfigs", AnswerError(code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED), times=None)
    session = open_session(cluster, topic)
    assert session.prepare_run(empty_run(session, "monday")) is None
    assert [write_run(session, "monday"), write_run(session, "monday")] == [Plan.RUN, Plan.SKIP]


def test_the_groups_of_runs_are_not_allowed(cluster: Cluster, topic: str) -> None:
    session = open_session(cluster, topic)
    hook = cluster.intercept("AddOffsetsToTxn", AnswerError(code=ErrorCode.GROUP_AUTHORIZATION_FAILED), times=None)
    with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED") as refused:
        write_run(session, "monday")
    assert hook.fired
    assert "a prefixed ACL" in refused.value.next_command
    cluster.disarm(hook)
    session.abort()
    assert write_run(session, "monday") is Plan.RUN


@pytest.mark.parametrize(
    ("lost", "plan"), [(DropRequest(), Plan.RUN), (DropResponse(), Plan.SKIP)], ids=["request", "response"]
)
def test_after_a_commit_without_an_answer_the_group_tells(
    cluster: Cluster, topic: str, lost: Action, plan: Action
) -> None:
    session = open_session(cluster, topic, **SOON)
    assert write_run(session, "sunday") is Plan.RUN
    hook = cluster.intercept("EndTxn", lost, times=None)
    with pytest.raises(OutcomeUnknownError, match="no answer says whether"):
        write_run(session, "monday")
    assert hook.fired
    cluster.disarm(hook)
    assert [write_run(session, "monday"), write_run(session, "monday")] == [plan, Plan.SKIP]


def test_a_run_whose_offset_is_refused_leaves_nothing(cluster: Cluster, client: WireCluster, topic: str) -> None:
    """The second of two groups in one transaction."""
    session = open_session(cluster, topic, **SOON)
    refusal = AnswerError(code=ErrorCode.OFFSET_METADATA_TOO_LARGE)
    group = run_group(topic, Run(id="monday"))
    hook = cluster.intercept(
        "TxnOffsetCommit", refusal, times=None, where=lambda seen: getattr(seen.request, "group_id", "") == group
    )
    with pytest.raises(BrokerError, match="OFFSET_METADATA_TOO_LARGE"):
        write_run(session, "monday")
    assert hook.fired
    cluster.disarm(hook)
    session.abort()
    assert committed_offsets(client, topic, deadline=client.deadline()) == {}
    assert write_run(session, "monday") is Plan.RUN
