"""One run of `semel check`: what to look at, the facts, the findings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from semel.check.facts import ClientFacts, FactMissing, Facts, QueryFacts
from semel.check.gathering.cluster import ClusterFacts, Wanted
from semel.check.gathering.starts import named_starts
from semel.check.judging import judge_all
from semel.check.repair import connect_options
from semel.check.rule import Finding, Standing
from semel.check.rules import RULES
from semel.clients.setting_names import COMPUTED_NAME
from semel.errors import EnvironmentFailure, SemelError
from semel.guarantee import Guarantee
from semel.history.verdict import Verdict
from semel.wire.cluster import WireCluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What to look at; without a cluster only what the files say."""

    guarantee: Guarantee
    now_ms: Callable[[], int]
    cluster: WireCluster | None = None
    command_config: str | None = None
    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    transactional_ids: tuple[str, ...] = ()
    clients: tuple[ClientFacts, ...] = ()
    queries: tuple[QueryFacts, ...] = ()

    def gather(self) -> Facts:
        """Ask the cluster; EnvironmentFailure when it cannot be reached at all."""
        if self.cluster is None:
            live = Facts(guarantee=self.guarantee, now_ms=self.now_ms())
        else:
            wanted = self._wanted()
            try:
                live = ClusterFacts(self.cluster, self.now_ms()).gather(wanted)
            except SemelError as error:
                raise EnvironmentFailure(
                    f"the cluster cannot be examined: {error.summary}",
                    because=error.because,
                    next_command=error.next_command or "check --bootstrap and --command-config",
                ) from None
        return replace(live, clients=self.clients, queries=self.queries, connect=self.connect)

    @property
    def connect(self) -> str:
        """How a command of Apache Kafka reaches the cluster."""
        places = self.cluster.settings.bootstrap if self.cluster is not None else (("HOST", "PORT"),)
        shown = [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in places]
        return connect_options(",".join(shown), self.command_config)

    def _wanted(self) -> Wanted:
        pipelines = [name for query in self.queries if (name := _told(query, "pipeline"))]
        # A name that only the running program knows is nothing that a cluster could be asked about.
        written = [
            client.settings.text("transactional.id")
            for client in self.clients
            if not client.settings.why_unread("transactional.id")
        ]
        return Wanted(
            guarantee=self.guarantee,
            topics=self.topics,
            groups=self.groups,
            ledgers=pipelines,
            starts={
                query.name: places
                for query in self.queries
                if _told(query, "startingOffsets") and (places := named_starts(query))
            },
            # A pipeline's name is its sink's transactional id, and the name of its ledger's group.
            transactional_ids=[
                *self.transactional_ids,
                *(name for name in written if name and name != COMPUTED_NAME),
                *pipelines,
            ],
        )

    def findings(self) -> list[Finding]:
        """Gather and judge."""
        return judge_all(RULES, self.gather())


def _told(query: QueryFacts, option: str) -> str:
    """The option's text, empty where the file does not have it: the rules that need it report that."""
    try:
        return query.text(option)
    except FactMissing:
        return ""


def verdict_of(findings: list[Finding]) -> Verdict:
    """The worst of those that count; nothing at all, or nothing that was not ignored, shows nothing."""
    # Known findings and warnings stay in, as held: they were looked at, which is more than nothing.
    judged = [finding for finding in findings if finding.standing is not Standing.IGNORED]
    return Verdict.worst(finding.verdict if finding.counts else Verdict.HELD for finding in judged)
