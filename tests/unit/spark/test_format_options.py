"""Options of the formats that write: what is missing, unknown or wrong is refused by name, without any password."""

from __future__ import annotations

import pickle

import pytest

from semel.errors import ConfigError
from semel.guarantee import Guarantee
from semel.sinks.delta.sink import DeltaSink
from semel.sinks.postgres.sink import Mode, PostgresSink
from semel.spark.format_options import DELTA, POSTGRES, Format, parse_options

POSTGRES_GIVEN = {"dsn": "host=db password=hunter2", "table": "orders", "pipeline": "orders"}
STREAM = {"guarantee": "exactly_once", "checkpointlocation": "/data/checkpoint", "queryname": "orders"}
DELTA_GIVEN = {"path": "/data/orders", "pipeline": "orders"}


def test_every_argument_of_the_postgres_sink() -> None:
    upsert = {
        "mode": "upsert",
        "key": '["id", "a,b"]',
        "order_by": "at",
        "delete_by": "gone",
        "create_table": "TRUE",
        "commits_kept_days": "30",
        "ledger_missing": "run",
        "lost_state": "accept",
    }
    found = parse_options(POSTGRES_GIVEN | STREAM | upsert, POSTGRES, streaming=True)
    sink = pickle.loads(pickle.dumps(found)).sink
    assert isinstance(sink, PostgresSink)
    assert (sink.mode, sink.key, sink.order_by, sink.delete_by) == (Mode.UPSERT, ("id", "a,b"), "at", "gone")
    assert (sink.create_table, sink.commits_kept_days) == (True, 30)
    assert (sink.ledger_missing, sink.lost_state) == ("run", "accept")
    assert (found.pipeline, found.checkpoint) == ("orders", "/data/checkpoint")
    assert "hunter2" not in repr(found)


def test_every_argument_of_the_delta_sink() -> None:
    given = {"partition_by": "day, region", "merge_schema": "true", "run_id": "monday"}
    found = parse_options(DELTA_GIVEN | given, DELTA, streaming=False)
    assert isinstance(found.sink, DeltaSink)
    assert (found.sink.partition_by, found.sink.merge_schema) == (("day", "region"), True)
    assert (found.run_id, found.guarantee) == ("monday", Guarantee.EXACTLY_ONCE)


@pytest.mark.parametrize(
    ("kind", "streaming", "given", "words"),
    [
        (POSTGRES, True, {"tabel": "orders"}, "no option 'tabel'.*want +table"),
        (DELTA, True, {"table": "orders"}, "format 'semel-delta' has no option 'table'"),
        (DELTA, True, {"run_id": "monday"}, "'run_id' is not for a stream"),
        (DELTA, False, {"checkpointlocation": "/data"}, "'checkpointlocation' is not for a batch job"),
        (DELTA, True, {"guarantee": ""}, "option 'guarantee' is missing"),
        (DELTA, True, {"checkpointlocation": ""}, "option 'checkpointLocation' is missing"),
        (DELTA, False, {"run_id": ""}, "option 'run_id' is missing"),
        (DELTA, True, {"pipeline": ""}, "option 'pipeline' is missing"),
        (DELTA, True, {"pipeline": "a b"}, "cannot name a pipeline"),
        (DELTA, True, {"guarantee": "exactly_twice"}, "exactly_twice"),
        (DELTA, True, {"path": ""}, "option 'path' is missing"),
        (DELTA, True, {"merge_schema": "yes"}, "true or false"),
        (DELTA, True, {"partition_by": "[day]"}, "it is not JSON"),
        (DELTA, True, {"ledger_missing": "skip"}, "was begun before"),
        (DELTA, True, {"ledger_missing": "ask"}, "ledger_missing='ask' is unknown"),
        (POSTGRES, True, {"dsn": ""}, "option 'dsn' is missing"),
        (POSTGRES, True, {"dsn": "hunter2"}, "connection string cannot be read"),
        (POSTGRES, True, {"commits_kept_days": "0"}, "at least 1"),
    ],
)
def test_what_is_wrong_is_refused_by_name(kind: Format, streaming: bool, given: dict[str, str], words: str) -> None:
    whole = (POSTGRES_GIVEN if kind is POSTGRES else DELTA_GIVEN) | (STREAM if streaming else {"run_id": "one"})
    with pytest.raises(ConfigError, match=f"(?s){words}") as caught:
        parse_options(whole | given, kind, streaming=streaming)
    assert "hunter2" not in str(caught.value)
