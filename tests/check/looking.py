"""How tests of rules look at a cluster: the findings of one examination, and what one rule said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from semel.check.examination import Examination
from semel.check.facts import ClientFacts, QueryFacts
from semel.check.rule import Finding
from semel.clients.setting_defaults import Library
from semel.clients.setting_names import Role, read_settings
from semel.guarantee import Guarantee
from semel.history.verdict import Verdict
from semel.wire.cluster import WireCluster
from semel.wire.settings import WireSettings
from semel.world.clock import RealClock


def client(
    settings: Mapping[str, object], name: str = "app.properties", *, library: str = "java", role: str = ""
) -> ClientFacts:
    found = read_settings(settings, library=Library.parse(library), role=Role(role) if role else None)
    return ClientFacts(name=name, settings=found)


def query(options: Mapping[str, str], name: str = "query.properties") -> QueryFacts:
    return QueryFacts(name=name, options={key.lower(): value for key, value in options.items()})


@contextmanager
def wired(bootstrap: str, *, api_ms: int = 10_000) -> Iterator[WireCluster]:
    options = {"kafka.bootstrap.servers": bootstrap, "kafka.default.api.timeout.ms": str(api_ms)}
    cluster = WireCluster(WireSettings.from_options(options))
    try:
        yield cluster
    finally:
        cluster.close()


def look(
    bootstrap: str,
    *topics: str,
    guarantee: Guarantee = Guarantee.EXACTLY_ONCE,
    groups: Sequence[str] = (),
    transactional_ids: Sequence[str] = (),
    clients: Sequence[ClientFacts] = (),
    queries: Sequence[QueryFacts] = (),
    ahead_ms: int = 0,
    api_ms: int = 10_000,
) -> list[Finding]:
    """Examine; `ahead_ms` is how far the examiner's clock is ahead, `api_ms` how long one fact may take."""
    with wired(bootstrap, api_ms=api_ms) as cluster:
        return Examination(
            guarantee=guarantee,
            now_ms=lambda: RealClock().wall_ms() + ahead_ms,
            cluster=cluster,
            topics=topics,
            groups=tuple(groups),
            transactional_ids=tuple(transactional_ids),
            clients=tuple(clients),
            queries=tuple(queries),
        ).findings()


def said(findings: Sequence[Finding], rule: str) -> Finding:
    """What a rule said of the only thing it looked at."""
    (found,) = [one for one in findings if one.rule == rule]
    return found


def held(findings: Sequence[Finding], rule: str) -> Finding:
    """The rule must have been applied, and hold for everything."""
    return _all_of(findings, rule, Verdict.HELD)


def broken(findings: Sequence[Finding], rule: str) -> Finding:
    """The rule must have been applied, and be broken, with a word on what to do."""
    found = _all_of(findings, rule, Verdict.BROKEN)
    assert found.fix, found
    return found


def unknown(findings: Sequence[Finding], rule: str) -> Finding:
    return _all_of(findings, rule, Verdict.UNKNOWN)


def _all_of(findings: Sequence[Finding], rule: str, verdict: Verdict) -> Finding:
    found = [one for one in findings if one.rule == rule]
    assert found, f"{rule} was not applied"
    assert {one.verdict for one in found} == {verdict}, found
    return found[0]
