"""Broker configs that Kafka's brokers change while they run, and that have no effect in oncelog.

There are three kinds. They differ in what a person relies on who sets them:

- `idle`: they tune a part that oncelog does not have (a thread pool, Kerberos' logins, remote storage). No record,
  answer or limit depends on them. The value is stored and shown, and its documentation says that it has no effect.
- `refused`: a limit, a quota or security. Who sets it believes that it holds, so only the value that holds is accepted.
- `STATIC_NAMES`: Kafka's brokers read them when they start, and refuse to change them too.

Names, types and bounds are those of Kafka 4.4.
"""

from typing import Final

from oncelog.config_key import NEVER_MS, ConfigKey, ConfigType

_NO_TLS: Final = "TLS is set where the listener starts, from PEM files: ONCELOG_LISTENER_SSL_*"
_NO_SASL: Final = "logins are set where the listener starts: ONCELOG_LISTENER_SASL_*"
_NO_QUOTA: Final = "oncelog does not throttle replication"
_NO_LIMIT: Final = "a listener bounds max.connections and max.connections.per.ip only"

_LARGEST_DOUBLE: Final = "1.7976931348623157e+308"


def _idle(
    name: str,
    kind: ConfigType,
    default: str,
    part: str,
    *,
    minimum: int | None = None,
    maximum: int | None = None,
) -> ConfigKey:
    doc = f"kept and told, without effect: {part}"
    return ConfigKey(name, kind, default, doc, minimum, maximum, may_be_empty=True)


def _refused(name: str, reason: str, kind: ConfigType = "string", default: str = "") -> ConfigKey:
    doc = f"no other value can be set: {reason}"
    return ConfigKey(name, kind, default, doc, may_be_empty=True, unsupported=reason)


def _secret(name: str) -> ConfigKey:
    doc = f"cannot be set: {_NO_TLS}"
    return ConfigKey(name, "string", "", doc, unsupported=_NO_TLS, is_secret=True)


_KERBEROS: Final = "oncelog does not log in to Kerberos"
_TOKENS: Final = "oncelog has no logins whose tokens it would refresh"
_POOLS: Final = "oncelog has no such threads"
_CLEANER: Final = "oncelog's cleaner has no such buffers"
_REMOTE: Final = "oncelog has no remote storage"
_GROUPS: Final = "oncelog assigns at once, in the coordinator's own task"
_OTHER_GROUPS: Final = "oncelog has no share groups and no streams groups"

IDLE_FOR_ONE: Final = (
    _idle("sasl.kerberos.kinit.cmd", "string", "/usr/bin/kinit", _KERBEROS),
    _idle("sasl.kerberos.min.time.before.relogin", "long", "60000", _KERBEROS),
    _idle("sasl.kerberos.ticket.renew.jitter", "double", "0.05", _KERBEROS),
    _idle("sasl.kerberos.ticket.renew.window.factor", "double", "0.8", _KERBEROS),
    _idle("sasl.login.refresh.buffer.seconds", "int", "300", _TOKENS, minimum=0, maximum=3600),
    _idle("sasl.login.refresh.min.period.seconds", "int", "60", _TOKENS, minimum=0, maximum=900),
    _idle("sasl.login.refresh.window.factor", "double", "0.8", _TOKENS),
    _idle("sasl.login.refresh.window.jitter", "double", "0.05", _TOKENS),
)
"""Idle configs that are set for one broker each, as in Kafka."""

