"""How sides are written on a command line."""

import pytest

from semel.audit.places import Edge, Files, Table, Topic, parse_place
from semel.errors import ConfigError
from semel.wire.topology import Isolation


def test_a_topic_and_its_window() -> None:
    text = "kafka://one:9092,two:9092/orders?from=2026-11-01T00:00Z&to=0:100,1:250&isolation=read_uncommitted"
    assert parse_place(text) == Topic(
        text=text,
        bootstrap="one:9092,two:9092",
        name="orders",
        isolation=Isolation.READ_UNCOMMITTED,
        begin=Edge(time_ms=1_793_491_200_000),
        end=Edge(offsets={0: 100, 1: 250}),
    )


@pytest.mark.parametrize(
    "zone", ["2026-11-01T01:00+01:00", "2026-11-01T01:00%2B01:00", "2026-11-01T00:00", "2026-11-01"]
)
def test_times_have_a_zone_and_it_is_utc_unless_they_say_otherwise(zone: str) -> None:
    place = parse_place(f"kafka://one:9092/orders?from={zone}")
    assert isinstance(place, Topic)
    assert place.begin == Edge(time_ms=1_793_491_200_000)


@pytest.mark.parametrize(
    ("text", "form", "path"),
    [
        ("parquet:/data/orders", "parquet", "/data/orders"),
        ("json:orders", "json", "orders"),
        ("delta:s3://bucket/orders", "delta", "s3://bucket/orders"),
        ("/data/orders.jsonl", "json", "/data/orders.jsonl"),
        ("orders.PARQUET", "parquet", "orders.PARQUET"),
    ],
)
def test_files(text: str, form: str, path: str) -> None:
    assert parse_place(text) == Files(text=text, form=form, path=path)


def test_a_table() -> None:
    text = "jdbc:postgresql://host:5432/shop#public.orders"
    assert parse_place(text) == Table(text=text, url="jdbc:postgresql://host:5432/shop", table="public.orders")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "orders",
        "/data/orders",
        "http://host/orders",
        "parquet:",
        "kafka://host:9092",
        "kafka:///orders",
        "kafka://host:9092/a/b",
        "kafka://host:9092/orders#x",
        "kafka://host:9092/orders?form=1:2",
        "kafka://host:9092/orders?from=1:2&from=1:3",
        "kafka://host:9092/orders?from=0:1,0:2",
        "kafka://host:9092/orders?from=yesterday",
        "kafka://host:9092/orders?from=",
        "kafka://host:9092/orders?from=0:-1",
        "kafka://host:9092/orders?isolation=none",
        "kafka://host:9092/orders?from=2026-11-02&to=2026-11-01",
        "jdbc:postgresql://host/db",
        "jdbc:#orders",
    ],
)
def test_what_cannot_be_read_is_shown_beside_what_can(text: str) -> None:
    with pytest.raises(ConfigError, match="cannot be read") as told:
        parse_place(text)
    assert told.value.you_want


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigError) as told:
        parse_place("kafka://me:secret@host:9092/orders")
    assert "secret" not in str(told.value)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("jdbc:oracle:thin:@//host:1521/svc", "orders"),
        ("jdbc:oracle:thin:@host:1521:sid", "shop.orders"),
        ("jdbc:oracle:thin:/@host:1521/svc", "orders"),
        ("jdbc:mysql://host/tokens", "orders"),
        ("jdbc:postgresql://secrets.example/pwd_resets?sslmode=verify-full&application_name=token", "orders"),
        ("jdbc:sqlserver://host;databaseName=passwords", "orders"),
    ],
)
def test_an_address_without_a_login_is_taken_whatever_its_database_is_called(url: str, name: str) -> None:
    assert parse_place(f"{url}#{name}") == Table(text=f"{url}#{name}", url=url, table=name)


@pytest.mark.parametrize(
    "url",
    [
        "jdbc:oracle:thin:ann/hunter2@//host:1521/svc",
        "jdbc:oracle:thin:ann@host:1521:sid",
        "jdbc:postgresql://ann:hunter2@host/db",
        "jdbc:postgresql://ann@host/db",
        "jdbc:postgresql://ann:hunter2?x=1@host/db",
        "jdbc:postgresql://host/db?user=ann&password=hunter2",
        "jdbc:postgresql://host/db?pass%77ord=hunter2",
        "jdbc:sqlserver://host;databaseName=shop;password=hunter2",
        "jdbc:mysql://(host=host,password=hunter2)/db",
        "jdbc:mysql://address=(host=host)(password=hunter2)/db",
        "jdbc:snowflake://host/?token=hunter2",
    ],
)
@pytest.mark.parametrize("table", ["", "#orders"])
def test_a_login_in_any_place_of_an_address_is_refused_and_not_repeated(url: str, table: str) -> None:
    with pytest.raises(ConfigError, match="a login does not belong into an address") as told:
        parse_place(url + table)
    assert "hunter2" not in str(told.value)
