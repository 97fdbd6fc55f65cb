"""Python programs as files of settings: what is read from them without running them, and what is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from semel.check.facts import ClientFacts
from semel.check.gathering.files import read_clients, read_queries
from semel.cli import main
from semel.cli.exit_code import ExitCode
from semel.clients.setting_names import COMPUTED_NAME, Role
from semel.errors import ConfigError

Out = pytest.CaptureFixture[str]


def read(folder: Path, text: str, name: str = "app.py", library: str | None = None) -> list[ClientFacts]:
    path = folder / name
    path.write_text(text)
    return read_clients(str(path), library)


def only(folder: Path, text: str, name: str = "app.py", library: str | None = None) -> ClientFacts:
    (client,) = read(folder, text, name, library)
    return client


def names(clients: list[ClientFacts]) -> list[str]:
    return [client.name.rpartition("app.py:")[2] for client in clients]


def test_a_dict_that_is_given_a_name(tmp_path: Path) -> None:
    text = 'import os\n\nconf = {\n    "bootstrap.servers": os.environ["B"],\n    "acks": "1",\n    "retries": 3,\n}\n'
    client = only(tmp_path, text)
    assert client.name == f"{tmp_path}/app.py:conf"
    assert client.settings.given["acks"] == "1"
    assert client.settings.number("retries") == 3
    assert client.settings.unread.keys() == {"bootstrap.servers"}
    place = client.place_of(["acks"])
    assert place is not None
    assert (place.file, place.line) == (f"{tmp_path}/app.py", 5)


@pytest.mark.parametrize(
    ("head", "body", "library", "because"),
    [
        ("from confluent_kafka import Producer", 'Producer({"acks": "1"})', "librdkafka", "confluent_kafka"),
        ("import confluent_kafka as ck", 'ck.Producer({"acks": "1"})', "librdkafka", "confluent_kafka"),
        ("from confluent_kafka import Producer as P", 'conf = {"acks": "1"}\nP(conf)', "librdkafka", "confluent_kafka"),
        ("from kafka import KafkaProducer", "KafkaProducer(acks=1)", "kafka-python", "kafka"),
        ("from kafka import KafkaProducer", 'c = {"acks": 1}\nKafkaProducer(**c)', "kafka-python", "kafka"),
        ("from aiokafka import AIOKafkaProducer", "AIOKafkaProducer(acks=1)", "aiokafka", "aiokafka"),
        ("import aiokafka", "p = aiokafka.AIOKafkaProducer(acks=1)", "aiokafka", "aiokafka"),
        ("", 'conf = {"acks": "1"}', "librdkafka", "assumed"),
        ("", 'Producer({"acks": "1"})', "librdkafka", "assumed"),
        ("import confluent_kafka", 'conf = {"acks": "1"}', "librdkafka", "imports"),
        ("import aiokafka", 'conf = {"acks": 1, "linger_ms": 5}', "aiokafka", "imports"),
        ("import kafka, confluent_kafka", 'conf = {"acks": 1, "linger.ms": 5}', "librdkafka", "imports"),
        ("", 'conf = {"acks": 1, "linger_ms": 5}', "kafka-python", "assumed"),
        ("import pyspark", 'options = {"kafka.acks": "1"}', "java", "Spark"),
    ],
)
def test_the_library_in_use(tmp_path: Path, head: str, body: str, library: str, because: str) -> None:
    client = only(tmp_path, f"{head}\n{body}\n")
    assert client.settings.library.name == library
    assert because in client.because
    assert client.settings.text("acks") == "1"


def test_defaults_are_those_of_the_library_in_use(tmp_path: Path) -> None:
    text = 'from confluent_kafka import Consumer\nConsumer({"group.id": "g"})\n'
    assert only(tmp_path, text).settings.text("isolation.level") == "read_committed"
    text = 'from kafka import KafkaConsumer\nKafkaConsumer("orders", group_id="g")\n'
    client = only(tmp_path, text)
    assert client.settings.text("isolation.level") == "read_uncommitted"
    assert client.settings.roles == {Role.CONSUMER}
    assert client.name.endswith(":KafkaConsumer(...)")


def test_the_command_line_and_the_dict_name_the_library_more_strongly(tmp_path: Path) -> None:
    text = 'from kafka import KafkaProducer\nKafkaProducer(client_id="a")\n'
    assert only(tmp_path, text, library="kafka-python@2.0").settings.text("acks") == "1"
    text = 'conf = {"semel.library": "java@2.8", "semel.role": "producer", "client.id": "a"}\n'
    assert only(tmp_path, text).settings.text("acks") == "1"


@pytest.mark.parametrize(
    "text",
    [
        'base = {"acks": "1"}\nconf = {**base, "linger.ms": 5}\nProducer(conf)\n',
        'base = {"acks": "1"}\nProducer(base | {"linger.ms": 5})\n',
        'conf = {"linger.ms": 5}\nconf["acks"] = "1"\nProducer(conf)\n',
        'conf = {"linger.ms": 5}\nconf.update({"acks": "1"})\nProducer(conf)\n',
        'conf = {"linger.ms": 5}\nconf.update(acks="1")\nProducer(conf)\n',
        'conf = {"linger.ms": 5}\nconf |= {"acks": "1"}\nProducer(conf)\n',
        'conf = dict({"linger.ms": 5}, acks="1")\nProducer(conf)\n',
        'conf = {"linger.ms": 5}\nother = conf.copy()\nother["acks"] = "1"\nProducer(other)\n',
        'ACKS = "1"\nProducer({"acks": ACKS, "linger.ms": 5})\n',
        'def make():\n    conf = {"acks": "1", "linger.ms": 5}\n    return Producer(conf)\n',
        'CONF = {"acks": "1", "linger.ms": 5}\n\ndef make():\n    return Producer(CONF)\n',
        'class A:\n    def __init__(self):\n        self.conf = {"acks": "1", "linger.ms": 5}\n\n'
        "    def open(self):\n        self.p = Producer(self.conf)\n",
        'if __name__ == "__main__":\n    Producer({"acks": "1", "linger.ms": 5})\n',
        'Producer({"default.topic.config": {"acks": "1"}, "linger.ms": 2 + 3})\n',
        'with open("x") as f:\n    conf = {"acks": "1", "linger.ms": 5}\nProducer(conf)\n',
    ],
)
def test_a_producer_is_told_once_with_what_it_is_made_of(tmp_path: Path, text: str) -> None:
    client = only(tmp_path, "from confluent_kafka import Producer\n" + text)
    assert client.settings.roles == {Role.PRODUCER}
    assert (client.settings.text("acks"), client.settings.number("linger.ms")) == ("1", 5)
    assert not client.settings.elsewhere


@pytest.mark.parametrize(
    "text",
    [
        'Producer({"acks": os.environ["ACKS"]})\n',
        'Producer({"acks": "a" + level()})\n',
        'Producer({"acks": f"{level}"})\n',
        'Producer({"acks": "all" if safe else "1"})\n',
        'conf = {"acks": "all"}\nif fast:\n    conf["acks"] = "1"\nProducer(conf)\n',
        'conf = {"acks": "all"}\nif fast:\n    conf.update(acks="1")\nProducer(conf)\n',
        'conf = {"acks": "all"}\nfor line in lines:\n    conf["acks"] = line\nProducer(conf)\n',
        'conf = {"acks": "all"}\ntry:\n    conf["acks"] = "1"\nexcept E:\n    pass\nProducer(conf)\n',
        'conf = {"acks": "all"}\ndel conf["acks"]\nProducer(conf)\n',
        'conf = {"acks": "all"}\nconf.pop("acks")\nProducer(conf)\n',
        'conf = {"acks": "all", **more()}\nProducer(conf)\n',
        'conf = {"acks": "all"}\nconf.update(more())\nProducer(conf)\n',
        'conf = {"acks": "all"}\nconf[name] = "1"\nProducer(conf)\n',
        "Producer(load())\n",
        "def make(conf):\n    return Producer(conf)\n",
        'acks = "all"\nacks += x\nProducer({"acks": acks})\n',
        'acks = "all"\nif (acks := level()):\n    Producer({"acks": acks})\n',
        'acks = "all"\n\ndef make(acks):\n    return Producer({"acks": acks})\n',
    ],
)
def test_what_only_the_running_program_knows_is_unknown(tmp_path: Path, text: str, capsys: Out) -> None:
    path = tmp_path / "app.py"
    path.write_text("import os\nfrom confluent_kafka import Producer\n" + text)
    main(["check", "--client-config", str(path), "--format", "json"])
    (row,) = [row for row in json.loads(capsys.readouterr().out)["findings"] if row["rule"] == "S001"]
    assert row["verdict"] == "UNKNOWN", row
    assert "line" in row["found"]
    assert row["fix"]


def test_a_name_with_a_fixed_part_is_there(tmp_path: Path) -> None:
    text = 'from confluent_kafka import Producer\nProducer({"transactional.id": f"orders-{n}"})\n'
    assert only(tmp_path, text).settings.text("transactional.id") == COMPUTED_NAME


def test_what_is_put_into_a_dict_from_elsewhere_is_known(tmp_path: Path) -> None:
    text = 'from confluent_kafka import Producer\nconf = load()\nconf["acks"] = "1"\nProducer(conf)\n'
    settings = only(tmp_path, text).settings
    assert settings.text("acks") == "1"
    assert "does not show what conf holds" in settings.why_unread("retries")


def test_several_clients_in_one_file(tmp_path: Path) -> None:
    text = (
        "from confluent_kafka import Consumer, Producer\nfrom confluent_kafka.admin import AdminClient\n"
        'base = {"bootstrap.servers": "a:1"}\nAdminClient(base)\n'
        'Producer({**base, "acks": "all"})\nProducer({**base, "acks": "1"})\n'
        'reading = {**base, "group.id": "g"}\nConsumer(reading)\n'
        'spare = {"linger.ms": 1}\nheaders = {"version": 1, "debug": True}\n'
    )
    clients = read(tmp_path, text)
    assert names(clients) == ["Producer(...)", "Producer(...)[2]", "Consumer(reading)", "spare"]


def test_a_dict_that_a_function_returns(tmp_path: Path) -> None:
    assert names(read(tmp_path, 'def conf():\n    return {"acks": "1"}\n')) == ["conf()"]


def test_classes_of_others_are_not_clients(tmp_path: Path) -> None:
    text = 'from .own import Producer\nconf = {"acks": "1"}\nProducer(conf)\n'
    assert names(read(tmp_path, text)) == ["conf"]
    text = 'from semel import Producer\np = Producer("a:1", guarantee="exactly_once", settings={"acks": "1"})\n'
    with pytest.raises(ConfigError, match="no settings can be seen"):
        read(tmp_path, text)


def test_a_program_without_the_ending_is_told_by_what_is_in_it(tmp_path: Path) -> None:
    assert only(tmp_path, 'conf = {"acks": "1"}\n', "settings").settings.library.name == "librdkafka"
    assert only(tmp_path, "acks=all\nlinger.ms=5\n", "settings").settings.library.name == "java"
    offsets = tmp_path / "query"
    offsets.write_text('subscribe=orders\nstartingOffsets={"orders": {"0": 42}}\n')
    (query,) = read_queries(str(offsets))
    assert query.text("startingOffsets") == '{"orders": {"0": 42}}'


def test_options_of_a_query(tmp_path: Path) -> None:
    path = tmp_path / "job.py"
    path.write_text('options = {"subscribe": "orders", "failOnDataLoss": False, "kafka.bootstrap.servers": where()}\n')
    (query,) = read_queries(str(path))
    assert query.name.endswith("job.py:options")
    assert query.text("failOnDataLoss") == "false"
    path.write_text("x = 1\n")
    with pytest.raises(ConfigError, match="no settings"):
        read_queries(str(path))


def test_a_query_whose_options_are_computed(tmp_path: Path, capsys: Out) -> None:
    path = tmp_path / "job.py"
    path.write_text('options = {"subscribe": "orders", "sink.format": sink(), "startingOffsets": first()}\n')
    assert main(["check", "--spark-options", str(path), "--format", "json"]) != ExitCode.HELD
    rows = {row["rule"]: row["verdict"] for row in json.loads(capsys.readouterr().out)["findings"]}
    assert rows["S014"] == rows["S017"] == rows["S019"] == "UNKNOWN"


@pytest.mark.parametrize(
    "text", ["conf = {'acks': '1'\n", "x = 'hush\n", "\0", "(" * 500 + ")" * 500, "x = 1\n", "x" + " + x" * 50_000]
)
def test_a_program_that_tells_nothing(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    assert "app.py" in str(caught.value)
    assert "hush" not in str(caught.value)


def test_nothing_is_run(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    client = only(tmp_path, f'conf = {{"acks": open({str(mark)!r}, "w").name, "retries": 1}}\n')
    assert client.settings.unread.keys() == {"acks"}
    assert not mark.exists()


def test_a_dict_alone_with_a_computed_value(tmp_path: Path) -> None:
    client = only(tmp_path, "{'acks': level(), 'retries': 3}\n", "settings")
    assert client.settings.library.name == "librdkafka"
    assert client.settings.unread.keys() == {"acks"}


def test_a_program_in_which_nothing_is_certain_says_so(tmp_path: Path, capsys: Out) -> None:
    path = tmp_path / "app.py"
    path.write_text("from confluent_kafka import Producer\nProducer(load())\n")
    assert main(["check", "--client-config", str(path)]) == ExitCode.UNKNOWN
    told = capsys.readouterr()
    assert "line 2" in told.out
    assert "librdkafka" in told.err
