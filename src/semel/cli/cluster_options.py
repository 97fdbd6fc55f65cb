"""What `semel cluster start` is told: each option is honoured by the engine that is to start, or refused.

Keeps: no password is an argument of a process, which every user of the machine can list: users come from a file that
       only its owner can read.
"""

from __future__ import annotations

import argparse
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from semel.errors import ConfigError
from semel.protocol.clear_text import is_loopback

if TYPE_CHECKING:
    from semel.broker.cluster_settings import TopicSpec
    from semel.engine.apache import ApacheCluster
    from semel.engine.embedded import Cluster
    from semel.engine.tls import Security, Tls

HOST, PORT, FLUSH = "127.0.0.1", 9092, "os"
FIRST_BROKER_ID = 1
SETTING_EXAMPLE = "--set auto.create.topics.enable=false"
USERS_EXAMPLE = "lines of name=password"
USERS_BYTES_MAX = 1 << 20

# Options of the embedded engine, and what to do about them where Apache Kafka is to start.
_NOT_APACHE = {
    "first_broker_id": "its brokers are numbered from 1: leave --first-broker-id out",
    "host": "it listens on the loopback address: leave --host out",
    "advertise": "it listens on the loopback address: leave --advertise out",
    "flush": "--set log.flush.interval.messages=1 syncs each batch",
    "tls": "leave it out: it listens on the loopback address, unencrypted",
    "tls_cert": "leave it out: it listens on the loopback address, unencrypted",
    "tls_key": "leave it out: it listens on the loopback address, unencrypted",
    "tls_ca": "leave it out: it listens on the loopback address, unencrypted",
    "tls_client_auth": "leave it out: it listens on the loopback address, unencrypted",
    "sasl_users": "leave it out: it listens on the loopback address, and lets everybody on this machine in",
}
# semel says these itself; one that is said twice could open another port without a word.
_SET_BY_SEMEL = frozenset(
    {
        "advertised.listeners",
        "broker.id",
        "controller.listener.names",
        "controller.quorum.bootstrap.servers",
        "controller.quorum.voters",
        "inter.broker.listener.name",
        "listener.security.protocol.map",
        "listeners",
        "log.dir",
        "log.dirs",
        "node.id",
        "process.roles",
        "security.inter.broker.protocol",
    }
)


def configure(start: argparse.ArgumentParser) -> None:
    """Add the options; those without a default tell whether they were written."""
    start.add_argument("--engine", choices=["embedded", "apache"], default="embedded", help="default: embedded")
    start.add_argument("--brokers", type=int, default=3, metavar="N", help="how many brokers (default 3)")
    start.add_argument(
        "--first-broker-id", type=int, metavar="N", help="number of the first broker, the others follow (default 1)"
    )
    start.add_argument("--host", help=f"address to listen on (default {HOST})")
    start.add_argument("--advertise", metavar="HOST", help="name or address that clients are told (default: --host)")
    start.add_argument("--port", type=int, default=PORT, help="the first broker's port, the others follow; 0: any free")
    start.add_argument("--data", type=Path, metavar="DIR", help="keep the logs here (default: a temporary folder)")
    start.add_argument(
        "--topics",
        "--topic",
        nargs="*",
        action="extend",
        default=[],
        metavar="NAME:PARTITIONS:REPLICAS",
        help="topics to create, all at once or one by one",
    )
    start.add_argument("--flush", choices=["os", "interval", "every"], help="when to sync to the disk (default os)")
    start.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help=f"broker setting: {SETTING_EXAMPLE}"
    )
    start.add_argument("--tls", action="store_true", default=None, help="TLS, with certificates that the cluster makes")
    start.add_argument("--tls-cert", metavar="FILE", help="TLS, with this certificate (PEM)")
    start.add_argument("--tls-key", metavar="FILE", help="its key (PEM)")
    start.add_argument("--tls-ca", metavar="FILE", help="the certificate of who signs for the clients (PEM)")
    start.add_argument("--tls-client-auth", choices=["none", "requested", "required"], help="certificates of clients")
    start.add_argument("--sasl-users", type=Path, metavar="FILE", help=f"who may log in: {USERS_EXAMPLE}, mode 0600")
    start.add_argument("--detach", action="store_true", help="return when the cluster is up")


def check(options: argparse.Namespace) -> None:
    """ConfigError for what `make_cluster` would refuse, before another process is started with it."""
    if options.engine == "apache":
        _apache_settings(options)
    else:
        security_of(options)
        _settings(options.set)
    _topics(options)


