"""Which client libraries a test runs with, and how a driver for each is made."""

from collections.abc import Iterable
from typing import Any

import pytest

from tests.clients.drivers.aiokafka_driver import AiokafkaDriver
from tests.clients.drivers.confluent import ConfluentDriver
from tests.clients.drivers.interface import Driver, Endpoint
from tests.clients.drivers.java import JavaDriver
from tests.clients.drivers.kafka_python import KafkaPythonDriver
from tests.support.java import CLIENTS_VERSION_OLD, JavaProgram

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
DRIVERS: dict[str, Any] = {
    "java": JavaDriver,
    "confluent": ConfluentDriver,
    "kafka-python": KafkaPythonDriver,
    "aiokafka": AiokafkaDriver,
}
NAMES = tuple(DRIVERS)
OLD_JAVA = f"java-{CLIENTS_VERSION_OLD}"
PROGRAM = "ClientDriver"


def can(name: str, need: str) -> bool:
    """Tell whether a library offers what a test needs."""
    return name == OLD_JAVA or need not in DRIVERS[name].lacks


def each(*needs: str, argument: str = "driver", old_java: bool = False) -> pytest.MarkDecorator:
    """Run a test once with every library that offers what it needs."""
    names = [name for name in (*NAMES, *([OLD_JAVA] if old_java else [])) if all(can(name, need) for need in needs)]
    return pytest.mark.parametrize(argument, names, indirect=True)


class Jvms:
    """One JVM for each version of the Java client, started when it is first asked for."""

    def __init__(self) -> None:
        """Start none."""
        self._programs: dict[str, JavaProgram] = {}

    def get(self, name: str) -> JavaProgram:
        """Give the JVM for the driver of this name."""
        if name not in self._programs:
            version = {"clients_version": CLIENTS_VERSION_OLD} if name == OLD_JAVA else {}
            self._programs[name] = JavaProgram(PROGRAM, **version)
        return self._programs[name]

    def close(self) -> None:
        """End them."""
        for program in self._programs.values():
            program.close()


class Drivers:
    """The drivers of one cluster, each made when it is first asked for."""

    def __init__(self, endpoint: Endpoint, jvms: Jvms) -> None:
        """Make none."""
        self._endpoint, self._jvms = endpoint, jvms
        self._made: dict[str, Driver] = {}

    def get(self, name: str) -> Driver:
        """Give the driver of this name."""
        if name not in self._made:
            self._made[name] = make_driver(name, self._endpoint, self._jvms)
        return self._made[name]

    def all_that_can(self, *needs: str) -> Iterable[Driver]:
        """Give every driver, the old Java client included, that offers all of this."""
        return [self.get(name) for name in (*NAMES, OLD_JAVA) if all(can(name, need) for need in needs)]

    def close(self) -> None:
        """End them."""
        for driver in self._made.values():
            driver.close()


def make_driver(name: str, endpoint: Endpoint, jvms: Jvms) -> Driver:
    """Connect a library to a cluster."""
    if name in ("java", OLD_JAVA):
        return JavaDriver(endpoint, jvms.get(name))
    made: Driver = DRIVERS[name](endpoint)
    return made
