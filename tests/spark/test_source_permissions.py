"""A missing permission on the way in: the query ends with an error that says which one, and nothing is committed."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import semel
from semel.broker.runtime.intercept import AnswerError
from semel.protocol.error_codes import ErrorCode
from tests.spark.sink_jobs import Job, check_once
from tests.spark.source_topics import fill, load, new_topic, options

REFUSED = AnswerError(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
SAYS_WHAT_TO_ALLOW = r"TOPIC_AUTHORIZATION_FAILED[\s\S]*allow this user to read, write and describe the topic"


@pytest.fixture(scope="module")
def cluster() -> Iterator[semel.Cluster]:
    with semel.Cluster(brokers=1, config={"log.retention.ms": "-1"}) as started:
        yield started


@contextmanager
def forbidden(cluster: semel.Cluster, api: str) -> Iterator[None]:
    """Requests of one API are refused; somebody has to have asked."""
    hook = cluster.intercept(api, REFUSED, times=None, where=lambda seen: seen.client_id == "semel")
    try:
        yield
        assert hook.fired
    finally:
        cluster.disarm(hook)


@pytest.mark.parametrize("api", ["Metadata", "ListOffsets", "Fetch"])
def test_a_batch(spark: SparkSession, cluster: semel.Cluster, api: str) -> None:
    topic = new_topic(cluster)
    fill(cluster, topic, 10)
    with forbidden(cluster, api), pytest.raises(PySparkException, match=SAYS_WHAT_TO_ALLOW):
        load(spark, options(cluster, topic)).collect()
    assert load(spark, options(cluster, topic)).count() == 10


@pytest.mark.quick(1)
@pytest.mark.parametrize("api", ["ListOffsets", "Fetch"])
def test_a_stream(spark: SparkSession, cluster: semel.Cluster, tmp_path: Path, api: str) -> None:
    job = Job.filled(spark, cluster.bootstrap, tmp_path, range(10))
    with forbidden(cluster, api):
        failure = job.run() or ""
    assert re.search(SAYS_WHAT_TO_ALLOW, failure), failure
    assert job.output() == []
    job.finish()
    check_once(job.output(), range(10), ordered=True)
