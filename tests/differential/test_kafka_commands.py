"""The commands of Apache Kafka that semel's texts tell people to run know the options that the texts give them."""

import re

import pytest

from tests.support.kafka_commands import java_tool
from tests.unit.cli.test_commands_in_texts import KAFKA_COMMANDS

PROGRAMS = {
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
}


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(KAFKA_COMMANDS))
def test_an_option_that_texts_give_is_known_to_the_command(name: str) -> None:
    # What kafka-transactions does is a word behind the address, with options of its own.
    act = ["--bootstrap-server", "localhost:9092", "abort"] if name == "kafka-transactions" else []
    shown = java_tool(PROGRAMS[name], *act, "--help")
    known = {*re.findall(r"--([a-z][a-z-]+)", shown), *(word.removeprefix("--") for word in act)}
    assert KAFKA_COMMANDS[name] | {"bootstrap-server"} <= known, shown
