"""How commands reach a cluster: `--bootstrap`, and `--command-config` for what a secured one asks for."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from semel.errors import ConfigError

if TYPE_CHECKING:
    from semel.wire.cluster import WireCluster

BOOTSTRAP = "kafka.bootstrap.servers"


def add_command_config(parser: argparse.ArgumentParser) -> None:
    """Give a command the file of settings to connect with."""
    parser.add_argument(
        "--command-config", metavar="FILE", help="properties to connect with: security.protocol, sasl.*, ssl.*"
    )


def cluster_of(bootstrap: str, command_config: str | None) -> WireCluster:
    """The cluster that the options name; nothing is connected yet."""
    from semel.wire.cluster import shared_cluster
    from semel.wire.settings import WireSettings

    return shared_cluster(WireSettings.from_options(connection_options(bootstrap, command_config)))


def connection_options(bootstrap: str, command_config: str | None) -> dict[str, str]:
    """The address and the settings of the file, named as Spark's Kafka source names them."""
    from semel.check.gathering.files import read_file

    given = read_file(command_config) if command_config else {}
    named = {f"kafka.{name.lower().removeprefix('kafka.')}": str(value) for name, value in given.items()}
    # `sasl.password` and `kafka.sasl.password` are one setting, and only one of the two would be used.
    if len(named) < len(given):
        raise ConfigError(f"{command_config} has a setting twice, in different spelling", you_want="each setting once")
    if named.get(BOOTSTRAP, bootstrap).strip() != bootstrap.strip():
        raise ConfigError(
            f"{command_config} names another cluster than --bootstrap",
            you_wrote=f"--bootstrap {bootstrap}, and bootstrap.servers={named[BOOTSTRAP]}",
            you_want="leave bootstrap.servers out of the file, or name the same brokers",
            because="its passwords may be meant for the other cluster",
        )
    return {**named, BOOTSTRAP: bootstrap}
