"""The requests and responses, one module per API, named after its key: `registry.py` finds them so.

Classes and fields have Kafka's names, fields in snake case; versions and defaults are Kafka's.

Source: Kafka 4.1, the definitions in `clients/src/main/resources/common/message`.
"""

from collections.abc import Mapping
from typing import Final

_OPERATIONS: Final = "Bits of what the client is allowed; -2^31 if that was not asked for."
MEANINGS: Final[Mapping[str, str]] = {
    "broker_ids": "Brokers of the partition's replicas, the preferred leader first.",
    "cluster_authorized_operations": _OPERATIONS,
    "cluster_id": "Id of the cluster.",
    "config_source": "Where the value comes from, a `ConfigSource`; -1 if unknown.",
    "controller_id": "Broker that takes the controller's requests; -1 if none.",
    "current_leader": "The leader, if it is another one than the client knows.",
    "current_leader_epoch": "Leader epoch that the client knows, checked if not -1.",
    "error_code": "0, or why the request failed, or the item that the message is about.",
    "error_message": "The error in words; null without an error.",
    "group": "Id of the group.",
    "group_id": "Id of the group.",
    "group_instance_id": "`group.instance.id` of a static member; null for a dynamic one.",
    "groups": "The groups in question, or one result for each.",
    "host": "Host name to connect to.",
    "include_cluster_authorized_operations": "Whether to tell what the client may do.",
    "index": "Number of the partition, from 0.",
    "is_internal": "Whether it belongs to the server, as `__consumer_offsets` does.",
    "is_sensitive": "Whether the value is secret and therefore not shown.",
    "isr_nodes": "Brokers whose replica is in sync.",
    "leader_id": "Broker that leads the partition; -1 without a leader.",
    "member_id": "Id of the member.",
    "members": "The members in question, or one result for each.",
    "name": "Name of the topic.",
    "node_endpoints": "Where the leaders are that `current_leader` names.",
    "node_id": "Id of the broker.",
    "offline_replicas": "Brokers whose replica is offline.",
    "partition": "Number of the partition, from 0.",
    "partition_index": "Number of the partition, from 0.",
    "partitions": "The partitions in question, or one result for each.",
    "permission_type": "Whether it is allowed or denied.",
    "port": "Port to connect to.",
    "producer_id": "Id of the producer.",
    "protocol_type": "Kind of the group; null on an error.",
    "rack": "Rack of the broker; null if it has none.",
    "read_only": "Whether requests cannot change it.",
    "replica_id": "Broker id of a follower; -1 from consumers.",
    "replica_nodes": "Brokers that have a replica.",
    "resource_name": "Name of the resource: a topic, a group, or a broker id as text.",
    "resource_type": "Kind of the resource, a `ResourceType`.",
    "resources": "The resources in question, each at most once where they are changed.",
    "responses": "One result for each topic or resource.",
    "results": "One result for each item of the request.",
    "throttle_time_ms": "Milliseconds for which a quota throttles the client; 0 if none does.",
    "timeout_ms": "How long to wait until the change is made.",
    "topic": "Name of the topic.",
    "topic_authorized_operations": _OPERATIONS,
    "topic_id": "Id of the topic (KIP-516).",
    "topic_name": "Name of the topic.",
    "topics": "The topics in question, or one result for each.",
    "transactional_id": "The transactional id.",
    "validate_only": "True checks the request and changes nothing.",
}
"""What fields of these names mean where no docstring is below them."""
