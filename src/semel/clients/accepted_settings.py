"""Every setting that `semel.Producer` and `semel.Consumer` take from `settings={…}`; any other is refused by its name.

Why: librdkafka takes much that would do nothing here, or undo what the clients rely on: settings of the other role,
     callbacks whose place the clients have taken, a switch that silences delivery reports. It says so in a log line at
     most. docs/guide/client-settings.md has the same names with what becomes of each; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Mapping

from semel.clients.setting_defaults import Library
from semel.clients.setting_names import Role
from semel.clients.setting_vocabulary import is_known, nearest, printable_name
from semel.errors import ConfigError
from semel.protocol.clear_text import IN_THE_CLEAR

_CONNECTING = """
api.version.request.timeout.ms bootstrap.servers broker.address.family broker.address.ttl client.dns.lookup client.id
connections.max.idle.ms metadata.broker.list metadata.max.age.ms metadata.recovery.rebootstrap.trigger.ms
metadata.recovery.strategy receive.message.max.bytes reconnect.backoff.max.ms reconnect.backoff.ms retry.backoff.max.ms
retry.backoff.ms socket.connection.setup.timeout.ms socket.keepalive.enable socket.max.fails socket.nagle.disable
socket.receive.buffer.bytes socket.send.buffer.bytes socket.timeout.ms topic.metadata.propagation.max.ms
topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.interval.ms topic.metadata.refresh.sparse
"""
_SECURITY = f"""
enable.sasl.oauthbearer.unsecure.jwt enable.ssl.certificate.verification https.ca.location https.ca.pem oauth_cb
{IN_THE_CLEAR} sasl.kerberos.keytab sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
sasl.kerberos.principal sasl.kerberos.service.name sasl.mechanism sasl.mechanisms sasl.oauthbearer.assertion.algorithm
sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.jwt.template.file
sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
sasl.oauthbearer.assertion.private.key.pem sasl.oauthbearer.client.credentials.client.id
sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.client.id sasl.oauthbearer.client.secret
sasl.oauthbearer.config sasl.oauthbearer.extensions sasl.oauthbearer.grant.type
sasl.oauthbearer.metadata.authentication.type sasl.oauthbearer.method sasl.oauthbearer.scope
sasl.oauthbearer.token.endpoint.url sasl.password sasl.username security.protocol ssl.ca.location ssl.ca.pem
ssl.certificate.location ssl.certificate.pem ssl.cipher.suites ssl.crl.location ssl.curves.list
ssl.endpoint.identification.algorithm ssl.key.location ssl.key.password ssl.key.pem ssl.keystore.location
ssl.keystore.password ssl.providers ssl.sigalgs.list
"""
_WATCHING = """
debug enable.metrics.push error_cb log.connection.close log.thread.name log_level logger statistics.interval.ms
stats_cb throttle_cb
"""
_PRODUCER = """
acks allow.auto.create.topics batch.num.messages batch.size compression.codec compression.level compression.type
delivery.timeout.ms enable.gapless.guarantee enable.idempotence linger.ms max.in.flight
max.in.flight.requests.per.connection message.copy.max.bytes message.max.bytes message.send.max.retries
message.timeout.ms partitioner queue.buffering.backpressure.threshold queue.buffering.max.kbytes
queue.buffering.max.messages queue.buffering.max.ms request.required.acks request.timeout.ms retries
sticky.partitioning.linger.ms transaction.timeout.ms transactional.id
"""
_CONSUMER = """
allow.auto.create.topics auto.offset.reset check.crcs client.rack coordinator.query.interval.ms enable.auto.commit
enable.auto.offset.store fetch.error.backoff.ms fetch.max.bytes fetch.message.max.bytes fetch.min.bytes
fetch.queue.backoff.ms fetch.wait.max.ms group.id group.instance.id group.protocol group.remote.assignor
heartbeat.interval.ms isolation.level max.partition.fetch.bytes max.poll.interval.ms message.max.bytes on_commit
partition.assignment.strategy queued.max.messages.kbytes queued.min.messages session.timeout.ms
"""
OF_BOTH = frozenset((_CONNECTING + _SECURITY + _WATCHING).split())
ACCEPTED = {
    Role.PRODUCER: OF_BOTH | frozenset(_PRODUCER.split()),
    Role.CONSUMER: OF_BOTH | frozenset(_CONSUMER.split()),
}

# What to do instead, for names that people know from elsewhere or that librdkafka would take.
INSTEAD = {
    "auto.commit.enable": "enable.auto.commit=false, or leave it out",
    "auto.commit.interval.ms": "consumer.commit(): offsets are committed when the guarantee says, never by a timer",
    "buffer.memory": "queue.buffering.max.kbytes",
    "delivery.report.only.error": "leave it out: Delivery.result() could not tell that a record arrived",
    "dr_cb": "producer.send(…).result()",
    "enable.partition.eof": "consumer.batches(idle_ms_max=…), which ends when nothing comes any more",
    "key.deserializer": "record.key: bytes, to be read by your code",
    "key.serializer": "producer.send(…, key=…) with bytes or text",
    "max.poll.records": "consumer.batches(records_max=…)",
    "max.request.size": "message.max.bytes",
    "on_delivery": "producer.send(…).result()",
    "partitioner.class": "partitioner=murmur2_random, which chooses as the Java client does",
    "sasl.jaas.config": "sasl.username and sasl.password",
    "ssl.enabled.protocols": "leave it out: TLS 1.2 and 1.3 are spoken",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.truststore.location": "ssl.ca.location, a PEM file",
    "value.deserializer": "record.value: bytes, to be read by your code",
    "value.serializer": "producer.send(topic, value) with bytes or text",
}
_LIBRDKAFKA = Library.parse("librdkafka")


def refuse_other_names(role: Role, given: Mapping[str, object]) -> None:
    """Raise ConfigError for the first name that is not accepted; no value is shown, it may be a misnamed password."""
    for name in given:
        if not isinstance(name, str):
            raise ConfigError("the name of a setting is text", you_wrote=f"a key of type {type(name).__name__}")
        if name in ACCEPTED[role]:
            continue
        # A setting of the other role is told as such. librdkafka would write a line to its log and go on.
        other = next((each for each in Role if name in ACCEPTED[each]), None)
        if other is not None:
            raise ConfigError(f"{name} is a setting of a {other}", you_want=f"leave it out of the {role}'s settings")
        known = is_known(name, _LIBRDKAFKA)
        # Users of Spark write the prefix out of habit; it must not hide the name that was meant.
        near = "" if known else nearest(name.removeprefix("kafka."), _LIBRDKAFKA)
        raise ConfigError(
            f"{name} is not a setting that a {role} honours"
            if known
            else f"there is no setting {printable_name(name)}",
            you_want=INSTEAD.get(name) or (near if near in ACCEPTED[role] else ""),
            because="a setting that nobody reads would be a surprise later: docs/guide/client-settings.md has them all",
        )
