"""`foreachBatch` with JDBC that dies between write and commit: the audit counts what was written twice."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from tests.audit.test_other_pipelines import RECORDS, run, source_of
from tests.features.test_m35_audit import OF_TOPIC, Ground, cluster, columns, database, ground, jdbc
from tests.spark.conftest import spark
from tests.spark.sink_jobs import fill, new_topics
from tests.support.postgres import postgres

__all__ = ["cluster", "database", "ground", "postgres", "spark"]


def dying_writer(write: Callable[[DataFrame], None]) -> Callable[[DataFrame, int], None]:
    """Writes, and dies once behind the second write, before Spark commits."""
    deaths = iter([True])

    def micro_batch(rows: DataFrame, micro_batch_id: int) -> None:
        write(rows)
        if micro_batch_id == 1 and next(deaths, False):
            raise RuntimeError("killed between write and commit")

    return micro_batch


@pytest.mark.full
def test_foreach_batch_into_jdbc_writes_a_micro_batch_twice(ground: Ground) -> None:
    bootstrap, server = ground.cluster.bootstrap, ground.database
    (source,) = new_topics(bootstrap, 3)
    fill(bootstrap, source, range(RECORDS))
    given = psycopg.conninfo.conninfo_to_dict(server.conninfo)
    url = jdbc(server, "by_jdbc").removesuffix("#by_jdbc")
    login = {"user": str(given["user"]), "password": str(given["password"]), "driver": "org.postgresql.Driver"}
    rows = source_of(ground.spark, ground.cluster, source).selectExpr(
        *(f"{sql} AS {name}" for name, sql in OF_TOPIC.items())
    )
    write = dying_writer(lambda some: some.write.jdbc(url, "by_jdbc", mode="append", properties=login))
    checkpoint = ground.folder / "checkpoint"
    with pytest.raises(StreamingQueryException, match="killed between write and commit"):
        run(rows.writeStream.foreachBatch(write), checkpoint)
    run(rows.writeStream.foreachBatch(write), checkpoint)
    with psycopg.connect(server.conninfo) as connection:
        (there,) = connection.execute("SELECT count(*) FROM by_jdbc").fetchone() or (0,)
    assert there > RECORDS, "the pipeline did not write twice, so there is nothing to find"
    asked = [*columns("left"), "--key", "number", "--content", "name"]
    code, found, _ = ground.audit(f"kafka://{bootstrap}/{source}", jdbc(server, "by_jdbc"), *asked)
    assert (code, found) == (1, {"duplicated": there - RECORDS})
