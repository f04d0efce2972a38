"""A worker on kafka-python 3: what its administration client does beyond that of version 2."""

import sys

from kafka import OffsetAndMetadata, TopicPartition, errors
from kafka.admin import MemberToRemove
from lines import until
from on_kafka_python import KafkaPython


class KafkaPython3(KafkaPython):
    def do_subscribe(self, topics):
        """Know the partitions before the first poll joins the group.

        Otherwise the leader joins first, hears of the partitions, and joins again on their account.
        If a poll's time is up between that assignment and the answer to its SyncGroup, 3.0.12 takes
        the join for settled: it never looks at the answer, and its heartbeats stay switched off
        until its session ends. One start in fifteen, with Apache Kafka as with us.
        """
        super().do_subscribe(topics)
        for topic in topics:
            self.consumer.partitions_for_topic(topic)

    def do_member(self):
        known = self.consumer.group_metadata()
        return {"member_id": known.member_id, "generation": known.generation_id}

    def do_create_topic(self, topic, partitions):
        self.admin().create_topics({topic: {"num_partitions": partitions, "replication_factor": 1}})
        until(lambda: self._partitions(topic) == partitions)

    def do_groups(self):
        return sorted(group["group_id"] for group in self.admin().list_groups())

    def do_describe_group(self, group):
        described = self.admin().describe_groups([group])[group]
        return {
            "state": described["group_state"],
            "protocol_type": described["protocol_type"],
            "members": sorted(member["member_id"] for member in described["members"]),
            "instances": {
                member["group_instance_id"]: member["member_id"]
                for member in described["members"]
                if member["group_instance_id"] is not None
            },
        }

    def do_delete_group(self, group):
        answer = self.admin().delete_groups([group])[group]
        if answer != "OK":
            raise getattr(errors, answer)

    def do_group_offsets(self, group):
        offsets = self.admin().list_group_offsets(group)[group]
        return sorted([one.topic, one.partition, at.offset] for one, at in offsets.items())

    def do_alter_offsets(self, group, offsets):
        wanted = {TopicPartition(t, p): OffsetAndMetadata(at, "", -1) for t, p, at in offsets}
        _raise_first(self.admin().alter_group_offsets(group, wanted))

    def do_delete_offsets(self, group, partitions):
        wanted = [TopicPartition(*one) for one in partitions]
        _raise_first(self.admin().delete_group_offsets(group, wanted))

    def do_remove_instances(self, group, instance_ids):
        members = [MemberToRemove(group_instance_id=one, reason="a test") for one in instance_ids]
        _raise_first(self.admin().remove_group_members(group, members))

    def do_remove_members(self, group, member_ids):
        members = [MemberToRemove(member_id=one) for one in member_ids]
        _raise_first(self.admin().remove_group_members(group, members))


def _raise_first(answer):
    """Raise the first error in an answer of one error class per member or partition."""
    for error in answer.values():
        if error is not errors.NoError:
            raise error


if __name__ == "__main__":
    KafkaPython3(sys.argv[1]).serve()
