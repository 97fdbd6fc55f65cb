"""DescribeLogDirs (key 35, v1-5): the data folder of this broker and how large its partitions are.

Differs:  docs/DIFFERENCES.md#k35
Versions: v2 first flexible; v3 top-level error; v4 size of the disk; v5 cordoned folders.
Sources:  KIP-113, KIP-827, KIP-1066.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter

from semel.broker.network.context import Context
from semel.broker.network.registry import api
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


def refuse(_: DescribeLogDirsRequest, code: ErrorCode) -> DescribeLogDirsResponse:
    """Answer with this error at the top, and on a folder without a name for versions that have it only there."""
    return DescribeLogDirsResponse(error_code=code, results=[DescribeLogDirsResult(error_code=code)])


@api(DescribeLogDirsRequest, DescribeLogDirsResponse, first=1, last=5, refuse=refuse)
async def answer(context: Context, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """Describe the partitions asked for that are here; null asks for all."""
    here = context.broker.replicas
    keys: Iterable[tuple[str, int]] = here
    if request.topics is not None:
        keys = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    # Sorted, since `groupby` below joins neighbours only. Led and copied replicas both lie in the folder.
    found = [here[key] for key in sorted(keys) if key in here]
    await context.pause_after(len(found))
    folder = DescribeLogDirsResult(
        log_dir=str(context.broker.folder),
        topics=[
            DescribeLogDirsTopic(
                name=name,
                partitions=[
                    DescribeLogDirsPartition(partition_index=one.index, partition_size=one.log.size_bytes)
                    for one in partitions
                ],
            )
            for name, partitions in groupby(found, attrgetter("topic"))
        ],
    )
    return DescribeLogDirsResponse(results=[folder])
