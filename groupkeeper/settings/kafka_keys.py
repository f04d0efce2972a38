"""The broker settings that Apache Kafka has and Groupkeeper does not use.

A `server.properties` of a Kafka broker is accepted: keys found here are named in one log line and
otherwise ignored. Imported only when a given key is not in `table`.

Source: the broker configuration of Apache Kafka 4.1 (class AbstractKafkaConfig), and keys of
earlier releases that people still have in their files.
"""

PREFIXES = tuple(
    """
    alter. broker. controlled.shutdown. controller. delegation.token. group.consumer.
    group.coordinator. group.share. group.streams. initial.broker. internal.metadata.
    kafka.metrics. leader.imbalance. listener.name. log.flush. log.local. metadata.
    password.encoder. quota. remote. replica. replication.quota. rlmm.config. rsm.config.
    sasl.client. sasl.jaas. sasl.kerberos. sasl.login. sasl.mechanism. sasl.oauthbearer.assertion.
    sasl.oauthbearer.client. sasl.oauthbearer.header. sasl.oauthbearer.jwt.
    sasl.oauthbearer.token. sasl.server.callback. share. socket.connection. transaction.
    unclean.leader. unstable. zookeeper.
    """.split()
)
"""Parts of a broker that have no counterpart here, and keys whose last part the user chooses:
per-listener overrides and settings of plug-ins."""

KEYS = frozenset(
    """
    add.partitions.to.txn.retry.backoff.max.ms add.partitions.to.txn.retry.backoff.ms
    advertised.host.name advertised.port
    auto.include.jmx.reporter auto.leader.rebalance.enable background.threads
    client.quota.callback.class compression.gzip.level compression.lz4.level compression.type
    compression.zstd.level
    control.plane.listener.name create.topic.policy.class.name default.replication.factor
    delete.records.purgatory.purge.interval.requests delete.topic.enable early.start.listeners
    eligible.leader.replicas.enable fetch.purgatory.purge.interval.requests host.name
    inter.broker.listener.name inter.broker.protocol.version
    log.cleaner.io.buffer.load.factor log.cleaner.io.buffer.size
    log.cleaner.io.max.bytes.per.second log.cleaner.threads log.dir log.dir.failure.timeout.ms
    log.dirs log.initial.task.delay.ms log.message.downconversion.enable
    log.message.format.version log.message.timestamp.difference.max.ms log.preallocate
    log.roll.jitter.hours log.roll.jitter.ms log.segment.delete.delay.ms
    max.connection.creation.rate max.connections.per.ip.overrides
    max.incremental.fetch.session.cache.slots max.request.partition.size.limit metric.reporters
    metrics.num.samples metrics.recording.level metrics.sample.window.ms min.insync.replicas
    num.io.threads num.network.threads num.recovery.threads.per.data.dir
    num.replica.alter.log.dirs.threads num.replica.fetchers offsets.commit.required.acks
    offsets.commit.timeout.ms offsets.load.buffer.size offsets.topic.compression.codec
    offsets.topic.replication.factor port principal.builder.class process.roles
    producer.id.expiration.check.interval.ms producer.purgatory.purge.interval.requests
    queued.max.requests request.timeout.ms reserved.broker.max.id security.inter.broker.protocol
    security.providers server.max.startup.time.ms socket.listen.backlog.size
    socket.receive.buffer.bytes socket.send.buffer.bytes ssl.allow.dn.changes
    ssl.allow.san.changes ssl.endpoint.identification.algorithm ssl.engine.factory.class
    ssl.keymanager.algorithm ssl.provider ssl.secure.random.implementation
    ssl.trustmanager.algorithm telemetry.max.bytes
    transactional.id.expiration.ms
    """.split()
)
"""Further keys."""


def is_known_to_kafka(key: str) -> bool:
    """Return whether a Kafka broker has a setting `key`, or settings with this prefix."""
    return key in KEYS or key.startswith(PREFIXES)
