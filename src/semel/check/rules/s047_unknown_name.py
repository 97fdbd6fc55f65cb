"""S047: every setting is one that the library knows."""

from semel.check.facts import FactMissing, Facts
from semel.check.rule import About, Judged, Rule, Severity
from semel.clients.setting_names import UnknownName
from semel.clients.setting_vocabulary import refuses_unknown_names


def _judge(facts: Facts, name: str) -> Judged:
    settings = facts.client(name).settings
    unknown = settings.unknown_names
    if not unknown and settings.elsewhere:
        raise FactMissing(f"other names may be set: {settings.elsewhere}")
    if not unknown:
        return Judged(held=True, found=f"every name is one of {settings.library}")
    # Java drops a name that it does not know. One that is like no other may belong to a serializer or an interceptor.
    guessed = any(one.near for one in unknown) or refuses_unknown_names(settings.library)
    wanted = ", ".join(f"{one.near} for {one.name}" for one in unknown if one.near)
    return Judged(
        held=False,
        found=f"{settings.library} does not know {', '.join(map(_told, unknown))}",
        fix=f"in {name}: {wanted}" if wanted else f"in {name}: remove it, unless a part of yours reads it",
        severity=Severity.ERROR if guessed else Severity.WARNING,
    )


def _told(unknown: UnknownName) -> str:
    return f"{unknown.name} ({unknown.near}?)" if unknown.near else unknown.name


RULE = Rule(
    id="S047",
    title="every setting is one that the library knows",
    about=About.CLIENT,
    requires="names of settings that the library has",
    anomalies=frozenset(),
    wrong="The Java client drops a name that it does not know, with a line in its log, and goes on with the default: "
    "what was meant is not in force. librdkafka, kafka-python and aiokafka refuse to start. A name that is like none "
    "of the library's, given to Java, is a warning: serializers and interceptors have settings of their own.",
    fault="none is needed: a setting has a typing error",
    shown_by="",
    sources="Apache Kafka AbstractConfig: unused configurations; librdkafka configuration properties",
    subjects=lambda facts: [client.name for client in facts.clients],
    judge=_judge,
)
