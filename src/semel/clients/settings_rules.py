"""The one table of client settings that contradict a guarantee: `CLIENT_RULES`, ids S001 to S012; and S046, about code.

`semel.Producer` and `semel.Consumer` refuse what breaks a rule; `semel check` reports it for clients of any library.
Rules look at settings by the Java clients' names with defaults filled in: see `setting_names.read_settings`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from semel.clients.setting_effects import IN_FLIGHT, IN_FLIGHT_MAX
from semel.clients.setting_names import ClientSettings, Role
from semel.guarantee import Anomaly, Guarantee

MOST, LEAST, EXACTLY = Guarantee.AT_MOST_ONCE, Guarantee.AT_LEAST_ONCE, Guarantee.EXACTLY_ONCE


@dataclass(frozen=True, slots=True, kw_only=True)
class UseRule:
    """One thing a client's user must do; a guarantee that is not in `requires` does not ask for it."""

    id: str
    title: str
    role: Role
    requires: Mapping[Guarantee, str]
    anomalies: frozenset[Anomaly]
    wrong: str
    fault: str
    sources: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRule(UseRule):
    """One thing a client's settings must be.

    With `libraries` only clients of those are asked for it, with `only_with` only those that have, or may have, that
    setting: what is not judged is not shown as held.
    """

    settings: tuple[str, ...]
    keeps: Callable[[ClientSettings, Guarantee], bool]
    libraries: frozenset[str] = frozenset()
    only_with: str = ""

    def applies(self, settings: ClientSettings, guarantee: Guarantee) -> bool:
        """Whether this client and this guarantee have to do with it."""
        if self.libraries and settings.library.name not in self.libraries:
            return False
        if self.only_with and not settings.why_unread(self.only_with) and not settings.text(self.only_with):
            return False
        return self.role in settings.roles and guarantee in self.requires


def broken_rules(settings: ClientSettings, guarantee: Guarantee) -> Iterator[ClientRule]:
    """The rules that these settings break under this guarantee."""
    for rule in CLIENT_RULES:
        if rule.applies(settings, guarantee) and not rule.keeps(settings, guarantee):
            yield rule


def _keeps_acks(settings: ClientSettings, _: Guarantee) -> bool:
    return settings.text("acks") == "all"


def _keeps_retries(settings: ClientSettings, guarantee: Guarantee) -> bool:
    if guarantee is MOST:
        return settings.number("retries") == 0 or settings.enabled("enable.idempotence")
    return settings.number("retries") != 0


def _keeps_idempotence(settings: ClientSettings, _: Guarantee) -> bool:
    return settings.enabled("enable.idempotence")


def _keeps_in_flight(settings: ClientSettings, _: Guarantee) -> bool:
    number = settings.number(IN_FLIGHT)
    return number is not None and 1 <= number <= IN_FLIGHT_MAX


def _keeps_no_transactions(settings: ClientSettings, _: Guarantee) -> bool:
    return not settings.text("transactional.id")


def _keeps_transactions(settings: ClientSettings, _: Guarantee) -> bool:
    return bool(settings.text("transactional.id"))


def _keeps_own_commits(settings: ClientSettings, _: Guarantee) -> bool:
    return not settings.enabled("enable.auto.commit")


def _keeps_isolation(settings: ClientSettings, _: Guarantee) -> bool:
    return settings.text("isolation.level") == "read_committed"


def _keeps_reset(settings: ClientSettings, guarantee: Guarantee) -> bool:
    unsafe = "earliest" if guarantee is MOST else "latest"
    return settings.text("auto.offset.reset") != unsafe


def _keeps_delivery_time(settings: ClientSettings, _: Guarantee) -> bool:
    limit_ms, request_ms = settings.number("delivery.timeout.ms"), settings.number("request.timeout.ms")
    linger_ms = settings.number("linger.ms") or 0
    return not limit_ms or request_ms is None or limit_ms >= request_ms + linger_ms


def _keeps_transaction_time(settings: ClientSettings, _: Guarantee) -> bool:
    limit_ms, delivery_ms = settings.number("transaction.timeout.ms"), settings.number("delivery.timeout.ms")
    return bool(settings.text("transactional.id")) and (limit_ms or 0) >= (delivery_ms or 0)


def _keeps_group(settings: ClientSettings, _: Guarantee) -> bool:
    return bool(settings.text("group.id"))


def _all(text: str, *guarantees: Guarantee) -> dict[Guarantee, str]:
    return dict.fromkeys(guarantees or tuple(Guarantee), text)