IDLE: Final = (
    _idle("background.threads", "int", "10", _POOLS, minimum=1),
    _idle("num.io.threads", "int", "8", _POOLS, minimum=1),
    _idle("num.network.threads", "int", "3", _POOLS, minimum=1),
    _idle("num.recovery.threads.per.data.dir", "int", "2", _POOLS, minimum=1),
    _idle("num.replica.fetchers", "int", "1", _POOLS, minimum=1),
    _idle("log.cleaner.threads", "int", "1", _POOLS, minimum=0),
    _idle("log.cleaner.io.buffer.size", "int", "524288", _CLEANER, minimum=0),
    _idle("log.cleaner.io.buffer.load.factor", "double", "0.9", _CLEANER),
    _idle("group.coordinator.cached.buffer.max.bytes", "int", "1048588", _GROUPS, minimum=524288),
    _idle("group.consumer.assignment.interval.ms", "int", "1000", _GROUPS, minimum=0),
    _idle("group.consumer.assignor.offload.enable", "boolean", "true", _GROUPS),
    _idle("group.share.assignment.interval.ms", "int", "1000", _OTHER_GROUPS, minimum=0),
    _idle("group.share.assignor.offload.enable", "boolean", "true", _OTHER_GROUPS),
    _idle("group.streams.assignment.interval.ms", "int", "1000", _OTHER_GROUPS, minimum=0),
    _idle("group.streams.assignor.offload.enable", "boolean", "true", _OTHER_GROUPS),
    _idle(
        "share.coordinator.cached.buffer.max.bytes",
        "int",
        "1048588",
        _OTHER_GROUPS,
        minimum=524288,
    ),
    _idle("errors.deadletterqueue.auto.create.topics.enable", "boolean", "false", _OTHER_GROUPS),
    _idle("errors.deadletterqueue.topic.name.prefix", "string", "dlq.", _OTHER_GROUPS),
    _idle("follower.fetch.last.tiered.offset.enable", "boolean", "false", _REMOTE),
    _idle("remote.fetch.max.wait.ms", "int", "500", _REMOTE, minimum=1),
    _idle("remote.list.offsets.request.timeout.ms", "long", "30000", _REMOTE, minimum=1),
    _idle("remote.log.index.file.cache.total.size.bytes", "long", "1073741824", _REMOTE, minimum=1),
    _idle("remote.log.manager.copier.thread.pool.size", "int", "10", _REMOTE, minimum=1),
    _idle(
        "remote.log.manager.copy.max.bytes.per.second", "long", str(NEVER_MS), _REMOTE, minimum=1
    ),
    _idle("remote.log.manager.expiration.thread.pool.size", "int", "10", _REMOTE, minimum=1),
    _idle(
        "remote.log.manager.fetch.max.bytes.per.second", "long", str(NEVER_MS), _REMOTE, minimum=1
    ),
    _idle("remote.log.manager.follower.thread.pool.size", "int", "2", _REMOTE, minimum=1),
    _idle("remote.log.reader.threads", "int", "10", _REMOTE, minimum=1),
)
"""Idle configs that are set for one broker or for all."""

