"""Runs queries whose options have passwords, with Spark's pages and event log on, and keeps all that Spark shows.

    python -m tests.spark.pages_program FOLDER

Every text goes into a file below FOLDER, and so does what Spark logs at level INFO.
"""

from __future__ import annotations

import html
import itertools
import json
import os
import re
import sys
import traceback
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.streaming.query import StreamingQuery

import semel
import semel.spark
from semel.engine.java import spark_environment
from tests.support.spark_home import java_options

IN_OPTION = "p4ss-in-option"
IN_JAAS = "p4ss-in-jaas"
OF_KEY = "p4ss-of-key"
WRONG = "p4ss-that-is-wrong"
CANARY = "can4ry"  # what must be found everywhere, so that finding no secret means something
SECRETS = (IN_OPTION, IN_JAAS, OF_KEY, WRONG)
USERS = {"ann": IN_OPTION, "joe": IN_JAAS}
LOGIN = ("kafka.sasl.username", "kafka.sasl.password")
WAIT_S = 60
STARTS_MAX = 3
PAGES_MAX = 200


class Heard(StreamingQueryListener):
    """Everything that listeners are told."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def onQueryStarted(self, event: Any) -> None:
        self.events.append(f"{event.id} {event.name}")

    def onQueryProgress(self, event: Any) -> None:
        self.events.append(event.progress.json)

    def onQueryIdle(self, event: Any) -> None:
        self.events.append(str(event.id))

    def onQueryTerminated(self, event: Any) -> None:
        self.events.append(str(event.exception))


LOGGING = """rootLogger.level = info
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {folder}/log.txt
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %p %c: %m%n%ex
"""


def make_session(folder: Path) -> SparkSession:
    os.environ.update(spark_environment())
    (folder / "events").mkdir()
    logging = folder / "log4j2.properties"
    logging.write_text(LOGGING.format(folder=folder))
    session = (
        SparkSession.builder.master("local[2]")
        .appName(f"pages {CANARY}")
        .config("spark.driver.extraJavaOptions", f"{java_options()} -Dlog4j2.configurationFile={logging}")
        .config("spark.ui.enabled", "true")
        .config("spark.ui.port", "0")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.compress", "false")
        .config("spark.eventLog.dir", (folder / "events").as_uri())
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    return semel.spark.register(session)


def encrypted_key(plain: str, folder: Path) -> str:
    """The cluster's client key again, with a password."""
    key = serialization.load_pem_private_key(Path(plain).read_bytes(), None)
    target = folder / "client-key.pem"
    target.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(OF_KEY.encode()),
        )
    )
    return str(target)


