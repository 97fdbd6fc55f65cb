"""How long a cluster keeps a ledger that nobody writes to (`offsets.retention.minutes`)."""

from __future__ import annotations

from semel.errors import SemelError
from semel.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from semel.wire.cluster import CoordinatorKind, WireCluster
from semel.wire.coordinators import Request, ask_coordinator
from semel.wire.deadline import Deadline

BROKER = 4
MINUTE_MS = 60_000
SETTING = "offsets.retention.minutes"


def ledger_kept_ms(cluster: WireCluster, group: str, deadline: Deadline) -> int | None:
    """Ask the group's coordinator, since it is the one that forgets; None when it does not say."""
    try:
        broker_id = cluster.coordinator(CoordinatorKind.GROUP, group, deadline).id
        answer = ask_coordinator(cluster, _request(group, broker_id), deadline)
    # Often a right that is missing. Nobody knows then, which is an answer that callers have a way for.
    except SemelError:
        return None
    for row in (row for result in answer.results for row in result.configs):
        if row.name == SETTING and (row.value or "").isdecimal():
            return int(row.value or "0") * MINUTE_MS
    return None


def _request(group: str, broker_id: int) -> Request[DescribeConfigsResponse]:
    resource = DescribeConfigsResource(resource_type=BROKER, resource_name=str(broker_id), configuration_keys=[SETTING])
    return Request(
        kind=CoordinatorKind.GROUP,
        key=group,
        message=DescribeConfigsRequest(resources=[resource]),
        response=DescribeConfigsResponse,
        codes=lambda answer: [row.error_code for row in answer.results],
        what="asking how long offsets are kept",
    )
