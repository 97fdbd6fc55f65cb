"""What `semel doctor --security` looks at: what is weak on this machine and on a cluster, and what to do about it.

A problem lets somebody else in; a note is what one should know. Nothing is changed, and no password is sent anywhere
but, by the user's own settings, to the cluster that was named.
"""

from __future__ import annotations

import stat
from contextlib import closing
from pathlib import Path

import semel
from semel.cli.connecting import cluster_of
from semel.cli.diagnosis import Diagnosis, Level
from semel.engine.cache import cache_folder
from semel.engine.jar_digests import pinned, verify
from semel.engine.java import find_java
from semel.engine.private import weakness_of
from semel.engine.running import find_all
from semel.errors import ConfigError, EnvironmentFailure, SemelError
from semel.protocol.clear_text import REVEALING, is_loopback
from semel.wire.listener import Listener, look_at
from semel.wire.settings import WireSettings
from semel.wire.topology import BrokerAddress

# What is told comes from strangers, and may name any number of brokers.
BROKERS_MAX = 100
ASK_MS_MAX = 20_000
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def examine_security(bootstrap: str | None, command_config: str | None) -> list[Diagnosis]:
    """Examine this machine, then the cluster if one is named."""
    diagnoses = [
        _cache(),
        *_jars(),
        _program("semel itself", Path(semel.__file__).resolve().parent),
        _java(),
        *_running(),
    ]
    if command_config:
        diagnoses.append(_credentials_file(Path(command_config)))
    if bootstrap:
        diagnoses += _cluster(bootstrap, command_config)
    return diagnoses


def _cache() -> Diagnosis:
    folder = cache_folder()
    weakness = weakness_of(folder)
    if weakness is not None:
        return Diagnosis("cache folder", Level.PROBLEM, f"{folder} {weakness.found}", weakness.remedy)
    return Diagnosis("cache folder", Level.OK, f"{folder}: nobody else can write there")


def _jars() -> list[Diagnosis]:
    found = [folder for folder in sorted((cache_folder() / "jars").glob("*")) if folder.is_dir()]
    wrong = []
    for folder in found:
        if folder.name not in pinned():
            wrong.append(Diagnosis("jars", Level.NOTE, f"{folder} is of no use to this semel", f"rm -r {folder}"))
            continue
        try:
            verify(folder, name=folder.name, origin="the cache")
        except EnvironmentFailure as error:
            wrong.append(Diagnosis("jars", Level.PROBLEM, error.summary, error.next_command))
    return wrong or [Diagnosis("jars", Level.OK, f"{len(found)} sets, all as pinned")]


def _program(name: str, path: Path) -> Diagnosis:
    """Whether others can change a program that this user runs."""
    for place in (path, path.parent):
        # Who can write to the folder can put another program in the place of this one.
        mode = place.stat().st_mode
        if mode & _OTHERS_WRITE and not mode & stat.S_ISVTX:
            found = f"{place} can be written by others (mode {stat.S_IMODE(mode):04o})"
            return Diagnosis(name, Level.PROBLEM, found, f"chmod go-w {place}")
    return Diagnosis(name, Level.OK, f"{path}: nobody else can write there")


def _java() -> Diagnosis:
    try:
        return _program("java", find_java().path.resolve())
    except EnvironmentFailure as error:
        return Diagnosis("java", Level.NOTE, error.summary, error.next_command)


def _running() -> list[Diagnosis]:
    try:
        found = find_all()
    except EnvironmentFailure as error:
        return [Diagnosis("clusters", Level.PROBLEM, error.summary, error.next_command)]
    remedy = "start it with --tls and --sasl-users, or on 127.0.0.1"
    weak = [
        Diagnosis("clusters", Level.PROBLEM, f"cluster {one.name!r}: {exposure}", remedy)
        for one in found
        for exposure in one.exposures()
    ]
    return weak or [Diagnosis("clusters", Level.OK, f"{len(found)} run here, none is open to the network")]


