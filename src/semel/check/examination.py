"""One run of `semel check`: what to look at, the facts, the findings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from semel.check.facts import ClientFacts, Facts, QueryFacts
from semel.check.gathering.cluster import ClusterFacts, Wanted
from semel.check.gathering.starts import named_starts
from semel.check.judging import judge_all
from semel.check.rule import Finding
from semel.check.rules import RULES
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
        return replace(live, clients=self.clients, queries=self.queries)

    def _wanted(self) -> Wanted:
        pipelines = [query.text("pipeline") for query in self.queries if query.text("pipeline")]
        written = [client.settings.text("transactional.id") for client in self.clients]
        return Wanted(
            guarantee=self.guarantee,
            topics=self.topics,
            groups=self.groups,
            ledgers=pipelines,
            starts={query.name: places for query in self.queries if (places := named_starts(query))},
            transactional_ids=[*self.transactional_ids, *(name for name in written if name), *pipelines],
        )

    def findings(self) -> list[Finding]:
        """Gather and judge."""
        return judge_all(RULES, self.gather())


def verdict_of(findings: list[Finding]) -> Verdict:
    """The worst; nothing at all shows nothing."""
    return Verdict.worst(finding.verdict for finding in findings)
