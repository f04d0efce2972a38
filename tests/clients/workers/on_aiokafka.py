"""A worker on aiokafka: its coroutines run on one loop, which turns while the worker polls."""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import for_code
from aiokafka.helpers import create_ssl_context
from lines import POLL_MS, PythonWorker, log, numbered, underscored, until


class Listener(ConsumerRebalanceListener):
    def __init__(self, worker):
        self.worker = worker

    def on_partitions_assigned(self, assigned):
        self.worker.assigned(assigned)

    async def on_partitions_revoked(self, revoked):
        self.worker.revoked(revoked)
        await asyncio.sleep(self.worker.revocation_s)


class AIOKafka(PythonWorker):
    place = TopicPartition
    revocation_s = 0.0

    def __init__(self, bootstrap):
        super().__init__(bootstrap)
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)

    def run(self, coroutine):
        return self.loop.run_until_complete(coroutine)

    def admin(self):
        if self.connected is None:
            self.connected = self.run(self._admin())
        return self.connected

    async def _admin(self):
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await admin.start()
        return admin

    # ------------------------------------------------------------ consuming

    def start(self, topics, settings):
        self.run(self._start(topics, underscored(settings)))

    async def _start(self, topics, settings):
        self.consumer = self._consumer(**settings)
        self.do_subscribe(topics)
        await self.consumer.start()

    def do_subscribe(self, topics):
        self.consumer.subscribe(topics, listener=Listener(self))

    def do_stall(self, seconds):
        """The loop turns, so heartbeats are sent, and nobody asks for records."""
        self.run(asyncio.sleep(seconds))

    def do_dawdle(self, seconds):
        """Let every revocation of partitions take so long, while heartbeats are sent."""
        self.revocation_s = seconds

    def do_read(self, partitions, offset=None):
        """Read partitions without a group, from their beginning or from one offset."""
        self.run(self._read([TopicPartition(*one) for one in partitions], offset))
        self.polls = True

    async def _read(self, partitions, offset):
        self.consumer = self._consumer(group_id=None, enable_auto_commit=False)
        await self.consumer.start()
        self.consumer.assign(partitions)
        for one in partitions:
            if offset is not None:
                self.consumer.seek(one, offset)

    def _consumer(self, **settings):
        if authority := settings.pop("ssl_cafile", None):
            own = settings.pop("ssl_certfile", None)
            settings["ssl_context"] = create_ssl_context(
                cafile=authority, certfile=own, keyfile=own
            )
        return AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap, auto_offset_reset="earliest", **settings
        )

    def fetch(self):
        return self.run(self.consumer.getmany(timeout_ms=POLL_MS))

    def do_close(self):
        self.polls = False
        self.run(self.consumer.stop())

    # ------------------------------------------------------------ producing

    def do_produce(self, topic, records, compression=None, idempotent=False):
        """Records as [partition, value, timestamp]; answers their offsets."""
        return self.run(self._produce(topic, records, compression, idempotent))

    async def _produce(self, topic, records, compression, idempotent):
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            compression_type=compression,
            enable_idempotence=idempotent,
            acks="all",
            linger_ms=5,
        )
        await producer.start()
        sent = [
            await producer.send(
                topic, value.encode(), partition=partition, timestamp_ms=timestamp_ms
            )
            for partition, value, timestamp_ms in records
        ]
        offsets = [(await asyncio.wait_for(one, 20)).offset for one in sent]
        await producer.stop()
        return offsets

    def do_load(self, topic, count, size, seconds):
        """Send numbered records without waiting, to partitions that the producer chooses.

        Everything is as by default. Answers how many are delivered when the time is up.
        """
        return self.run(self._load(topic, numbered(count, size), seconds))

    async def _load(self, topic, values, seconds):
        producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap)
        await producer.start()
        told = []

        async def send():
            for value in values:
                (await producer.send(topic, value)).add_done_callback(told.append)
            await producer.flush()

        try:
            await asyncio.wait_for(send(), seconds)
            await producer.stop()
        except TimeoutError:
            log.exception("not all is delivered: the test judges it")
        return sum(not one.cancelled() and one.exception() is None for one in told)

    # ------------------------------------------------------------ administration

    def do_create_topic(self, topic, partitions):
        answer = self.run(self.admin().create_topics([NewTopic(topic, partitions, 1)]))
        for _, code, text in answer.topic_errors:
            if code:
                raise for_code(code)(text)
        until(lambda: self._partitions(topic) == partitions)

    def _partitions(self, topic):
        described = self.run(self.admin().describe_topics([topic]))[0]
        return 0 if described["error_code"] else len(described["partitions"])

    def do_delete_topic(self, topic):
        self.run(self.admin().delete_topics([topic]))
        until(lambda: topic not in self.do_topics())

    def do_topics(self):
        return sorted(self.run(self.admin().list_topics()))

    def do_groups(self):
        return sorted(name for name, _ in self.run(self.admin().list_consumer_groups()))

    def do_describe_group(self, group):
        answer = self.run(self.admin().describe_consumer_groups([group]))[0]
        _, _, state, protocol_type, _, members, *_ = answer.groups[0]
        return {
            "state": state,
            "protocol_type": protocol_type,
            "members": sorted(member[0] for member in members),
        }

    def do_group_offsets(self, group):
        offsets = self.run(self.admin().list_consumer_group_offsets(group))
        return sorted([one.topic, one.partition, at.offset] for one, at in offsets.items())


if __name__ == "__main__":
    AIOKafka(sys.argv[1]).serve()
