"""A worker on kafka-python 2.x: consumer, producer and administration through its public API.

`on_kafka_python_3` stands on it and says only what version 3 does in another way.
"""

import sys
import time

from kafka import (
    ConsumerRebalanceListener,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    TopicPartition,
)
from kafka.admin import NewTopic
from kafka.errors import KafkaTimeoutError, NoError
from lines import POLL_MS, PythonWorker, log, numbered, underscored, until


class Listener(ConsumerRebalanceListener):
    def __init__(self, worker):
        self.worker = worker

    def on_partitions_assigned(self, assigned):
        self.worker.assigned(assigned)

    def on_partitions_revoked(self, revoked):
        self.worker.revoked(revoked)


class KafkaPython(PythonWorker):
    place = TopicPartition

    def admin(self):
        self.connected = self.connected or KafkaAdminClient(bootstrap_servers=self.bootstrap)
        return self.connected

    # ------------------------------------------------------------ consuming

    def start(self, topics, settings):
        self.consumer = self._consumer(**underscored(settings))
        self.do_subscribe(topics)

    def do_subscribe(self, topics):
        self.consumer.subscribe(topics, listener=Listener(self))

    def do_read(self, partitions, offset=None):
        """Read partitions without a group, from their beginning or from one offset."""
        self.consumer = self._consumer(group_id=None, enable_auto_commit=False)
        self.consumer.assign([TopicPartition(*one) for one in partitions])
        for one in self.consumer.assignment():
            if offset is not None:
                self.consumer.seek(one, offset)
        self.polls = True

    def _consumer(self, **settings):
        return KafkaConsumer(
            bootstrap_servers=self.bootstrap, auto_offset_reset="earliest", **settings
        )

    def fetch(self):
        return self.consumer.poll(timeout_ms=POLL_MS)

    def do_close(self):
        self.polls = False
        self.consumer.close()

    # ------------------------------------------------------------ producing

    def do_produce(self, topic, records, compression=None, idempotent=False):
        """Records as [partition, value, timestamp]; answers their offsets."""
        settings = {"enable_idempotence": True} if idempotent else {"acks": "all"}
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap, compression_type=compression, linger_ms=5, **settings
        )
        sent = [
            producer.send(topic, value.encode(), partition=partition, timestamp_ms=timestamp_ms)
            for partition, value, timestamp_ms in records
        ]
        producer.flush()
        offsets = [one.get(timeout=20).offset for one in sent]
        producer.close()
        return offsets

    def do_load(self, topic, count, size, seconds):
        """Send numbered records without waiting, to partitions that the producer chooses.

        Everything is as by default, but for how long it may take. Answers how many are delivered.
        """
        producer = KafkaProducer(bootstrap_servers=self.bootstrap, max_block_ms=int(seconds * 1000))
        delivered, deadline = [], time.monotonic() + seconds
        try:
            for value in numbered(count, size):
                producer.send(topic, value).add_callback(delivered.append)
            producer.flush(timeout=max(0.0, deadline - time.monotonic()))
        except KafkaTimeoutError:
            log.exception("not all is delivered: the test judges it")
        return len(delivered)

    # ------------------------------------------------------------ administration

    def do_create_topic(self, topic, partitions):
        self.admin().create_topics([NewTopic(topic, partitions, 1)])
        until(lambda: self._partitions(topic) == partitions)

    def _partitions(self, topic):
        described = self.admin().describe_topics([topic])[0]
        return 0 if described["error_code"] else len(described["partitions"])

    def do_delete_topic(self, topic):
        self.admin().delete_topics([topic])
        until(lambda: topic not in self.do_topics())

    def do_topics(self):
        return sorted(self.admin().list_topics())

    def do_groups(self):
        return sorted(name for name, _ in self.admin().list_consumer_groups())

    def do_describe_group(self, group):
        described = self.admin().describe_consumer_groups([group])[0]
        return {
            "state": described.state,
            "protocol_type": described.protocol_type,
            "members": sorted(member.member_id for member in described.members),
        }

    def do_delete_group(self, group):
        error = self.admin().delete_consumer_groups([group])[0][1]
        if error is not NoError:
            raise error

    def do_group_offsets(self, group):
        offsets = self.admin().list_consumer_group_offsets(group)
        return sorted([one.topic, one.partition, at.offset] for one, at in offsets.items())


if __name__ == "__main__":
    KafkaPython(sys.argv[1]).serve()