REFUSED: Final = (
    _refused("max.connections.per.ip.overrides", _NO_LIMIT),
    _refused("max.connection.creation.rate", _NO_LIMIT, "int", "2147483647"),
    _refused("leader.replication.throttled.rate", _NO_QUOTA, "long", str(NEVER_MS)),
    _refused("follower.replication.throttled.rate", _NO_QUOTA, "long", str(NEVER_MS)),
    _refused("replica.alter.log.dirs.io.max.bytes.per.second", _NO_QUOTA, "long", str(NEVER_MS)),
    ConfigKey(
        "log.cleaner.io.max.bytes.per.second",
        "double",
        _LARGEST_DOUBLE,
        "ONCELOG_STORAGE_CLEANER_IO_BYTES_PER_S of each storage node is what throttles its cleaner",
        maximum=int(float(_LARGEST_DOUBLE)),
        unsupported="a storage node's cleaner is throttled by ONCELOG_STORAGE_CLEANER_IO_BYTES_PER_S",
    ),
    _refused("cordoned.log.dirs", "a storage node has one folder; drain the node", "list"),
    _refused("metric.reporters", "each process tells its metrics at /metrics", "list"),
    _refused("config.providers", "oncelog runs no code of others", "list"),
    _refused("principal.builder.class", _NO_SASL),
    _refused("sasl.kerberos.principal.to.local.rules", _NO_SASL, "list"),
    _refused("sasl.kerberos.service.name", _NO_SASL),
    _refused("sasl.mechanism.inter.broker.protocol", _NO_SASL),
    _refused("ssl.cipher.suites", _NO_TLS, "list"),
    _refused("ssl.enabled.protocols", _NO_TLS, "list"),
    _refused("ssl.endpoint.identification.algorithm", _NO_TLS),
    _refused("ssl.engine.factory.class", _NO_TLS),
    _refused("ssl.keymanager.algorithm", _NO_TLS),
    _refused("ssl.keystore.location", _NO_TLS),
    _refused("ssl.keystore.type", _NO_TLS),
    _refused("ssl.protocol", _NO_TLS),
    _refused("ssl.provider", _NO_TLS),
    _refused("ssl.secure.random.implementation", _NO_TLS),
    _refused("ssl.trustmanager.algorithm", _NO_TLS),
    _refused("ssl.truststore.location", _NO_TLS),
    _refused("ssl.truststore.type", _NO_TLS),
    _secret("sasl.jaas.config"),
    _secret("ssl.key.password"),
    _secret("ssl.keystore.certificate.chain"),
    _secret("ssl.keystore.key"),
    _secret("ssl.keystore.password"),
    _secret("ssl.truststore.certificates"),
    _secret("ssl.truststore.password"),
)
"""Configs that take no value but the default."""

