"""Every setting that a client library knows, by the library's own spelling, and the known name nearest to a wrong one.

Why: a Java client takes a name that it does not know without a word and goes on with the default; librdkafka,
     kafka-python and aiokafka refuse it when the client is made. Either way what was meant is not in force.
Sources: ProducerConfig, ConsumerConfig, AdminClientConfig of Apache Kafka 3.9 and 4.3; the properties that librdkafka
         2.16 lists and those that confluent-kafka adds; the fields of sarama's Config; the constructors of kafka-python
         3.0 and aiokafka 0.14.
"""

from __future__ import annotations

import re
from difflib import get_close_matches

from semel.clients.setting_defaults import Library

# Above this share of common letters one name is taken for a misspelling of the other.
NEAR_MIN = 0.8
NAME_LENGTH_MAX = 64
WORD_LENGTH_MAX = 24
_NAME = re.compile(rf"[A-Za-z][A-Za-z0-9._-]{{0,{NAME_LENGTH_MAX - 1}}}")
_WORD = re.compile(rf"[A-Za-z]{{1,{WORD_LENGTH_MAX}}}")

_JAVA = """
acks allow.auto.create.topics auto.commit.interval.ms auto.include.jmx.reporter auto.offset.reset batch.size
bootstrap.controllers bootstrap.servers buffer.memory check.crcs client.dns.lookup client.id client.rack
compression.gzip.level compression.lz4.level compression.type compression.zstd.level config.providers
connections.max.idle.ms default.api.timeout.ms delivery.timeout.ms enable.auto.commit enable.idempotence
enable.metrics.push exclude.internal.topics fetch.max.bytes fetch.max.wait.ms fetch.min.bytes group.id
group.instance.id group.protocol group.remote.assignor heartbeat.interval.ms interceptor.classes isolation.level
key.deserializer key.serializer linger.ms max.block.ms max.in.flight.requests.per.connection max.partition.fetch.bytes
max.poll.interval.ms max.poll.records max.request.size metadata.max.age.ms metadata.max.idle.ms
metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy metric.reporters metrics.num.samples
metrics.recording.level metrics.sample.window.ms partition.assignment.strategy
partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.class partitioner.ignore.keys
receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms retries retry.backoff.max.ms
retry.backoff.ms sasl.client.callback.handler.class sasl.jaas.config sasl.kerberos.kinit.cmd
sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter
sasl.kerberos.ticket.renew.window.factor sasl.login.callback.handler.class sasl.login.class
sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.mechanism sasl.oauthbearer.assertion.algorithm
sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file
sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.template.file
sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
sasl.oauthbearer.header.urlencode sasl.oauthbearer.jwks.endpoint.refresh.ms
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.ms
sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class
sasl.oauthbearer.scope sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
sasl.oauthbearer.token.endpoint.url security.protocol security.providers send.buffer.bytes session.timeout.ms
share.acknowledgement.mode share.acquire.mode socket.connection.setup.timeout.max.ms
socket.connection.setup.timeout.ms ssl.cipher.suites ssl.enabled.protocols ssl.endpoint.identification.algorithm
ssl.engine.factory.class ssl.key.password ssl.keymanager.algorithm ssl.keystore.certificate.chain ssl.keystore.key
ssl.keystore.location ssl.keystore.password ssl.keystore.type ssl.protocol ssl.provider
ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.truststore.certificates ssl.truststore.location
ssl.truststore.password ssl.truststore.type transaction.timeout.ms transaction.two.phase.commit.enable
transactional.id value.deserializer value.serializer
"""
_LIBRDKAFKA = """
acks allow.auto.create.topics api.version.fallback.ms api.version.request api.version.request.timeout.ms
auto.commit.enable auto.commit.interval.ms auto.offset.reset background_event_cb batch.num.messages batch.size
bootstrap.servers broker.address.family broker.address.ttl broker.version.fallback builtin.features check.crcs
client.dns.lookup client.id client.rack closesocket_cb compression.codec compression.level compression.type connect_cb
connections.max.idle.ms consume.callback.max.messages consume_cb coordinator.query.interval.ms debug
default.topic.config default_topic_conf delivery.report.only.error delivery.timeout.ms dr_cb dr_msg_cb
enable.auto.commit enable.auto.offset.store enable.gapless.guarantee enable.idempotence enable.metrics.push
enable.partition.eof enable.random.seed enable.sasl.oauthbearer.unsecure.jwt enable.ssl.certificate.verification
enabled_events error_cb fetch.error.backoff.ms fetch.max.bytes fetch.message.max.bytes fetch.min.bytes
fetch.queue.backoff.ms fetch.wait.max.ms group.id group.instance.id group.protocol group.protocol.type
group.remote.assignor heartbeat.interval.ms https.ca.location https.ca.pem interceptors internal.termination.signal
isolation.level key.deserializer key.serializer linger.ms log.connection.close log.queue log.thread.name log_cb
log_level logger max.in.flight max.in.flight.requests.per.connection max.partition.fetch.bytes max.poll.interval.ms
max.poll.records message.copy.max.bytes message.max.bytes message.send.max.retries message.timeout.ms
metadata.broker.list metadata.max.age.ms metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy
msg_order_cmp oauth_cb oauthbearer_token_refresh_cb offset.store.method offset.store.path
offset.store.sync.interval.ms offset_commit_cb on_commit on_delivery opaque open_cb partition.assignment.strategy
partitioner partitioner_cb plugin.library.paths produce.offset.report queue.buffering.backpressure.threshold
queue.buffering.max.kbytes queue.buffering.max.messages queue.buffering.max.ms queued.max.messages.kbytes
queued.min.messages queuing.strategy rebalance_cb receive.message.max.bytes reconnect.backoff.jitter.ms
reconnect.backoff.max.ms reconnect.backoff.ms request.required.acks request.timeout.ms resolve_cb retries
retry.backoff.max.ms retry.backoff.ms sasl.kerberos.keytab sasl.kerberos.kinit.cmd
sasl.kerberos.min.time.before.relogin sasl.kerberos.principal sasl.kerberos.service.name sasl.mechanism
sasl.mechanisms sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.jwt.template.file
sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
sasl.oauthbearer.assertion.private.key.pem sasl.oauthbearer.client.credentials.client.id
sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.client.id sasl.oauthbearer.client.secret
sasl.oauthbearer.config sasl.oauthbearer.extensions sasl.oauthbearer.grant.type
sasl.oauthbearer.metadata.authentication.type sasl.oauthbearer.method sasl.oauthbearer.scope
sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url sasl.password sasl.username security.protocol
session.timeout.ms share.acknowledgement.mode socket.blocking.max.ms socket.connection.setup.timeout.ms
socket.keepalive.enable socket.max.fails socket.nagle.disable socket.receive.buffer.bytes socket.send.buffer.bytes
socket.timeout.ms socket_cb ssl.ca.certificate.stores ssl.ca.location ssl.ca.pem ssl.certificate.location
ssl.certificate.pem ssl.certificate.verify_cb ssl.cipher.suites ssl.crl.location ssl.curves.list
ssl.endpoint.identification.algorithm ssl.engine.id ssl.engine.location ssl.key.location ssl.key.password ssl.key.pem
ssl.keystore.location ssl.keystore.password ssl.providers ssl.sigalgs.list ssl_ca ssl_certificate
ssl_engine_callback_data ssl_key statistics.interval.ms stats_cb sticky.partitioning.linger.ms throttle_cb
topic.blacklist topic.metadata.propagation.max.ms topic.metadata.refresh.fast.cnt
topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.interval.ms topic.metadata.refresh.sparse
transaction.timeout.ms transactional.id value.deserializer value.serializer
"""
_SARAMA = """
admin.retry.backoff admin.retry.max admin.timeout apiversionsrequest channelbuffersize clientid consumer.fetch.default
consumer.fetch.max consumer.fetch.maxbytes consumer.fetch.min consumer.group.heartbeat.interval consumer.group.id
consumer.group.instanceid consumer.group.member.userdata consumer.group.rebalance.groupstrategies
consumer.group.rebalance.retry.backoff consumer.group.rebalance.retry.max consumer.group.rebalance.strategy
consumer.group.rebalance.timeout consumer.group.resetinvalidoffsets consumer.group.session.timeout
consumer.interceptors consumer.isolationlevel consumer.maxprocessingtime consumer.maxwaittime
consumer.offsets.autocommit.enable consumer.offsets.autocommit.interval consumer.offsets.commitinterval
consumer.offsets.initial consumer.offsets.retention consumer.offsets.retry.max consumer.retry.backoff
consumer.retry.backofffunc consumer.retry.max consumer.return.errors metadata.allowautotopiccreation metadata.full
metadata.refreshfrequency metadata.retry.backoff metadata.retry.backofffunc metadata.retry.max metadata.singleflight
metadata.timeout metricregistry net.dialtimeout net.keepalive net.localaddr net.maxopenrequests net.proxy.dialer
net.proxy.enable net.readtimeout net.resolvecanonicalbootstrapservers net.sasl.authidentity net.sasl.enable
net.sasl.gssapi net.sasl.handshake net.sasl.mechanism net.sasl.password net.sasl.scramauthzid
net.sasl.scramclientgeneratorfunc net.sasl.tokenprovider net.sasl.user net.sasl.version net.tls.config net.tls.enable
net.writetimeout producer.compression producer.compressionlevel producer.flush.bytes producer.flush.frequency
producer.flush.maxmessages producer.flush.messages producer.idempotent producer.interceptors producer.maxmessagebytes
producer.partitioner producer.requiredacks producer.retry.backoff producer.retry.backofffunc producer.retry.max
producer.retry.maxbufferbytes producer.retry.maxbufferlength producer.return.errors producer.return.successes
producer.timeout producer.transaction.id producer.transaction.retry.backoff producer.transaction.retry.backofffunc
producer.transaction.retry.max producer.transaction.timeout rackid version
"""
_KAFKA_PYTHON = """
acks allow_auto_create_topics api_version api_version_auto_timeout_ms auto_commit_interval_ms auto_offset_reset
batch_size bootstrap_servers bootstrap_timeout_ms buffer_memory check_crcs client_dns_lookup client_id client_rack
compression_type connections_max_idle_ms consumer_timeout_ms default_offset_commit_callback delivery_timeout_ms
enable_auto_commit enable_idempotence enable_incremental_fetch_sessions exclude_internal_topics fetch_max_bytes
fetch_max_wait_ms fetch_min_bytes group_id group_instance_id heartbeat_interval_ms isolation_level kafka_client
key_deserializer key_serializer linger_ms max_block_ms max_in_flight_requests_per_connection max_partition_fetch_bytes
max_poll_interval_ms max_poll_records max_request_size metadata_max_age_ms metric_group_prefix metric_reporters
metrics_enabled metrics_num_samples metrics_sample_window_ms partition_assignment_strategy partitioner proxy_url
receive_buffer_bytes receive_message_max_bytes reconnect_backoff_max_ms reconnect_backoff_ms request_timeout_ms
retries retry_backoff_ms sasl_kerberos_domain_name sasl_kerberos_name sasl_kerberos_service_name sasl_mechanism
sasl_oauth_token_provider sasl_plain_password sasl_plain_username security_protocol selector send_buffer_bytes
session_timeout_ms socket_options socks5_proxy ssl_cafile ssl_certfile ssl_check_hostname ssl_ciphers ssl_context
ssl_crlfile ssl_keyfile ssl_password transaction_timeout_ms transactional_id value_deserializer value_serializer
"""
_AIOKAFKA = """
acks api_version auto_commit_interval_ms auto_offset_reset bootstrap_servers check_crcs client_id client_rack
compression_type connections_max_idle_ms consumer_timeout_ms enable_auto_commit enable_idempotence
exclude_internal_topics fetch_max_bytes fetch_max_wait_ms fetch_min_bytes group_id group_instance_id
heartbeat_interval_ms isolation_level key_deserializer key_serializer linger_ms loop max_batch_size
max_partition_fetch_bytes max_poll_interval_ms max_poll_records max_request_size metadata_max_age_ms
partition_assignment_strategy partitioner rebalance_timeout_ms request_timeout_ms retry_backoff_ms
sasl_kerberos_domain_name sasl_kerberos_service_name sasl_mechanism sasl_oauth_token_provider sasl_plain_password
sasl_plain_username security_protocol session_timeout_ms ssl_context transaction_timeout_ms transactional_id
value_deserializer value_serializer
"""

