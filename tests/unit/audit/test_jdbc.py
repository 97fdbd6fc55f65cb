"""How a database is logged in to and read: what a file may say, and what no error and no repr shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from semel.audit.jdbc import JdbcSettings, conninfo_of
from semel.audit.places import Table, parse_place
from semel.audit.plan import plan_from_file, plan_from_texts
from semel.cli.audit_sides import jdbc_settings
from semel.errors import ConfigError

LOGIN = {"SEMEL_JDBC_USER": "ann", "SEMEL_JDBC_PASSWORD": "hunter2"}


def table(url: str) -> Table:
    place = parse_place(f"{url}#orders")
    assert isinstance(place, Table)
    return place


def test_a_file_counts_more_than_the_environment_and_nothing_shows_the_password() -> None:
    given = {"password": "of the file", "property.sslmode": "require", "partitionColumn": "id", "numPartitions": "4"}
    found = JdbcSettings.of(given, LOGIN, "db.properties")
    assert found.options == {"user": "ann", "password": "of the file", "sslmode": "require"}
    assert (found.partition_column, found.partitions) == ("id", 4)
    assert "of the file" not in repr(found)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"pasword": "hunter2"}, "'pasword' means nothing"),
        ({"url": "x"}, "'url' means nothing"),
        ({"property.": "x"}, "means nothing"),
        ({"numPartitions": "4"}, "without partitionColumn"),
        ({"numPartitions": "0", "partitionColumn": "id"}, "cannot be '0'"),
        ({"numPartitions": "many", "partitionColumn": "id"}, "cannot be 'many'"),
    ],
)
def test_what_means_nothing_in_a_file_is_refused_without_its_value(given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as error:
        JdbcSettings.of(given, {}, "db.properties")
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    "url", ["jdbc:postgresql://ann:hunter2@h/shop", "jdbc:postgresql://h/shop?user=ann&password=hunter2"]
)
def test_a_login_in_an_address_is_refused_and_not_repeated(url: str) -> None:
    for text in (f"{url}#orders", url):
        with pytest.raises(ConfigError) as error:
            parse_place(text)
        assert "hunter2" not in str(error.value)


def test_libpq_reaches_the_same_database() -> None:
    settings = JdbcSettings.of({"user": "ann", "property.sslmode": "require", "driver": "x"}, {}, "f")
    assert conninfo_of(table("jdbc:postgresql://h:5433/shop?ssl=true"), settings) == {
        "host": "h",
        "port": "5433",
        "dbname": "shop",
        "user": "ann",
        "sslmode": "require",
    }
    hosts = conninfo_of(table("jdbc:postgresql://[::1],b:7/shop"), JdbcSettings())
    assert (hosts["host"], hosts["port"]) == ("::1,b", "5432,7")
    assert conninfo_of(table("jdbc:postgresql:shop"), JdbcSettings())["host"] == "localhost"
    for url in ("jdbc:postgresql://h:port/shop", "jdbc:postgresql://h/", "jdbc:mysql://h/shop"):
        with pytest.raises(ConfigError):
            conninfo_of(table(url), JdbcSettings())


def test_libpq_connects_as_the_address_asks() -> None:
    url = (
        "jdbc:postgresql://h/my%20shop?sslmode=verify-full&sslrootcert=/ca.pem&currentSchema=a,b%20c&prepareThreshold=0"
    )
    more = "&ApplicationName=audit&connectTimeout=7&targetServerType=primary&options=-c%20lock_timeout=5s"
    given = {"property.sslmode": "disable", "property.gssEncMode": "disable", "fetchsize": "10", "queryTimeout": "9"}
    assert conninfo_of(table(url + more), JdbcSettings.of(given, {}, "f")) == {
        "host": "h",
        "port": "5432",
        "dbname": "my shop",
        "sslmode": "verify-full",  # the driver prefers the address to its properties
        "sslrootcert": "/ca.pem",
        "gssencmode": "disable",
        "application_name": "audit",
        "connect_timeout": "7",
        "target_session_attrs": "primary",
        "options": "-c lock_timeout=5s -c search_path=a,b\\ c",
    }


@pytest.mark.parametrize("ssl", ["ssl", "ssl=true", "ssl=TRUE"])
def test_ssl_alone_verifies_the_server_for_libpq_too(ssl: str) -> None:
    assert conninfo_of(table(f"jdbc:postgresql://h/shop?{ssl}"), JdbcSettings())["sslmode"] == "verify-full"
    in_file = JdbcSettings.of({"property.ssl": "true"}, {}, "f")
    assert conninfo_of(table("jdbc:postgresql://h/shop"), in_file)["sslmode"] == "verify-full"
    assert "sslmode" not in conninfo_of(table("jdbc:postgresql://h/shop?ssl=false"), JdbcSettings())


def test_what_libpq_cannot_be_told_is_refused_with_a_pipeline() -> None:
    factory = "sslfactory=org.postgresql.ssl.DefaultJavaSSLFactory"
    with pytest.raises(ConfigError, match="sslfactory"):
        conninfo_of(table(f"jdbc:postgresql://h/shop?{factory}"), JdbcSettings())
    with pytest.raises(ConfigError, match="sslfactory") as error:
        conninfo_of(table("jdbc:postgresql://h/shop"), JdbcSettings.of({"property.sslfactory": "hunter2"}, {}, "f"))
    assert "hunter2" not in str(error.value)
    with pytest.raises(ConfigError, match="targetServerType"):
        conninfo_of(table("jdbc:postgresql://h/shop?targetServerType=nearest"), JdbcSettings())


def test_the_login_of_the_environment_goes_to_one_database_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in LOGIN.items():
        monkeypatch.setenv(name, value)
    same = plan_from_texts("jdbc:postgresql://h/shop#a", ["jdbc:postgresql://h/shop#b", "parquet:x"])
    assert jdbc_settings(same, same.left).options["password"] == "hunter2"
    two = plan_from_texts("jdbc:postgresql://h/shop#a", ["jdbc:postgresql://g/shop#b"])
    with pytest.raises(ConfigError, match="either of two databases"):
        jdbc_settings(two, two.left)
    (tmp_path / "db").write_text("user=bob\npassword=of the file\n")
    text = "from = '{}'\njdbc_config = '{}'\n[[to]]\nplace = '{}'\njdbc_config = '{}'\n"
    file = tmp_path / "audit.toml"
    file.write_text(text.format(two.left.place.text, tmp_path / "db", two.rights[0].place.text, tmp_path / "db"))
    named = plan_from_file(str(file))
    assert [jdbc_settings(named, one).options["user"] for one in named.sides] == ["bob", "bob"]


def test_one_file_is_for_one_database() -> None:
    same = plan_from_texts("jdbc:postgresql://h/shop#a", ["jdbc:postgresql://h/shop#b", "parquet:x"])
    assert [one.jdbc_config for one in same.with_jdbc_config("f").sides] == ["f", "f", ""]
    for rights in (["jdbc:postgresql://g/shop#b"], ["jdbc:postgresql://h/shop?x=1#b"]):
        with pytest.raises(ConfigError, match="one database"):
            plan_from_texts("jdbc:postgresql://h/shop#a", rights).with_jdbc_config("f")
    with pytest.raises(ConfigError, match="one database"):
        plan_from_texts("parquet:x", ["parquet:y"]).with_jdbc_config("f")
    with pytest.raises(ConfigError, match="both say how to log in"):
        same.with_jdbc_config("f").with_jdbc_config("g")
