"""The differences that are meant. Each reason stands, word for word, in docs/DIFFERENCES.md under its anchor.

An entry that no longer occurs fails the tests: the list says what is, not what once was. `step`, `path` and the two
values are patterns as in file names.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """One place at which the embedded cluster answers otherwise."""

    api: str
    path: str
    anchor: str
    reason: str
    step: str = "*"
    embedded: str = "*"
    apache: str = "*"


MORE_WORDS = "An error often comes with a message where Apache Kafka sends none."
INSYNC_SOURCE = (
    "`min.insync.replicas` comes from the defaults; Apache Kafka sets it as a dynamic default of all brokers."
)
NOT_SERVED = (
    *(34, 38, 39, 40, 41, 57, 64),
    *(76, 77, 78, 79, 80, 81, 83, 84, 85, 86, 87, 88, 89, 90, 91, 92),
)
FEATURES = ("eligible.leader.replicas", "kraft", "metadata", "share", "streams")
NOT_FINALIZED = "kraft"

MESSAGES = (
    Allowed(api="Produce", path="*.error_message", anchor="k00", reason=MORE_WORDS, embedded="'text'", apache="None"),
    Allowed(
        api="CreatePartitions",
        path="*.error_message",
        anchor="k37",
        reason=MORE_WORDS,
        embedded="'text'",
        apache="None",
    ),
    Allowed(
        api="FindCoordinator",
        path="*.error_message",
        anchor="k10",
        reason=MORE_WORDS,
        step="coordinator of type 2 *",
        embedded="'text'",
        apache="''",
    ),
)

QUOTAS = (
    Allowed(
        api="AlterClientQuotas",
        path="entries.*",
        anchor="k49",
        reason="Client quotas are not enforced, so setting one is refused with INVALID_REQUEST, and the message says "
        "why.",
        step="set, *",
    ),
)

RECORDS = (
    Allowed(
        api="Produce",
        path="*.partition_responses.0.*",
        anchor="k00",
        reason="A batch that says LogAppendTime is refused with INVALID_TIMESTAMP; Apache Kafka takes it and writes "
        "the topic's own timestamp type into it.",
        step="time type set by the client *",
    ),
    Allowed(
        api="Fetch",
        path="*.partitions.1.records",
        anchor="k01",
        reason="An answer ends with a whole batch; Apache Kafka fills what is left of the limit with a part of the "
        "next.",
        step="limit 236 *",
        apache="[[]]",
    ),
    Allowed(
        api="ListOffsets",
        path="topics.*-places.partitions.0.*",
        anchor="k02",
        reason="The largest timestamp is looked for among records that have not been deleted; Apache Kafka also finds "
        "deleted ones that are still in their segment.",
        step="after deletion, offset at -3 *",
        embedded="-1",
    ),
)

TOPICS = (
    Allowed(
        api="Metadata",
        path="topics.*-made-*",
        anchor="k03",
        reason="A topic made on demand is in the same answer; Apache Kafka first answers UNKNOWN_TOPIC_OR_PARTITION.",
        step="made on demand *",
    ),
    Allowed(
        api="Metadata",
        path="*",
        anchor="k03",
        reason="A topic asked for with neither name nor id is INVALID_TOPIC_EXCEPTION; Apache Kafka fails with "
        "UNKNOWN_SERVER_ERROR.",
        step="by id None *",
    ),
    Allowed(
        api="CreateTopics",
        path="*.configs.min.insync.replicas.config_source",
        anchor="k19",
        reason=INSYNC_SOURCE,
        embedded="5",
        apache="3",
    ),
)

VERSIONS = (
    *(
        Allowed(
            api="ApiVersions",
            path=f"api_keys.{key}",
            anchor="k18",
            reason="APIs that are not served are not listed.",
            embedded="(absent)",
        )
        for key in NOT_SERVED
    ),
    *(
        Allowed(
            api="ApiVersions", path=f"api_keys.{key}.max_version", anchor=f"k{key:02}", reason=reason, apache=str(last)
        )
        for key, last, reason in (
            (1, 18, "Served up to v17; Apache Kafka 4 knows v18."),
            (2, 11, "Served up to v10; Apache Kafka 4 knows v11."),
        )
    ),
    *(
        Allowed(
            api="ApiVersions",
            path=f"{kind}_features.{name}.version",
            anchor="k18",
            reason="The only features are `group.version` and `transaction.version`.",
            embedded="(absent)",
        )
        for kind in ("supported", "finalized")
        for name in FEATURES
        if (kind, name) != ("finalized", NOT_FINALIZED)
    ),
)

_OWN_DEFAULTS = (
    "broker.heartbeat.interval.ms",
    "broker.session.timeout.ms",
    "group.initial.rebalance.delay.ms",
    "log.flush.scheduler.interval.ms",
    "max.connections",
    "offsets.topic.num.partitions",
    "offsets.topic.replication.factor",
    "replica.fetch.backoff.ms",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms",
    "transaction.state.log.min.isr",
    "transaction.state.log.num.partitions",
    "transaction.state.log.replication.factor",
)
_NO_SYNONYMS = (
    "flush.ms",
    "retention.ms",
    "segment.jitter.ms",
    "segment.ms",
    "log.flush.interval.ms",
    "log.retention.ms",
    "log.roll.jitter.ms",
    "log.roll.ms",
)

SETTINGS = (
    *(
        Allowed(
            api="DescribeConfigs",
            path=f"results.1.configs.{name}.*",
            anchor="k32",
            reason="Some broker settings have other defaults or types, made for one machine.",
        )
        for name in _OWN_DEFAULTS
    ),
    *(
        Allowed(
            api="DescribeConfigs",
            path=f"results.*.configs.{name}.*",
            anchor="k32",
            reason="Times in milliseconds have a default of their own and no synonyms in minutes or hours.",
        )
        for name in _NO_SYNONYMS
    ),
    *(
        Allowed(
            api="DescribeConfigs",
            path=f"results.1.configs.{name}.read_only",
            anchor="k32",
            reason="Fewer broker settings can be changed while the broker runs.",
            embedded="True",
        )
        for name in ("log.cleaner.backoff.ms", "producer.id.expiration.ms", "transaction.partition.verification.enable")
    ),
    Allowed(
        api="DescribeConfigs",
        path="results.*.configs.min.insync.replicas.*",
        anchor="k32",
        reason=INSYNC_SOURCE,
    ),
    Allowed(
        api="DescribeConfigs",
        path="results..configs.min.insync.replicas",
        anchor="k32",
        reason=INSYNC_SOURCE,
        step="broker '' *",
        embedded="(absent)",
    ),
    *(
        Allowed(
            api="DescribeConfigs",
            path="results.*",
            anchor="k32",
            reason="Only topics and brokers have settings.",
            step=f"resource {kind} *",
        )
        for kind in (8, 16, 32)
    ),
    *(
        Allowed(
            api="DescribeConfigs",
            path=f"results.1.configs.{name}",
            anchor="k32",
            reason="The settings of the authorizer are shown too.",
            apache="(absent)",
        )
        for name in ("allow.everyone.if.no.acl.found", "super.users")
    ),
    Allowed(
        api="DescribeConfigs",
        path="*.documentation",
        anchor="k32",
        reason="`documentation` is always null.",
        embedded="None",
    ),
    Allowed(
        api="IncrementalAlterConfigs",
        path="responses.*",
        anchor="k44",
        reason="An unknown operation is INVALID_REQUEST; Apache Kafka fails with UNKNOWN_SERVER_ERROR.",
        step="change unknown operation*",
    ),
    *(
        Allowed(
            api="ListConfigResources",
            path="config_resources*",
            anchor="k74",
            reason="There are no groups, loggers or client metrics subscriptions with settings.",
            step=f"resources {kinds} *",
        )
        for kinds in ("[[]]", "[[]8]")
    ),
    *(
        Allowed(
            api="DescribeLogDirs",
            path=f"*.{name}_bytes",
            anchor="k35",
            reason="The total and usable size of the disk are not told (-1).",
            embedded="-1",
        )
        for name in ("total", "usable")
    ),
)

ALLOWED: tuple[Allowed, ...] = (*MESSAGES, *QUOTAS, *RECORDS, *TOPICS, *VERSIONS, *SETTINGS)
