"""What the vector tests share: one JVM with Kafka's own record classes."""

from collections.abc import Iterator

import pytest

from tests.support.java import JavaProgram


@pytest.fixture(scope="session")
def java() -> Iterator[JavaProgram]:
    with JavaProgram("RecordBatches") as program:
        yield program
