"""A member of a consumer, share or streams group (KIP-848, KIP-932, KIP-1071) as its records state
it.
"""

from dataclasses import dataclass, field
from typing import Final

from groupkeeper.history.ownership import OwnedPartition
from groupkeeper.history.records import GroupRecord, RecordedMember
from groupkeeper.history.rows import RowWriter, instant, member_columns
from groupkeeper.protocol.records.modern_groups import (
    AnyMember,
    ConsumerMember,
    ShareMember,
    StreamsMember,
)

AWAY: Final = -2
"""Epoch of a static member that left for a while: it keeps its partitions."""
UNREVOKED: Final = 1
"""State of a member of a consumer group that has partitions to give up."""


@dataclass(slots=True)
class NewerMember:
    """A member. `topics` is None until its own record (type 5, 10 or 19) was read."""

    member: str
    instance: str | None = None
    client_id: str = ""
    host: str = ""
    rebalance_ms: int | None = None
    topics: tuple[str, ...] | None = None
    pattern: str = ""
    """Regular expression of topics that it subscribes to."""
    assignor: str = ""
    """The assignor that it asks for."""
    epoch: int = 0
    state: int = 0
    """As in its last record of type 8, 14 or 22."""
    state_ms: int = 0
    """Since when it has been in this state, in Unix ms."""
    heard_ms: int = 0
    """Time of the last record that one of its heartbeats wrote."""
    leader_epoch: int | None = None
    """Leader epoch of that record."""
    owned: list[OwnedPartition] = field(default_factory=list)
    """Topic ids and partitions."""
    waits_as: str = ""
    """Code of a change whose epoch comes when its pattern is resolved."""

    @property
    def who(self) -> dict[str, str | None]:
        """The client in the form of events."""
        if self.topics is None:
            return {"member": self.member}
        about = {"client_id": self.client_id, "host": self.host.removeprefix("/")}
        return {"member": self.member, "instance": self.instance, **about}

    @property
    def recorded(self) -> RecordedMember:
        """The member as the record of a classic group has it, with what is known of it."""
        about = self.member, self.instance, self.client_id, self.host.removeprefix("/")
        return RecordedMember(*about, 0, self.rebalance_ms or 0, "", self.topics)

    @property
    def wants(self) -> tuple[tuple[str, ...] | None, str]:
        """Topics and pattern that it subscribes to."""
        return self.topics, self.pattern

    @property
    def client(self) -> tuple[str | None, str, str, int | None]:
        """Values that may change without a rebalance."""
        return self.instance, self.client_id, self.host, self.rebalance_ms

    def take(self, value: AnyMember) -> None:
        """Take over a record of the member."""
        self.client_id, self.host = value.client_id, value.client_host
        self.topics = ()
        if not isinstance(value, ShareMember):
            self.instance, self.rebalance_ms = value.instance_id, value.rebalance_timeout_ms
        if not isinstance(value, StreamsMember):
            self.topics = tuple(sorted(value.subscribed_topics))
        if isinstance(value, ConsumerMember):
            self.pattern = value.subscribed_regex or ""
            self.assignor = value.server_assignor or ""

    def heard(self, record: GroupRecord) -> None:
        """Note a record that one of its heartbeats wrote."""
        self.heard_ms = max(self.heard_ms, record.time_ms)
        self.leader_epoch = record.leader_epoch


def write_current(
    record: GroupRecord,
    member: NewerMember,
    epoch: int,
    owned: list[OwnedPartition],
    out: RowWriter,
) -> None:
    """Add rows of the partitions that a member has now."""
    at = {"group": record.group, "offset": record.offset, "generation": epoch}
    at["time"] = instant(record.time_ms)
    columns = member_columns(member.who)
    del columns["software"]
    topics = None if member.topics is None else [*member.topics]
    about = {"rebalance_timeout_ms": member.rebalance_ms, "topics": topics}
    out.add("members", **at, **columns, **about, assigned_partitions=len(owned))
    for topic, partition in owned:
        more = {"topic": topic, "topic_partition": partition}
        out.add("assignments", **at, member=member.member, **more)