def make_cluster(options: argparse.Namespace) -> Cluster | ApacheCluster:
    """The cluster that the options describe; ConfigError for what its engine does not honour."""
    if options.engine == "apache":
        return _apache(options)
    from semel.engine.embedded import Cluster

    return Cluster(
        brokers=options.brokers,
        first_broker_id=FIRST_BROKER_ID if options.first_broker_id is None else options.first_broker_id,
        host=options.host or HOST,
        advertised_host=options.advertise,
        port=options.port,
        data=options.data,
        topics=_topics(options),
        flush=options.flush or FLUSH,
        config=_settings(options.set),
        security=security_of(options),
    )


def _apache(options: argparse.Namespace) -> ApacheCluster:
    from semel.engine.apache import ApacheCluster

    return ApacheCluster(
        config=_apache_settings(options),
        brokers=options.brokers,
        port=options.port,
        data=options.data,
        topics=_topics(options),
    )


def _topics(options: argparse.Namespace) -> list[TopicSpec]:
    from semel.broker.cluster_settings import TopicSpec

    return [TopicSpec.parse(topic) for topic in options.topics]


def _apache_settings(options: argparse.Namespace) -> dict[str, str]:
    for name, instead in _NOT_APACHE.items():
        if getattr(options, name) is not None:
            raise ConfigError(f"--engine apache does not take --{name.replace('_', '-')}", you_want=instead)
    config = _settings(options.set)
    for name in sorted(_SET_BY_SEMEL & config.keys()):
        raise ConfigError(
            f"--set {name} is set by semel itself",
            you_want="--port, --data and --brokers; or Apache Kafka by its own scripts",
        )
    return config


def _settings(pairs: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ConfigError(f"{pair!r} is not a setting", you_want=SETTING_EXAMPLE)
        if name in found:
            raise ConfigError(f"--set {name} is given twice", you_want="each setting once")
        found[name] = value
    return found


def security_of(options: argparse.Namespace) -> Security:
    """TLS and users, from the options and the files that they name."""
    from semel.broker.network.sasl import MECHANISMS, PLAIN
    from semel.engine.tls import Security

    tls = _tls(options)
    # Without TLS the network would see the password of PLAIN; SCRAM does not send it.
    in_the_open = tls is None and not is_loopback(options.host or HOST)
    mechanisms = tuple(one for one in MECHANISMS if one != PLAIN or not in_the_open)
    users = read_users(options.sasl_users) if options.sasl_users is not None else None
    return Security(tls=tls, users=users, mechanisms=mechanisms)


def _tls(options: argparse.Namespace) -> Tls | None:
    from semel.engine.tls import ClientAuth, Tls

    own = [name for name in ("tls_cert", "tls_key", "tls_ca") if getattr(options, name) is not None]
    if options.tls and own:
        raise ConfigError(
            f"--tls makes certificates, --{own[0].replace('_', '-')} brings them", you_want="one of the two"
        )
    if not options.tls and not own:
        if options.tls_client_auth is not None:
            raise ConfigError("--tls-client-auth has no effect without TLS", you_want="--tls, or --tls-cert")
        return None
    auth = options.tls_client_auth or ClientAuth.NONE
    if options.tls:
        return Tls.self_signed(client_auth=auth)
    return Tls(certificate=options.tls_cert, key=options.tls_key, ca=options.tls_ca, client_auth=auth)


def read_users(path: Path) -> Mapping[str, str]:
    """Users and passwords from a file that only its owner can read; nothing of it is in an error."""
    try:
        with path.open("rb") as file:
            # Of the file that is open: what its name stands for may change between a look and the reading.
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > USERS_BYTES_MAX:
                raise ConfigError(f"{path} is no file of users", you_want=USERS_EXAMPLE)
            if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise ConfigError(
                    f"{path} can be read by others (mode {stat.S_IMODE(found.st_mode):04o})",
                    because="it has passwords",
                    next_command=f"chmod 600 {path}",
                )
            lines = file.read().decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise ConfigError(f"{path} cannot be read: {why}", you_want=USERS_EXAMPLE) from None
    users: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        name, equals, password = line.partition("=")
        # Never the line itself in the error: it has a password.
        if not equals or not name.strip() or not password or name.strip() in users:
            wrong = "a name comes twice" if name.strip() in users else "no name and password"
            raise ConfigError(f"{path}, line {number}: {wrong}", you_want=USERS_EXAMPLE)
        users[name.strip()] = password
    if not users:
        raise ConfigError(f"{path} names nobody", you_want=USERS_EXAMPLE)
    return users