def options_of(cluster: semel.Cluster, folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The same way to connect with the password as an option, and inside a JAAS text."""
    told = cluster.client_settings_of("ann", "SCRAM-SHA-256")
    told["ssl.key.location"] = encrypted_key(told["ssl.key.location"], folder)
    told["ssl.key.password"] = OF_KEY
    plain = {f"kafka.{name}": value for name, value in told.items()}
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    by_jaas = {name: value for name, value in plain.items() if name not in LOGIN}
    by_jaas["kafka.sasl.jaas.config"] = f'{module} required username="joe" password="{IN_JAAS}";'
    return plain, by_jaas


def explain(rows: DataFrame) -> str:
    execution = rows._jdf.queryExecution()
    texts = [execution.toString(), execution.logical().treeString(), execution.analyzed().toString()]
    if not rows.isStreaming:
        kinds = ("simple", "extended", "codegen", "cost", "formatted")
        jvm: Any = rows.sparkSession._jvm
        mode = jvm.org.apache.spark.sql.execution.ExplainMode.fromString
        texts += [execution.explainString(mode(kind)) for kind in kinds]
    return "\n".join(map(str, texts))


def failure_of(work: Callable[[], object]) -> str:
    try:
        work()
    except Exception as error:  # noqa: BLE001 - whatever Spark makes of it is what users see
        return f"{error}\n{error!r}\n{traceback.format_exc()}"
    raise AssertionError("it did not fail")


def crawl(start: str) -> str:
    """Every page that Spark's own page leads to, and what its REST interface says."""
    seen: dict[str, str] = {}
    waiting = [f"{start}/", f"{start}/SQL/", f"{start}/StreamingQuery/", f"{start}/environment/"]
    rest = f"{start}/api/v1/applications"
    waiting.append(rest)
    for application in json.loads(urllib.request.urlopen(rest, timeout=WAIT_S).read()):
        own = f"{rest}/{application['id']}"
        waiting += [f"{own}/sql?details=true&planDescription=true&length=1000", f"{own}/environment", f"{own}/stages"]
        waiting += [f"{own}/jobs", f"{own}/logs"]
    while waiting and len(seen) < PAGES_MAX:
        address = waiting.pop(0)
        if address in seen or address.endswith("/logs") or "/kill" in address or "threadDump" in address:
            continue
        try:
            text = urllib.request.urlopen(address, timeout=WAIT_S).read().decode(errors="replace")
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
        seen[address] = text
        if "/api/" not in address:
            # The same tables in another order are no other pages.
            links = sorted(set(re.findall(r'href="(/[^"]*)"', text)))
            waiting += [start + html.unescape(link) for link in links if ".sort=" not in link]
    return "\n\n".join(f"==== {address}\n{text}" for address, text in seen.items())


def copied(stream: DataFrame, sink: semel.KafkaSink, number: int, checkpoint: str) -> StreamingQuery:
    """A query that has come to its end.

    Spark gives the Python process that plans a query ten seconds to call back. A machine that stands still for so long
    ends the query before anything has happened; it is then started again, as its operator would.
    """
    for _ in range(STARTS_MAX):
        query = semel.write_stream(
            stream.selectExpr("upper(cast(value as string)) as value"),
            sink,
            pipeline=f"copy-{number}",
            guarantee="exactly_once",
            checkpoint=checkpoint,
            trigger={"availableNow": True},
            query_name=f"{CANARY}-{number}",
        )
        try:
            query.awaitTermination(WAIT_S)
        except StreamingQueryException as error:
            if "failed to connect back" not in str(error):
                raise
        else:
            return query
    raise TimeoutError("Spark's Python processes did not call back")


def main(folder: Path) -> None:
    spark = make_session(folder)
    heard = Heard()
    spark.streams.addListener(heard)
    security = semel.Security(tls=semel.Tls.self_signed(client_auth="required"), users=USERS)
    texts: dict[str, list[str]] = {"explain": [], "progress": [], "exceptions": []}
    with semel.Cluster(brokers=1, topics=["orders:2:1", "copy-0:2:1", "copy-1:2:1"], security=security) as cluster:
        plain, by_jaas = options_of(cluster, folder)
        checkpoints = (str(folder / f"checkpoint-{number}") for number in itertools.count())
        first = spark.range(20).selectExpr("cast(id as string) as value")
        semel.write_batch(first, semel.KafkaSink(by_jaas, "orders"), pipeline="first", run_id="one")
        texts["explain"].append(f"{semel.KafkaSink(plain, 'orders')!r} {semel.KafkaSink(by_jaas, 'orders').wire!r}")
        for number, given in enumerate((plain, by_jaas)):
            source = {**given, "subscribe": "orders", "startingOffsets": "earliest"}
            rows = spark.read.format("semel").options(**source).load()
            assert rows.count() == 20
            texts["explain"].append(explain(rows.groupBy("partition").count().withColumnRenamed("count", CANARY)))
            stream = spark.readStream.format("semel").options(**source).load()
            texts["explain"].append(explain(stream))
            query = copied(stream, semel.KafkaSink(given, f"copy-{number}"), number, next(checkpoints))
            shown = query._jsq.explainInternal(True)
            texts["explain"].append(str(shown))
            texts["progress"] += [json.dumps(query.status), *(one.json for one in query.recentProgress)]
            assert query.recentProgress, "the query has shown nothing"

            wrong = {name: value.replace(IN_OPTION, WRONG).replace(IN_JAAS, WRONG) for name, value in given.items()}
            bad_source = {**wrong, "subscribe": "orders"}

            def write_wrongly(wrong: dict[str, str] = wrong, stream: DataFrame = stream) -> None:
                semel.write_stream(
                    stream.select("value"),
                    semel.KafkaSink(wrong, "copy-0"),
                    pipeline="wrong",
                    guarantee="exactly_once",
                    checkpoint=next(checkpoints),
                    trigger={"availableNow": True},
                ).awaitTermination(WAIT_S)

            def read_wrongly(bad_source: dict[str, str] = bad_source) -> None:
                bad = spark.readStream.format("semel").options(**bad_source).load()
                bad.writeStream.format("noop").option("checkpointLocation", next(checkpoints)).start().awaitTermination(
                    WAIT_S
                )

            def read_batch_wrongly(bad_source: dict[str, str] = bad_source) -> None:
                spark.read.format("semel").options(**bad_source).load().collect()

            def read_with_typing_error(source: dict[str, str] = source) -> None:
                spark.read.format("semel").options(**{**source, "kafka.sasl.pasword": WRONG}).load()

            def read_with_bad_jaas(source: dict[str, str] = source) -> None:
                bare = {name: value for name, value in source.items() if name not in LOGIN}
                spark.read.format("semel").options(**{**bare, "kafka.sasl.jaas.config": f"password={WRONG}"}).load()

            def fail_in_a_task(rows: DataFrame = rows) -> None:
                rows.selectExpr(f"raise_error('{CANARY}')").collect()

            works = (write_wrongly, read_wrongly, read_batch_wrongly, read_with_typing_error, read_with_bad_jaas)
            texts["exceptions"] += [failure_of(work) for work in (*works, fail_in_a_task)]
        pages = crawl(spark.sparkContext.uiWebUrl or "")
    texts["progress"] += heard.events
    spark.stop()
    for name, parts in texts.items():
        (folder / f"{name}.txt").write_text("\n".join(parts))
    (folder / "pages.txt").write_text(pages)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
