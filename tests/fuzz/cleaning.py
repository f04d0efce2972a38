"""Everything away that a round has left behind, as an administrator would; then a look around."""

from collections.abc import Collection

from groupkeeper.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from groupkeeper.protocol.messages.delete_groups import DeleteGroupsRequest
from groupkeeper.protocol.messages.delete_topics import DeleteTopicsRequest
from groupkeeper.protocol.messages.describe_groups import DescribeGroupsRequest
from groupkeeper.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from groupkeeper.protocol.messages.list_groups import ListGroupsRequest
from groupkeeper.protocol.messages.metadata import MetadataRequest
from tests.fuzz.bystander import GROUP, TOPIC, Bystander
from tests.fuzz.life import Finding, Life
from tests.fuzz.peer import Peer

ATTEMPTS = 12
PATIENCE_S = 305


class Cleaning:
    """An administrator at the end of a round."""

    def __init__(self, life: Life, bystander: Bystander) -> None:
        self._life = life
        self._bystander = bystander

    def remove_groups(self, peers: Collection[Peer]) -> None:
        """Until no group is left and everybody who waited has been answered."""
        for attempt in range(ATTEMPTS):
            groups = self._groups()
            for group_id in groups:
                self._empty(group_id)
            self._bystander.call(2, DeleteGroupsRequest(groups_names=groups))
            waiting = [peer for peer in peers if peer.usable and peer.owed]
            if not waiting and not groups and not self._in_memory():
                return
            # A group waits as long for an id that it has given away, as a Fetch for its bytes.
            self._life.advance(PATIENCE_S if attempt else 0.1)
            self._bystander.beat()
        owed = [(peer.doomed, list(peer.owed)[:3]) for peer in peers if peer.owed]
        group_partitions = self._life.server.group_partitions
        left = [
            str(group_partitions.of(group_id)._partition.groups[group_id])
            for group_id in self._in_memory()
        ]
        raise Finding(f"what waits is never answered\n{owed}\n{left}")

    def _groups(self) -> list[str]:
        listed = self._bystander.call(4, ListGroupsRequest()).groups
        return [group.group_id for group in listed if group.group_id != GROUP]

    def _in_memory(self) -> list[str]:
        """Groups that are there, listed or not."""
        group_partitions = self._life.server.group_partitions
        return [g for driver in group_partitions for g in driver._partition.groups if g != GROUP]

    def _empty(self, group_id: str) -> None:
        described = self._bystander.call(5, DescribeGroupsRequest(groups=[group_id]))
        members = [
            MemberIdentity(member_id=member.member_id) for member in described.groups[0].members
        ]
        request = LeaveGroupRequest(group_id=group_id, members=members)
        self._bystander.call(5, request)

    def remove_topics(self) -> None:
        """All but the bystander's. What the disk refused to remove goes when its name is asked for
        again.
        """
        being_deleted = self._life.server.topics.catalog.being_deleted
        for _ in range(ATTEMPTS):
            listed = self._bystander.call(9, MetadataRequest(topics=None)).topics
            doomed = [t.name for t in listed if t.name != TOPIC and not t.is_internal]
            if not doomed and not being_deleted:
                return
            asked = [CreatableTopic(name=name) for name in being_deleted]
            request = CreateTopicsRequest(topics=asked, timeout_ms=1000, validate_only=True)
            self._bystander.call(5, request)
            delete = DeleteTopicsRequest(topic_names=doomed, timeout_ms=30_000)
            self._bystander.call(5, delete)
            self._life.settle()
        raise Finding(f"topics that cannot be deleted: {doomed} {list(being_deleted)}")

    def let_fetches_end(self) -> None:
        """A Fetch does not hear that its client is gone: it ends with its time."""
        if self._life.server.topics.waiting_fetches:
            self._life.advance(PATIENCE_S)
            self._bystander.beat()

    def check_nothing_is_left(self) -> None:
        """Nobody waits, nothing is known of what is gone."""
        server = self._life.server
        topics = server.topics
        left = {
            "tasks": len(topics.response_tasks._tasks),
            "fetches": len(topics.waiting_fetches),
            "deletions": len(topics.admin._deletions) + len(topics.catalog.being_deleted),
            "topics": sum(not t.internal for t in topics.catalog.by_name.values()) - 1,
            "partitions": sum(not p.topic.internal for p in topics.partitions._known.values()) - 1,
            "groups": len(self._in_memory()),
            "timers": sum(len(h._partition.deadlines.due) - 1 for h in server.group_partitions) - 1,
            "parked": sum(h._partition.gate.parked for h in server.group_partitions),
            "connections": server.metrics.connections.open - 1,
        }
        if any(count > 0 for count in left.values()):
            raise Finding(f"left behind: { {what: n for what, n in left.items() if n > 0} }")
