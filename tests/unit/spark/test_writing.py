"""`write_stream` and `write_batch` refuse what cannot work before anything is connected."""

from collections.abc import Callable
from typing import Any

import pytest

import semel
from semel.errors import ConfigError

SINK = semel.KafkaSink("127.0.0.1:1", "t")


class Frame:
    """A DataFrame of Spark Connect, as far as it is looked at: its session has no JVM."""

    sparkSession = object()  # noqa: N815
    isStreaming = True  # noqa: N815


@pytest.mark.parametrize(
    "write",
    [
        lambda frame: semel.write_stream(frame, SINK, pipeline="p", guarantee="exactly_once", checkpoint="c"),
        lambda frame: semel.write_batch(frame, SINK, pipeline="p", run_id="one"),
    ],
    ids=["stream", "batch"],
)
def test_spark_connect_is_refused(write: Callable[[Any], object]) -> None:
    with pytest.raises(ConfigError, match="a Spark Connect session cannot drive this sink") as refused:
        write(Frame())
    assert "a classic session" in refused.value.you_want


@pytest.mark.parametrize(
    "run_id", ["", " ", "x" * 1_800, "x" * 4_000, "mon\nday"], ids=["empty", "blank", "1800", "4000", "two lines"]
)
def test_a_run_id_that_cannot_be_kept_is_refused(run_id: str) -> None:
    frame: Any = Frame()
    with pytest.raises(ConfigError, match="run_id"):
        semel.write_batch(frame, SINK, pipeline="p", run_id=run_id)


@pytest.mark.parametrize("pipeline", ["p:run:0", "p:run", "p q", ""])
def test_a_pipeline_is_not_named_like_the_group_of_a_run(pipeline: str) -> None:
    frame: Any = Frame()
    with pytest.raises(ConfigError, match="cannot name a pipeline"):
        semel.write_batch(frame, SINK, pipeline=pipeline, run_id="one")
    with pytest.raises(ConfigError, match="cannot name a pipeline"):
        semel.KafkaSink("127.0.0.1:1", "t", pipeline=pipeline)
