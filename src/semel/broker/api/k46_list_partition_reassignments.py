"""ListPartitionReassignments (key 46, v0): the partitions on their way to other brokers: never any here.

Differs:  docs/DIFFERENCES.md#k46
Versions: v0 first flexible.
Sources:  KIP-455.
"""

from __future__ import annotations

from semel.broker.context import Context
from semel.broker.registry import api
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def refuse(_: ListPartitionReassignmentsRequest, code: ErrorCode) -> ListPartitionReassignmentsResponse:
    """The error and no partitions."""
    return ListPartitionReassignmentsResponse(error_code=code, error_message=None)


@api(ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse, first=0, last=0, refuse=refuse)
async def answer(_: Context, __: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
    """Nothing is under way."""
    return ListPartitionReassignmentsResponse(error_message=None)
