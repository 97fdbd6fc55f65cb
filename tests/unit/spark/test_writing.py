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
