"""The requests and responses, one module per API, named after its key: `registry.py` finds them so.

Classes and fields have Kafka's names, fields in snake case; versions and defaults are Kafka's.

Source: Kafka 4.1, the definitions in `clients/src/main/resources/common/message`.
"""

from collections.abc import Mapping
from typing import Final

MEANINGS: Final[Mapping[str, str]] = {
    "current_leader_epoch": "Leader epoch that the client knows, checked if not -1.",
    "error_message": "The error in words; null without an error.",
    "group": "Id of the group.",
    "group_id": "Id of the group.",
    "group_instance_id": "`group.instance.id` of a static member; null for a dynamic one.",
    "host": "Host name to connect to.",
    "partition": "Number of the partition, from 0.",
    "partition_index": "Number of the partition, from 0.",
    "port": "Port to connect to.",
    "rack": "Rack of the broker; null if it has none.",
    "throttle_time_ms": "Milliseconds for which a quota throttles the client; 0 if none does.",
    "topic": "Name of the topic.",
    "topic_id": "Id of the topic.",
    "validate_only": "True checks the request and changes nothing.",
}
"""What fields of these names mean where no docstring is below them."""