CLIENT_RULES = (
    ClientRule(
        id="S001",
        title="every in-sync replica acknowledges a record",
        role=Role.PRODUCER,
        settings=("acks",),
        requires=_all("acks=all", LEAST, EXACTLY),
        keeps=_keeps_acks,
        anomalies=frozenset({Anomaly.LOST}),
        wrong="With acks=0 a request that never arrived counts as sent. With acks=1 the leader alone has the record; "
        "when it dies before a follower has copied it, the record is gone and the producer was told that it is safe.",
        fault="a Produce request is dropped on its way to the broker",
        sources="Apache Kafka producer configuration: acks; KIP-679",
    ),
    ClientRule(
        id="S002",
        title="a failed send is repeated, or never, as the guarantee needs",
        role=Role.PRODUCER,
        settings=("retries", "enable.idempotence"),
        requires={**_all("retries above 0", LEAST, EXACTLY), MOST: "retries=0, or enable.idempotence=true"},
        keeps=_keeps_retries,
        anomalies=frozenset({Anomaly.LOST, Anomaly.DUPLICATED}),
        wrong="Without retries one broken connection loses whatever was under way. With retries and without sequence "
        "numbers a record whose acknowledgement was lost is appended again, which at most once forbids.",
        fault="a Produce request is dropped and the connection cut",
        sources="Apache Kafka producer configuration: retries, delivery.timeout.ms",
    ),
    ClientRule(
        id="S003",
        title="a repeated send is appended once",
        role=Role.PRODUCER,
        settings=("enable.idempotence",),
        requires=_all("enable.idempotence=true", EXACTLY),
        keeps=_keeps_idempotence,
        anomalies=frozenset({Anomaly.DUPLICATED}),
        wrong="The broker appended the record and its answer was lost. The producer sends it again; without a producer "
        "id and sequence number the broker cannot know that it has it already.",
        fault="a Produce request is carried out and its response dropped",
        sources="KIP-98; KIP-679",
    ),
    ClientRule(
        id="S004",
        title="at most five requests are in flight",
        role=Role.PRODUCER,
        settings=(IN_FLIGHT,),
        requires=_all(f"{IN_FLIGHT}=5 or less", EXACTLY),
        keeps=_keeps_in_flight,
        anomalies=frozenset({Anomaly.REORDERED}),
        wrong="A broker remembers the last five batches of a producer, and idempotence needs that. Without it, a "
        "request that failed is sent again behind the others that were in flight, and the order is gone.",
        fault="the first of many Produce requests in flight fails and is sent again behind the others",
        sources="KIP-98; Apache Kafka producer configuration: max.in.flight.requests.per.connection",
    ),
    ClientRule(
        id="S005",
        title="a transactional id belongs to exactly once",
        role=Role.PRODUCER,
        settings=("transactional.id",),
        requires=_all("no transactional.id, or guarantee exactly_once", MOST, LEAST),
        keeps=_keeps_no_transactions,
        anomalies=frozenset(),
        wrong="Transactions cost round trips and hold read_committed readers back. Declared beside a weaker guarantee, "
        "either the declaration or the setting is a mistake, and only you know which.",
        fault="none: two statements contradict each other",
        sources="KIP-98",
    ),
    ClientRule(
        id="S006",
        title="a restarted producer is known by its transactional id",
        role=Role.PRODUCER,
        settings=("transactional.id",),
        requires=_all("a transactional.id", EXACTLY),
        keeps=_keeps_transactions,
        anomalies=frozenset({Anomaly.DUPLICATED}),
        wrong="Sequence numbers end with the session. A producer that is killed before it knows what arrived starts "
        "with a new producer id and sends again; the broker takes it for somebody else.",
        fault="the producer is killed after its records arrived and before it knew",
        sources="KIP-98; KIP-360",
    ),
    ClientRule(
        id="S007",
        title="offsets are committed by the code that processed the records",
        role=Role.CONSUMER,
        settings=("enable.auto.commit",),
        requires=_all("enable.auto.commit=false"),
        keeps=_keeps_own_commits,
        anomalies=frozenset({Anomaly.LOST, Anomaly.DUPLICATED}),
        wrong="A timer commits what was handed out, not what was processed. A crash between the two skips the rest; a "
        "crash between processing and the timer repeats it. Neither is chosen, so no guarantee holds.",
        fault="the consumer is killed in the middle of a batch, after the timer has committed it",
        sources="Apache Kafka consumer configuration: enable.auto.commit; librdkafka: enable.auto.offset.store",
    ),
    ClientRule(
        id="S008",
        title="aborted records are not read",
        role=Role.CONSUMER,
        settings=("isolation.level",),
        requires=_all("isolation.level=read_committed", EXACTLY),
        keeps=_keeps_isolation,
        anomalies=frozenset({Anomaly.ABORTED_READ, Anomaly.DUPLICATED}),
        wrong="Aborted records stay in the log. A read_uncommitted reader takes them for real, and reads them again "
        "when the producer has repeated the transaction.",
        fault="a transaction is aborted and repeated",
        sources="KIP-98; Apache Kafka consumer configuration: isolation.level",
    ),
    ClientRule(
        id="S009",
        title="a group without a position does not skip or repeat silently",
        role=Role.CONSUMER,
        settings=("auto.offset.reset",),
        requires={
            **_all("auto.offset.reset=earliest, or none", LEAST, EXACTLY),
            MOST: "auto.offset.reset=latest, or none",
        },
        keeps=_keeps_reset,
        anomalies=frozenset({Anomaly.LOST, Anomaly.DUPLICATED}),
        wrong="When a group's offsets have expired, were deleted or point below the log, the client starts elsewhere "
        "without a word: latest skips everything written in between, earliest reads everything again.",
        fault="the group's offsets are deleted while it rests",
        sources="Apache Kafka consumer configuration: auto.offset.reset; KIP-211",
    ),
    ClientRule(
        id="S010",
        title="a send has time for at least one whole request",
        role=Role.PRODUCER,
        settings=("delivery.timeout.ms", "request.timeout.ms", "linger.ms"),
        requires=_all("delivery.timeout.ms of at least request.timeout.ms + linger.ms", LEAST, EXACTLY),
        keeps=_keeps_delivery_time,
        anomalies=frozenset({Anomaly.LOST}),
        wrong="The producer gives a record up while its first request may still be answered: a slow answer becomes a "
        "lost record, and retries never happen. The Java client refuses such settings, librdkafka takes them.",
        fault="a broker answers later than the record may wait",
        sources="KIP-91",
    ),
    ClientRule(
        id="S011",
        title="a transaction outlives the sends in it",
        role=Role.PRODUCER,
        settings=("transaction.timeout.ms", "delivery.timeout.ms"),
        requires=_all("transaction.timeout.ms of at least delivery.timeout.ms", EXACTLY),
        libraries=frozenset({"librdkafka"}),
        only_with="transactional.id",
        keeps=_keeps_transaction_time,
        anomalies=frozenset(),
        wrong="The coordinator would abort the transaction, and fence the producer, while it still repeats a send. "
        "librdkafka refuses to start with such settings, and lowers delivery.timeout.ms where nobody wrote it. No "
        "other library compares the two, so only clients of librdkafka are judged.",
        fault="none is needed: the producer does not start",
        sources="KIP-98; librdkafka: transaction.timeout.ms",
    ),
    ClientRule(
        id="S012",
        title="a consumer has a group to commit to",
        role=Role.CONSUMER,
        settings=("group.id",),
        requires=_all("a group.id"),
        keeps=_keeps_group,
        anomalies=frozenset({Anomaly.LOST, Anomaly.DUPLICATED}),
        wrong="Without a group there is no position to come back to: a restarted consumer begins again at the start or "
        "at the end of the topic.",
        fault="the consumer is restarted",
        sources="Apache Kafka consumer configuration: group.id",
    ),
)

# No setting says where a program keeps its offsets: the consumer finds out when it is used otherwise.
OFFSETS_RULE = UseRule(
    id="S046",
    title="offsets are kept where the guarantee says",
    role=Role.CONSUMER,
    requires={
        MOST: "offsets in the group, committed before the work",
        LEAST: "offsets in the group, committed after the work",
        EXACTLY: "each batch's offsets in a producer's transaction, or in a store with the results",
    },
    anomalies=frozenset({Anomaly.LOST, Anomaly.DUPLICATED}),
    wrong="Results and offsets that are kept apart part in a crash. Offsets committed after the results: the next "
    "process does the work again. Before them: nobody does it. Only both in one transaction are exactly once.",
    fault="the consumer is killed after its results were committed and before its offsets were",
    sources="KIP-98, KIP-447; Apache Kafka documentation: message delivery semantics",
)
