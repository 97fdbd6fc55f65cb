"""Requests and answers of every API that the sink uses are lost, cut, late or errors; the driver lives on."""

import pytest

import semel
from semel.broker.runtime.intercept import (
    Action,
    After,
    AnswerError,
    CutMidFrame,
    Delay,
    DropRequest,
    DropResponse,
    Seen,
)
from semel.protocol.error_codes import ErrorCode
from tests.spark.matrix.conftest import Make

ERRORS = {
    "InitProducerId": ErrorCode.CONCURRENT_TRANSACTIONS,
    "AddPartitionsToTxn": ErrorCode.CONCURRENT_TRANSACTIONS,
    "AddOffsetsToTxn": ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    "TxnOffsetCommit": ErrorCode.COORDINATOR_NOT_AVAILABLE,
    "EndTxn": ErrorCode.NOT_COORDINATOR,
    "OffsetFetch": ErrorCode.UNSTABLE_OFFSET_COMMIT,
    "Produce": ErrorCode.NOT_ENOUGH_REPLICAS,
}
ACTIONS: dict[str, Action] = {
    "request-lost": DropRequest(),
    "response-lost": DropResponse(),
    "response-cut": CutMidFrame(after_bytes=6),
    "request-late": Delay(ms=300),
    "response-late": Delay(ms=300, response=True),
}
SILENT: dict[str, Action] = {
    "request-silent": DropRequest(then=After.SILENCE),
    "response-silent": DropResponse(then=After.SILENCE),
}
QUICK = {"kafka.request.timeout.ms": "700"}


def _is_ours(seen: Seen) -> bool:
    """Leave the outside reader alone."""
    return seen.client_id == "semel"


@pytest.mark.sampled(16)
@pytest.mark.quick(4)
@pytest.mark.parametrize("api", list(ERRORS))
@pytest.mark.parametrize("action", list(ACTIONS))
def test_a_message_is_lost(make: Make, cluster: semel.Cluster, api: str, action: str) -> None:
    pipeline = make("keyed" if len(api) % 2 else "spread")
    hook = cluster.intercept(api, ACTIONS[action], where=_is_ours)
    assert pipeline.survive() == []
    assert hook.fired == 1
    pipeline.check()


@pytest.mark.quick(1)
@pytest.mark.parametrize("api", ["InitProducerId", "Produce", "TxnOffsetCommit", "EndTxn"])
@pytest.mark.parametrize("action", list(SILENT))
def test_a_broker_says_nothing(make: Make, cluster: semel.Cluster, api: str, action: str) -> None:
    pipeline = make("spread", kafka_options=QUICK)
    hook = cluster.intercept(api, SILENT[action], where=_is_ours)
    assert pipeline.survive() == []
    assert hook.fired == 1
    pipeline.check()


@pytest.mark.quick(1)
@pytest.mark.parametrize("api", list(ERRORS))
def test_an_answer_is_an_error(make: Make, cluster: semel.Cluster, api: str) -> None:
    pipeline = make("keyed" if len(api) % 2 else "spread")
    hook = cluster.intercept(api, AnswerError(code=ERRORS[api]), times=2, where=_is_ours)
    assert pipeline.survive() == []
    assert hook.fired == 2
    pipeline.check()


@pytest.mark.quick(1)
@pytest.mark.parametrize("partitioning", ["keyed", "spread"])
def test_the_end_is_lost_for_good(make: Make, cluster: semel.Cluster, partitioning: str) -> None:
    """E3: the commit happened, and no answer ever comes; the next driver learns it from the ledger."""
    pipeline = make(partitioning, kafka_options={"kafka.default.api.timeout.ms": "1500"})
    hook = cluster.intercept("EndTxn", DropResponse(), times=None, where=_is_ours)
    with pytest.raises(semel.SemelError, match=r"no answer says whether transaction .* was committed"):
        pipeline.drive()
    assert hook.fired > 1
    cluster.disarm(hook)
    pipeline.drive()
    pipeline.check()


@pytest.mark.quick(1)
@pytest.mark.parametrize("partitioning", ["keyed", "spread"])
def test_the_end_never_arrives(make: Make, cluster: semel.Cluster, partitioning: str) -> None:
    """E3: the same for the driver, but this time nothing was committed."""
    pipeline = make(partitioning, kafka_options={"kafka.default.api.timeout.ms": "1500"})
    hook = cluster.intercept("EndTxn", DropRequest(), times=None, where=_is_ours)
    with pytest.raises(semel.SemelError, match=r"no answer says whether transaction .* was committed"):
        pipeline.drive()
    assert hook.fired > 1
    cluster.disarm(hook)
    pipeline.drive()
    pipeline.check()


def test_the_ledger_cannot_be_read(make: Make, cluster: semel.Cluster) -> None:
    pipeline = make("spread", kafka_options={"kafka.default.api.timeout.ms": "1500"})
    hook = cluster.intercept(
        "OffsetFetch", AnswerError(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), times=None, where=_is_ours
    )
    with pytest.raises(semel.SemelError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        pipeline.drive()
    assert hook.fired > 1
    cluster.disarm(hook)
    assert pipeline.output() == []
    pipeline.drive()
    pipeline.check()
