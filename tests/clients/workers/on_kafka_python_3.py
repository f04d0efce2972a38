"""A worker on kafka-python 3: what its administration client does beyond that of version 2."""

import sys

from kafka import OffsetAndMetadata, TopicPartition, errors
from kafka.admin import ConfigResource, MemberToRemove
from lines import until
from on_kafka_python import KafkaPython


class KafkaPython3(KafkaPython):
    def _subscribe(self, topics):
        """Know the partitions before the first poll joins the group.

        Otherwise the leader joins first, hears of the partitions, and joins again on their account.
        If a poll's time is up between that assignment and the answer to its SyncGroup, 3.0.12 takes
        the join for settled: it never looks at the answer, and its heartbeats stay switched off
        until its session ends. One start in fifteen, with Apache Kafka as with us.
        """
        super()._subscribe(topics)
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

    def do_groups_in_state(self, state):
        groups = self.admin().list_groups(states_filter=[state])
        return sorted(group["group_id"] for group in groups)

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

    def do_configs(self, kind, name, keys=None):
        wanted = [ConfigResource(kind, name, keys)]
        found = self.admin().describe_configs(wanted, config_filter="all")[kind.lower()][name]
        return {key: config["value"] for key, config in found.items()}

    def do_replace_configs(self, kind, name, configs):
        self._alter(kind, name, configs, incremental=False)

    def do_change_configs(self, kind, name, changes):
        """Changes by name: [operation, value]."""
        wanted = {key: tuple(change) for key, change in changes.items()}
        self._alter(kind, name, wanted, incremental=True)

    def _alter(self, kind, name, configs, incremental):
        resource = ConfigResource(kind, name, configs)
        answer = self.admin().alter_configs(
            # Without its own check of names: the server's is asked for.
            [resource],
            raise_on_unknown=False,
            incremental=incremental,
        )[kind.lower()][name]
        if answer != "OK":
            raise RuntimeError(answer)

    def do_cluster(self):
        found = self.admin().describe_cluster()
        brokers = [broker["broker_id"] for broker in found["brokers"]]
        return {"cluster": found["cluster_id"], "brokers": brokers}


def _raise_first(answer):
    """Raise the first error in an answer of one error class per member or partition."""
    for error in answer.values():
        if error is not errors.NoError:
            raise error


if __name__ == "__main__":
    KafkaPython3(sys.argv[1]).serve()
