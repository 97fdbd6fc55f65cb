"""Tables by JDBC: how to log in, and how many tasks read.

Keeps: a password is in no argument, error or repr; a name that means nothing is refused; a driver is asked for rows in
       portions, because some of them read a whole table into memory otherwise.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlsplit

from semel.audit.places import Table
from semel.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

USER, PASSWORD = "SEMEL_JDBC_USER", "SEMEL_JDBC_PASSWORD"
# PostgreSQL's driver, for one, loads the whole result without it.
FETCH_ROWS = 10_000
PARTITIONS = 16
# Spark's own names; what is the driver's alone follows `property.`.
_NAMES = ("user", "password", "driver", "fetchsize", "queryTimeout", "partitionColumn", "numPartitions")
_PREFIX = "property."
_DRIVERS = {
    "postgresql": "org.postgresql.Driver",
    "mysql": "com.mysql.cj.jdbc.Driver",
    "mariadb": "org.mariadb.jdbc.Driver",
    "oracle": "oracle.jdbc.OracleDriver",
    "sqlserver": "com.microsoft.sqlserver.jdbc.SQLServerDriver",
}
# What PostgreSQL's driver calls a setting of the connection, and what libpq calls it.
_FOR_LIBPQ = {
    "user": "user",
    "password": "password",
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "sslpassword": "sslpassword",
    "options": "options",
    "sslNegotiation": "sslnegotiation",
    "gssEncMode": "gssencmode",
    "channelBinding": "channel_binding",
    "requireAuth": "require_auth",
    "kerberosServerName": "krbsrvname",
    "ApplicationName": "application_name",
    "connectTimeout": "connect_timeout",
}
_SERVER_TYPES = {
    "any": "any",
    "primary": "primary",
    "master": "primary",
    "secondary": "standby",
    "slave": "standby",
    "preferSecondary": "prefer-standby",
    "preferSlave": "prefer-standby",
}
# Settings of Spark, and of the driver, that say how rows are fetched and nothing about who is talked to.
_NOT_FOR_LIBPQ = frozenset(
    {"driver", "fetchsize", "queryTimeout", "defaultRowFetchSize", "adaptiveFetch", "prepareThreshold"}
    | {"preparedStatementCacheQueries", "preparedStatementCacheSizeMiB", "readOnly", "readOnlyMode", "stringtype"}
    | {"reWriteBatchedInserts", "socketTimeout", "loginTimeout", "binaryTransfer", "tcpKeepAlive", "loadBalanceHosts"}
)
_SERVER = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(:(?P<port>\d+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcSettings:
    """How one address is read."""

    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    partition_column: str = ""
    partitions: int = PARTITIONS

    @classmethod
    def of(cls, given: Mapping[str, str], environment: Mapping[str, str], origin: str) -> JdbcSettings:
        """From a file of properties and, for the login, from the environment; the file counts more."""
        options = {
            name: value
            for name, value in (("user", environment.get(USER)), ("password", environment.get(PASSWORD)))
            if value
        }
        for name, value in given.items():
            if name not in _NAMES and not (name.startswith(_PREFIX) and name != _PREFIX):
                close = difflib.get_close_matches(name, _NAMES, n=1)
                want = close[0] if close else f"{', '.join(_NAMES)}, or {_PREFIX}… for what the driver knows"
                raise ConfigError(f"{origin}: {name!r} means nothing here", you_want=want)
            options[name.removeprefix(_PREFIX)] = value
        column, partitions = options.pop("partitionColumn", ""), options.pop("numPartitions", "")
        if partitions and not column:
            raise ConfigError(f"{origin}: numPartitions without partitionColumn", you_want="partitionColumn=id, too")
        if partitions and not (partitions.isascii() and partitions.isdigit() and int(partitions) > 0):
            raise ConfigError(f"{origin}: numPartitions cannot be {partitions!r}", you_want="a whole number from 1 on")
        return cls(options=options, partition_column=column, partitions=int(partitions or PARTITIONS))


def read_table(spark: SparkSession, place: Table, settings: JdbcSettings, first_statement: str = "") -> DataFrame:
    """Rows of the table; in parts by the values of one column, if one is named."""
    options = {"fetchsize": str(FETCH_ROWS), **settings.options}
    known = _DRIVERS.get(place.url.split(":")[1].lower())
    if known is not None:
        # Without its name Java finds a driver only among the jars that Spark was started with.
        options.setdefault("driver", known)
    if first_statement:
        options["sessionInitStatement"] = first_statement
    reader = spark.read.format("jdbc").option("url", place.url).options(**options)
    if not settings.partition_column:
        return reader.option("dbtable", place.table).load()
    dialect = spark._jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(place.url)  # type: ignore[union-attr]
    column = dialect.quoteIdentifier(settings.partition_column)
    # Spark cuts the range of a column into parts, and has to be told its ends.
    ends = f"(SELECT min({column}) AS lowest, max({column}) AS highest FROM {place.table}) semel_ends"  # noqa: S608
    row = reader.option("dbtable", ends).load().collect()[0]
    if row[0] is None:
        return reader.option("dbtable", place.table).load()
    return (
        reader.option("dbtable", place.table)
        .option("partitionColumn", settings.partition_column)
        .option("lowerBound", str(row[0]))
        .option("upperBound", str(row[1]))
        .option("numPartitions", str(settings.partitions))
        .load()
    )


def conninfo_of(place: Table, settings: JdbcSettings) -> dict[str, str]:
    """What libpq needs to reach the same database as the driver; ConfigError for what is no PostgreSQL."""
    if not place.url.lower().startswith("jdbc:postgresql:"):
        raise ConfigError(
            "a pipeline's ledger is in PostgreSQL, in a Delta table or with topics", you_want="no --pipeline"
        )
    parts = urlsplit(place.url[len("jdbc:") :])
    # Several servers with commas, as both sides know them.
    servers = [_SERVER.fullmatch(one) for one in (parts.netloc or "localhost").split(",")]
    if not all(servers) or not parts.path.strip("/"):
        raise ConfigError("the address of a database cannot be read", you_want="jdbc:postgresql://host:5432/database")
    found = {
        "host": ",".join(one["host"].strip("[]") for one in servers if one),
        "port": ",".join(one["port"] or "5432" for one in servers if one),
        "dbname": unquote(parts.path.strip("/")),
    }
    # The address counts more than properties: so does the driver.
    return found | _libpq_settings({**settings.options, **dict(parse_qsl(parts.query, keep_blank_values=True))})


def _libpq_settings(given: Mapping[str, str]) -> dict[str, str]:
    """What the driver was told, in libpq's words; ConfigError for what libpq has no word for.

    Nothing is dropped that says who the server has to be: the login would be sent to a server that nobody verified.
    """
    found = {theirs: given[ours] for ours, theirs in _FOR_LIBPQ.items() if ours in given}
    rest = dict.fromkeys(one for one in given if one not in _FOR_LIBPQ and one not in _NOT_FOR_LIBPQ)
    if "ssl" in rest:
        del rest["ssl"]
        # As the driver reads it: alone it asks for the strictest mode.
        if given["ssl"].lower() in {"", "true"}:
            found.setdefault("sslmode", "verify-full")
    if "currentSchema" in rest:
        del rest["currentSchema"]
        path = re.sub(r"([\\ ])", r"\\\1", given["currentSchema"])
        found["options"] = f"{found.get('options', '')} -c search_path={path}".strip()
    if given.get("targetServerType") in _SERVER_TYPES:
        del rest["targetServerType"]
        found["target_session_attrs"] = _SERVER_TYPES[given["targetServerType"]]
    if rest:
        raise ConfigError(
            f"the ledger of a pipeline cannot be read with {', '.join(rest)}",
            because="these are settings of the JDBC driver, and libpq, which reads the ledger, has none like them",
            you_want="sslmode, sslrootcert, sslcert and sslkey for a secured server, or no --pipeline",
        )
    return found
