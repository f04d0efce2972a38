"""Data directories as fixtures: what a server leaves behind, as files.

`tests/fixtures/data-directory-<format>` was made by `python -m tests.support.directories FOLDER`.
Run it again only for a new format, into a new folder. `stopped` is a directory after a clean stop,
`killed` the same one after more requests and `kill -9`: the last commits of one group are in the
journal only. `expected.json` has what clients see of each.
"""

import json
import sys
from pathlib import Path
from typing import Any

from groupkeeper.protocol.messages.describe_groups import DescribeGroupsRequest
from groupkeeper.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from groupkeeper.protocol.messages.metadata import MetadataRequest
from groupkeeper.topics.names import EVENT_TOPIC
from tests.support.batches import TIME, values_of
from tests.support.fake_files import FakeDisk, FakeFiles, parent
from tests.support.requests import (
    create_request,
    delete_topic_request,
    produce_request,
    records_request,
)
from tests.support.served import Client, Served, settle

DATA = "data"
PARTITIONS = 6
"""Of the offsets topic: not the default."""
GROUPS = ("billing", "orders-readers", "reports")


def live(served: Served) -> None:
    """Groups with and without members, topics with records, one with a config, one deleted."""
    client = served.client()
    client.call(4, create_request("gone", partitions=2))
    setting = AlterableConfig(name="retention.ms", config_operation=0, value="86400000")
    resource = AlterConfigsResource(resource_type=2, resource_name="orders", configs=[setting])
    client.call(1, IncrementalAlterConfigsRequest(resources=[resource]))
    client.call(6, delete_topic_request("gone"))
    member_id, generation = settle(client, "orders-readers", group_instance_id="reader-1")
    member = {"member_id": member_id, "generation": generation}
    assert client.commit(7, "orders-readers", **member) == 0
    assert client.commit(11, "billing") == 0
    assert client.commit(3, "reports") == 0
    _produce(client, b"first", b"second")
    served.advance(1)


def live_on(served: Served) -> None:
    """A little more. When the process is killed now, one of the commits is in the journal only."""
    client, other = served.client(), served.client()
    _produce(client, b"third")
    commits = {client: client.commit_frame(12, "billing"), other: other.commit_frame(4, "reports")}
    served.at_once(commits)
    assert [each.committed() for each in commits] == [0, 0]


def _produce(client: Client, *values: bytes) -> None:
    at = _orders(client)[1]
    produced = client.call(9, produce_request("orders", 0, *values, time=TIME))
    assert produced.responses[0].partition_responses[0].base_offset == at


def _orders(client: Client) -> tuple[list[str], int]:
    """What is in partition 0 of `orders`, and its next offset."""
    [found] = client.call(11, records_request("orders", 0)).responses[0].partitions
    return [value.decode() for value in values_of(found.records or b"")], found.high_watermark


def seen(served: Served) -> dict[str, Any]:
    """What clients see of it, as JSON has it."""
    client = served.client()
    request = DescribeGroupsRequest(groups=list(GROUPS))
    described = client.call(5, request).groups
    topics = client.call(12, MetadataRequest(topics=None))
    return {
        "cluster": topics.cluster_id,
        "topics": {
            t.name: [t.topic_id.hex(), len(t.partitions)]
            for t in topics.topics
            if t.name != EVENT_TOPIC  # of the server, not of clients
        },
        "configs": served.server.topics.catalog.by_name["orders"].configs,
        "orders": _orders(client)[0],
        "groups": {
            group.group_id: [group.group_state, *(each.member_id for each in group.members)]
            for group in described
        },
        "offsets": {
            group: {f"{topic}-{index}": at for (topic, index), at in client.fetched(group).items()}
            for group in GROUPS
        },
        "offsets partitions": len(served.server.group_partitions),
    }


def save(disk: FakeDisk, folder: Path) -> None:
    """The files as processes see them; of the zeros at the end of a journal a few are kept."""
    for path in sorted(disk._tree):
        inode = disk._tree[path]
        if inode is not None:
            data = bytes(inode.data)
            if "/journals/" in path:
                data = data[: len(data.rstrip(b"\0")) + 64]  # a round may end with zeros, too
            target = folder / path.removeprefix(f"{DATA}/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)


def restore(folder: Path, disk: FakeDisk) -> None:
    """The files of a folder as the data directory of a machine."""
    files = FakeFiles(disk)
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        name = f"{DATA}/{path.relative_to(folder).as_posix()}"
        files.make_folder(parent(name))
        handle = files.open(name, create=True)
        files.write(handle, path.read_bytes(), 0)
        files.close(handle)
    disk.write_back()


def make(folder: Path) -> None:
    served = Served(f"offsets.topic.num.partitions={PARTITIONS}")
    live(served)
    expected = {"stopped": seen(served)}
    served.stop()
    save(served.disk, folder / "stopped")
    served.start()
    served.settled()
    live_on(served)
    served.machine.kill()
    save(served.disk, folder / "killed")
    served.start()
    served.settled()
    expected["killed"] = seen(served)
    served.close()
    (folder / "expected.json").write_text(json.dumps(expected, indent=2) + "\n")


if __name__ == "__main__":
    make(Path(sys.argv[1]))