def _credentials_file(path: Path) -> Diagnosis:
    try:
        found = path.stat()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        text = f"{path} can be read by others (mode {stat.S_IMODE(found.st_mode):04o})"
        return Diagnosis("settings file", Level.PROBLEM, text, f"chmod 600 {path}")
    return Diagnosis("settings file", Level.OK, f"{path}: only its owner can read it")


def _cluster(bootstrap: str, command_config: str | None) -> list[Diagnosis]:
    """Look at each port as a stranger would; the user's own settings tell which ports there are, and are judged too."""
    given = WireSettings.from_options({"kafka.bootstrap.servers": bootstrap})
    listeners = {address: look_at(address) for address in _addresses(given)}
    told = {each for listener in listeners.values() for each in listener.brokers}
    diagnoses: list[Diagnosis] = []
    if command_config:
        own = _by_own_settings(bootstrap, command_config)
        diagnoses.append(own[0])
        told |= own[1]
    known = {(each.host, each.port) for each in listeners}
    for address in sorted(told, key=lambda each: each.id)[:BROKERS_MAX]:
        # Brokers that only the answers name have ports of their own, and one weak port is enough.
        if (address.host, address.port) not in known:
            listeners[address] = look_at(address)
    return diagnoses + [judge(listener) for listener in listeners.values()]


def _addresses(settings: WireSettings) -> list[BrokerAddress]:
    return [BrokerAddress(id=-1, host=host, port=port) for host, port in settings.bootstrap]


def _by_own_settings(bootstrap: str, command_config: str) -> tuple[Diagnosis, set[BrokerAddress]]:
    try:
        with closing(cluster_of(bootstrap, command_config)) as cluster:
            ids = cluster.broker_ids(cluster.deadline(ASK_MS_MAX))
            brokers = {cluster.connection(each, cluster.deadline(ASK_MS_MAX)).address for each in ids[:BROKERS_MAX]}
    except SemelError as error:
        remedy = error.you_want or error.next_command or f"correct {command_config}"
        return Diagnosis("your settings", Level.PROBLEM, error.summary, remedy), set()
    settings = cluster.settings
    # By the addresses that brokers answered with, not by the one that was given: records go there.
    if settings.tls is None and not all(is_loopback(each.host) for each in brokers):
        found = f"{settings.protocol}: anybody on the network can read along"
        return Diagnosis("your settings", Level.PROBLEM, found, "security.protocol=SASL_SSL, or SSL"), brokers
    if settings.tls is not None and not settings.tls.check_host:
        found = "ssl.endpoint.identification.algorithm is empty: another host with any certificate could answer"
        return Diagnosis("your settings", Level.PROBLEM, found, "leave it out, or https"), brokers
    return Diagnosis("your settings", Level.OK, f"{settings.protocol}, {len(brokers)} brokers answer"), brokers


def judge(listener: Listener) -> Diagnosis:
    """What a stranger can do there; on loopback, strangers are the other users of this machine."""
    name, where = "broker", str(listener.address)
    level = Level.NOTE if is_loopback(listener.address.host) else Level.PROBLEM
    if listener.unreachable:
        return Diagnosis(name, Level.NOTE, f"{where} cannot be judged: {listener.unreachable}", "look from elsewhere")
    if listener.lets_anybody_in:
        found = f"{where} answers without TLS and without a login: anybody who reaches it can read and write"
        return Diagnosis(name, level, found, "a listener with SASL_SSL, and none without")
    showing = [each for each in listener.mechanisms if each in REVEALING]
    if showing:
        found = f"{where} takes {' and '.join(showing)} without TLS: anybody on the network sees the password"
        return Diagnosis(name, level, found, "SASL_SSL; or SCRAM-SHA-512 alone in sasl.enabled.mechanisms")
    if listener.in_the_clear:
        found = f"{where} speaks without TLS: anybody on the network can read along"
        return Diagnosis(name, level, found, "SASL_SSL")
    return Diagnosis(name, Level.OK, f"{where} speaks {listener.tls} only")