NAMES = {
    "java": frozenset(_JAVA.split()),
    "librdkafka": frozenset(_LIBRDKAFKA.split()),
    "sarama": frozenset(_SARAMA.split()),
    "kafka-python": frozenset(_KAFKA_PYTHON.split()),
    "aiokafka": frozenset(_AIOKAFKA.split()),
}


def is_known(name: str, library: Library) -> bool:
    """Whether the library has a setting of this name; sarama's are fields, whose case is read as it comes."""
    return (name.lower() if library.name == "sarama" else name) in NAMES[library.name]


def knows_any(name: str) -> bool:
    """Whether any library has a setting of this name."""
    return name.lower() in NAMES["sarama"] or any(name in names for names in NAMES.values())


def refuses_unknown_names(library: Library) -> bool:
    """Whether a client with an unknown name does not start; Java drops the name, and Go does not compile."""
    return library.name != "java"


def nearest(name: str, library: Library) -> str:
    """The library's name that was most likely meant; empty when none is near."""
    wanted, names = name.lower(), sorted(NAMES[library.name])
    # aiokafka and kafka-python write _ where the others write a dot: that alone is no distance.
    alike = {each.replace("_", "."): each for each in names}
    plain = wanted.replace("_", ".")
    if plain in alike:
        return alike[plain]
    parts = [each for each in alike if each.endswith(f".{plain}") or each.startswith(f"{plain}.")]
    close = parts if len(parts) == 1 else get_close_matches(plain, alike, n=1, cutoff=NEAR_MIN)
    return alike[close[0]] if close else ""


def printable_name(name: str) -> str:
    """The name if it looks like one: a line of a key file that slipped into the settings is not shown."""
    looks = _NAME.fullmatch(name) if re.search(r"[._-]", name) else _WORD.fullmatch(name)
    return name if looks else f"a name of {len(name)} characters"