_STATIC: Final = """
alter.config.policy.class.name alter.log.dirs.replication.quota.window.num
alter.log.dirs.replication.quota.window.size.seconds broker.heartbeat.interval.ms
broker.session.timeout.ms client.quota.callback.class connection.failed.authentication.delay.ms
controlled.shutdown.enable controller.listener.names controller.quorum.append.linger.ms
controller.quorum.auto.join.enable controller.quorum.bootstrap.servers
controller.quorum.election.backoff.max.ms controller.quorum.election.timeout.ms
controller.quorum.fetch.max.bytes controller.quorum.fetch.snapshot.max.bytes
controller.quorum.fetch.timeout.ms controller.quorum.request.timeout.ms
controller.quorum.retry.backoff.ms controller.quorum.voters controller.quota.window.num
controller.quota.window.size.seconds controller.socket.timeout.ms create.topic.policy.class.name
delegation.token.expiry.check.interval.ms delegation.token.expiry.time.ms
delegation.token.max.lifetime.ms delegation.token.secret.key
delete.records.purgatory.purge.interval.requests early.start.listeners
fetch.purgatory.purge.interval.requests group.consumer.max.assignment.interval.ms
group.consumer.max.heartbeat.interval.ms group.consumer.max.session.timeout.ms
group.consumer.min.assignment.interval.ms group.consumer.min.heartbeat.interval.ms
group.consumer.min.session.timeout.ms group.coordinator.append.linger.ms
group.coordinator.background.threads group.coordinator.threads group.share.assignors
group.share.delivery.count.limit group.share.heartbeat.interval.ms
group.share.max.assignment.interval.ms group.share.max.delivery.count.limit
group.share.max.heartbeat.interval.ms group.share.max.partition.max.record.locks
group.share.max.record.lock.duration.ms group.share.max.session.timeout.ms
group.share.max.share.sessions group.share.max.size group.share.min.assignment.interval.ms
group.share.min.delivery.count.limit group.share.min.heartbeat.interval.ms
group.share.min.partition.max.record.locks group.share.min.record.lock.duration.ms
group.share.min.session.timeout.ms group.share.partition.max.record.locks
group.share.record.lock.duration.ms group.share.session.timeout.ms
group.streams.acceptable.recovery.lag group.streams.heartbeat.interval.ms
group.streams.initial.rebalance.delay.ms group.streams.max.assignment.interval.ms
group.streams.max.heartbeat.interval.ms group.streams.max.session.timeout.ms
group.streams.max.size group.streams.max.standby.replicas group.streams.max.warmup.replicas
group.streams.min.assignment.interval.ms group.streams.min.heartbeat.interval.ms
group.streams.min.session.timeout.ms group.streams.min.task.offset.interval.ms
group.streams.num.standby.replicas group.streams.num.warmup.replicas
group.streams.rack.aware.assignment.tags group.streams.session.timeout.ms
group.streams.task.offset.interval.ms group.streams.topology.description.plugin.class
initial.broker.registration.timeout.ms inter.broker.listener.name
kafka.metrics.polling.interval.secs kafka.metrics.reporters
leader.imbalance.check.interval.seconds log.dir log.dir.failure.timeout.ms
log.flush.offset.checkpoint.interval.ms log.flush.scheduler.interval.ms
log.flush.start.offset.checkpoint.interval.ms log.retention.hours log.retention.minutes
log.roll.hours log.roll.jitter.hours max.incremental.fetch.session.cache.slots
max.request.partition.size.limit metadata.log.dir
metadata.log.max.record.bytes.between.snapshots metadata.log.max.snapshot.interval.ms
metadata.log.segment.bytes metadata.log.segment.ms metadata.max.idle.interval.ms
metadata.max.retention.bytes metadata.max.retention.ms metrics.num.samples
metrics.recording.level metrics.sample.window.ms num.replica.alter.log.dirs.threads
offsets.commit.timeout.ms producer.purgatory.purge.interval.requests queued.max.requests
quota.window.num quota.window.size.seconds remote.log.manager.copy.quota.window.num
remote.log.manager.copy.quota.window.size.seconds remote.log.manager.fetch.quota.window.num
remote.log.manager.fetch.quota.window.size.seconds remote.log.manager.task.interval.ms
remote.log.manager.thread.pool.size remote.log.metadata.custom.metadata.max.bytes
remote.log.metadata.manager.class.name remote.log.metadata.manager.class.path
remote.log.metadata.manager.impl.prefix remote.log.metadata.manager.listener.name
remote.log.reader.max.pending.tasks remote.log.storage.manager.class.name
remote.log.storage.manager.class.path remote.log.storage.manager.impl.prefix
remote.log.storage.system.enable replica.fetch.backoff.ms replica.fetch.max.bytes
replica.fetch.min.bytes replica.selector.class replica.socket.receive.buffer.bytes
replica.socket.timeout.ms replication.quota.window.num replication.quota.window.size.seconds
sasl.client.callback.handler.class sasl.login.callback.handler.class sasl.login.class
sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.retry.backoff.max.ms
sasl.login.retry.backoff.ms sasl.mechanism.controller.protocol
sasl.oauthbearer.allow.unverified.audience sasl.oauthbearer.allow.unverified.issuer
sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
sasl.oauthbearer.assertion.template.file sasl.oauthbearer.client.credentials.client.id
sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.clock.skew.seconds
sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope
sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
sasl.oauthbearer.token.endpoint.url sasl.server.callback.handler.class
security.inter.broker.protocol security.providers share.coordinator.append.linger.ms
share.coordinator.load.buffer.size share.coordinator.snapshot.update.records.per.snapshot
share.coordinator.state.topic.compression.codec share.coordinator.state.topic.min.isr
share.coordinator.state.topic.num.partitions share.coordinator.state.topic.replication.factor
share.coordinator.state.topic.segment.bytes share.coordinator.threads
share.coordinator.write.timeout.ms share.fetch.purgatory.purge.interval.requests
socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
socket.listen.backlog.size socket.receive.buffer.bytes socket.send.buffer.bytes
ssl.allow.dn.changes ssl.allow.san.changes telemetry.max.bytes
"""

STATIC_NAMES: Final = frozenset(_STATIC.split())
"""The configs that Kafka's brokers read when they start, and that oncelog has no setting for."""
