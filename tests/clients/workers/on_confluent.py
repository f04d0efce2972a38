"""A worker on confluent-kafka, which is librdkafka in Python's clothes."""

import sys
import time

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic
from lines import POLL_MS, Worker, numbered, pairs, until

SECONDS = 20.0
TOKEN_SECONDS = 3_000.0


class Confluent(Worker):
    consumer = None
    connected = None  # the administration client, connected on first use
    owned = None  # the partitions of a member that keeps its own in rebalances

    def __init__(self, bootstrap):
        self.connection = {"bootstrap.servers": bootstrap}

    def name_of(self, error):
        if isinstance(error, KafkaException):
            return error.args[0].name().title().replace("_", "")
        return super().name_of(error)

    def admin(self):
        self.connected = self.connected or AdminClient(self.connection)
        return self.connected

    def do_connect(self, more):
        """Use these settings with every client from now on."""
        self.connection |= more

    # ------------------------------------------------------------ consuming

    def start(self, topics, settings):
        self.consumer = self._consumer(settings)
        strategy = str(settings.get("partition.assignment.strategy"))
        keeps = strategy.startswith("cooperative") or settings.get("group.protocol") == "consumer"
        self.owned = set() if keeps else None
        self.do_subscribe(topics)

    def do_subscribe(self, topics):
        self.consumer.subscribe(
            topics,
            on_assign=lambda _, partitions: self.assigned(partitions),
            on_revoke=lambda _, partitions: self.revoked(partitions),
            on_lost=lambda _, partitions: self.revoked(partitions),
        )

    def assigned(self, partitions):
        if self.owned is not None:  # the callback has only what is new
            self.owned |= {(one.topic, one.partition) for one in partitions}
            partitions = [TopicPartition(*one) for one in self.owned]
        super().assigned(partitions)

    def revoked(self, partitions):
        super().revoked(partitions)
        if self.owned is not None:
            self.owned -= {(one.topic, one.partition) for one in partitions}
            self.assigned([])

    def do_unsubscribe(self):
        self.consumer.unsubscribe()  # which is done in the polls after it

    def do_read(self, partitions, offset=OFFSET_BEGINNING):
        """Read partitions without joining a group, from their beginning or from one offset."""
        self.consumer = self._consumer({"group.id": "unused", "enable.auto.commit": False})
        self.consumer.assign([TopicPartition(*one, offset) for one in partitions])
        self.polls = True

    def _consumer(self, settings):
        if token := settings.pop("token", None):
            settings["oauth_cb"] = lambda _: (token, time.time() + TOKEN_SECONDS)
        return Consumer({**self.connection, "auto.offset.reset": "earliest", **settings})

    def poll(self):
        messages = self.consumer.consume(num_messages=500, timeout=POLL_MS / 1000)
        for one in messages:
            if one.error() is not None:
                raise KafkaException(one.error())
        return [
            [one.topic(), one.partition(), one.offset(), one.value().decode()] for one in messages
        ]

    def do_member(self):
        return {"member_id": self.consumer.memberid()}

    def do_assignment(self):
        return pairs(self.consumer.assignment())

    def do_commit(self):
        for one in self.consumer.commit(asynchronous=False):
            if one.error is not None:
                raise KafkaException(one.error)

    def do_committed(self, partitions):
        wanted = [TopicPartition(*one) for one in partitions]
        found = self.consumer.committed(wanted, timeout=SECONDS)
        return [None if one.offset < 0 else one.offset for one in found]

    def do_seek(self, partition, offset):
        self.consumer.seek(TopicPartition(*partition, offset))

    def do_position(self, partition):
        return self.consumer.position([TopicPartition(*partition)])[0].offset

    def do_ends(self, partition):
        return list(self.consumer.get_watermark_offsets(TopicPartition(*partition), SECONDS))

    def do_offset_at(self, partition, timestamp_ms):
        wanted = [TopicPartition(*partition, timestamp_ms)]
        found = self.consumer.offsets_for_times(wanted, timeout=SECONDS)[0].offset
        return None if found < 0 else found

    def do_close(self):
        self.polls = False
        self.consumer.close()

    # ------------------------------------------------------------ producing

    def do_produce(self, topic, records, compression=None, idempotent=False):
        """Records as [partition, value, timestamp]; answers their offsets."""
        producer = Producer(
            {
                **self.connection,
                "compression.type": compression or "none",
                "enable.idempotence": idempotent,
                "linger.ms": 5,
            }
        )
        offsets = [None] * len(records)

        def delivered(place, error, message):
            offsets[place] = error.name() if error else message.offset()

        for place, (partition, value, timestamp_ms) in enumerate(records):
            producer.produce(
                topic,
                value.encode(),
                partition=partition,
                on_delivery=lambda error, message, place=place: delivered(place, error, message),
                **({} if timestamp_ms is None else {"timestamp": timestamp_ms}),
            )
        producer.flush(SECONDS)
        return offsets

    def do_load(self, topic, count, size, seconds):
        """Send numbered records without waiting, to partitions that the producer chooses.

        Everything is as by default. Answers how many are delivered when the time is up.
        """
        producer = Producer(self.connection)
        errors = []
        for value in numbered(count, size):
            producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
        producer.flush(seconds)
        return errors.count(None)

    # ------------------------------------------------------------ administration

    def do_create_topic(self, topic, partitions):
        _first(self.admin().create_topics([NewTopic(topic, partitions, 1)]))
        until(lambda: self._partitions(topic) == partitions)

    def _partitions(self, topic):
        described = self.admin().list_topics(timeout=SECONDS).topics.get(topic)
        return 0 if described is None else len(described.partitions)

    def do_delete_topic(self, topic):
        _first(self.admin().delete_topics([topic]))
        until(lambda: topic not in self.do_topics())

    def do_topics(self):
        return sorted(self.admin().list_topics(timeout=SECONDS).topics)

    def do_groups(self):
        found = self.admin().list_consumer_groups().result(SECONDS)
        return sorted(group.group_id for group in found.valid)

    def do_describe_group(self, group):
        described = _first(self.admin().describe_consumer_groups([group]))
        return {
            # librdkafka writes STABLE and PREPARING_REBALANCING
            "state": described.state.name.title().replace("_", ""),
            "members": sorted(member.member_id for member in described.members),
            "instances": {
                member.group_instance_id: member.member_id
                for member in described.members
                if member.group_instance_id is not None
            },
        }

    def do_delete_group(self, group):
        _first(self.admin().delete_consumer_groups([group]))

    def do_group_offsets(self, group):
        wanted = ConsumerGroupTopicPartitions(group)
        found = _first(self.admin().list_consumer_group_offsets([wanted]))
        return sorted([one.topic, one.partition, one.offset] for one in found.topic_partitions)

    def do_alter_offsets(self, group, offsets):
        wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(*one) for one in offsets])
        answer = _first(self.admin().alter_consumer_group_offsets([wanted]))
        for one in answer.topic_partitions:
            if one.error is not None:
                raise KafkaException(one.error)


def _first(futures):
    (future,) = futures.values()
    return future.result(SECONDS)


if __name__ == "__main__":
    Confluent(sys.argv[1]).serve()
