"""`groupkeeper groups describe`: the offsets, the members or the states of groups.

Source: Kafka's `ConsumerGroupCommand.ConsumerGroupService` (`printOffsets`, `printMembers`,
`printStates`).
"""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from groupkeeper.cli import FAILED
from groupkeeper.cli.cluster import Cluster, cluster_options
from groupkeeper.cli.groups.select import GroupSelection, group_options
from groupkeeper.cli.tables import TableRow, show
from groupkeeper.cli.why.last import last_causes
from groupkeeper.why.texts import printable

if TYPE_CHECKING:
    from groupkeeper.client import Client
    from groupkeeper.client.groups import GroupDescription
    from groupkeeper.client.lag import GroupPartition

GROUPS_AT_ONCE: Final = 500
"""Number of groups that are requested and shown at a time."""
REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")

ONLY_VERBOSE: Final = frozenset(
    {
        *("leader_epoch", "group_epoch", "target_assignment_epoch", "current_epoch"),
        *("current_assignment", "target_epoch", "target_assignment"),
    }
)
"""Columns that only --verbose shows."""


@click.command()
@group_options
@click.option("--offsets", is_flag=True, help="Offsets and lag: the default.")
@click.option("--topics", is_flag=True, help="The lag of each topic.")
@click.option("--members", is_flag=True, help="Members and their partitions.")
@click.option("--state", is_flag=True, help="Coordinator, assignor and state.")
@click.option("--lag-seconds", is_flag=True, help="Add the age of the next record to read.")
@click.option("--why", is_flag=True, help="Add the cause of the last rebalance to --state.")
@click.option("--verbose", is_flag=True, help="More columns: epochs, assignments.")
@cluster_options
def describe(
    selection: GroupSelection,
    lag_seconds: bool,
    why: bool,
    verbose: bool,
    cluster: Cluster,
    **views: bool,
) -> int:
    """Show offsets, members or states of groups.

    LAG counts the records between the committed offset and the end of the log. LAG-SECONDS is
    the age of the record at the committed offset (the first remaining one, if that is deleted),
    to the batch, and 0 without lag: it requires permission to read the topic.

    LAST-CAUSE is the cause of the last rebalance with its time: stored by Groupkeeper, or inferred
    from the records of the last hour, as by `groupkeeper why`.

    \b
      groupkeeper groups describe --group billing
      groupkeeper groups describe --all-groups --topics --lag-seconds
      groupkeeper groups describe --group billing --members --verbose
      groupkeeper groups describe --all-groups --state --why
    """
    view, *more = [name for name, is_given in views.items() if is_given] or ["offsets"]
    if more:
        raise click.UsageError("Only one of --offsets, --topics, --members, --state can be given")
    if lag_seconds and view not in ("offsets", "topics"):
        raise click.UsageError("--lag-seconds requires --offsets or --topics")
    if why and view != "state":
        raise click.UsageError("--why requires --state")
    report = _Report(cluster.as_json, view, lag_seconds, why, verbose)

    async def work(client: "Client") -> int:
        from groupkeeper.client.coordinators import chunks

        ids, report.exit_code = await selection.ids(client)
        for some in chunks(ids, GROUPS_AT_ONCE):
            await report.show(client, some)
        return report.exit_code

    return cluster.run(work)


@dataclass(slots=True)
class _Report:
    """One call of the command; `exit_code` is 1 once groups are missing or unknown."""

    as_json: bool
    view: str
    lag_seconds: bool
    why: bool
    verbose: bool
    exit_code: int = 0

    async def show(self, client: "Client", ids: Sequence[str]) -> None:
        from groupkeeper.client.groups import DEAD, describe_groups

        groups = await describe_groups(client, ids)
        for each in [name for name, group in groups.items() if group.state == DEAD]:
            del groups[each]
            print(f"groupkeeper: consumer group '{each}' does not exist", file=sys.stderr)
            self.exit_code = FAILED
        rows = await self._rows(client, groups)
        for name, group in groups.items():
            self._remark(group)
            show(self._shown(rows[name]), as_json=self.as_json)

    async def _rows(
        self, client: "Client", groups: "Mapping[str, GroupDescription]"
    ) -> dict[str, Sequence[TableRow]]:
        if self.view == "state":
            rows = {name: _state(client, group) for name, group in groups.items()}
            if self.why:
                for name, cause in (await last_causes(client, groups)).items():
                    rows[name] = {**rows[name], "last_cause": cause}
            return {name: [row] for name, row in rows.items()}
        if self.view == "members":
            return {name: _members(group) for name, group in groups.items()}
        from groupkeeper.client.lag import places_of

        now_ms = int(time.time() * 1000) if self.lag_seconds else None
        places = await places_of(client, groups, now_ms)
        made: Callable[[str, Sequence[GroupPartition]], Sequence[TableRow]]
        made = _topics if self.view == "topics" else _offsets
        return {name: made(name, some) for name, some in places.items()}

    def _shown(self, rows: Sequence[TableRow]) -> Sequence[TableRow]:
        """Return the rows with only the requested columns."""
        left_out = set() if self.verbose else {*ONLY_VERBOSE}
        if not self.lag_seconds:
            left_out.add("lag_seconds")
        if not (self.as_json or any(each.get("group_instance_id") for each in rows)):
            left_out.add("group_instance_id")
        return [{key: row[key] for key in row if key not in left_out} for row in rows]

    def _remark(self, group: "GroupDescription") -> None:
        from groupkeeper.client.groups import EMPTY

        remark = ""
        if group.state == EMPTY:
            remark = f"Consumer group '{group.group_id}' has no active members."
        elif group.state in REBALANCING:
            remark = f"Warning: Consumer group '{group.group_id}' is rebalancing."
        if remark:
            sys.stdout.flush()
            print(f"\n{printable(remark)}", file=sys.stderr)


def _offsets(group: str, places: "Sequence[GroupPartition]") -> Sequence[TableRow]:
    return [
        {
            "group": group,
            "topic": each.topic,
            "partition": each.partition,
            "leader_epoch": _epoch(each),
            "current_offset": each.committed and each.committed.offset,
            "log_end_offset": each.end,
            "lag": each.lag,
            "lag_seconds": each.lag_seconds,
            "consumer_id": each.member and each.member.member_id,
            "host": each.member and each.member.host,
            "client_id": each.member and each.member.client_id,
        }
        for each in places
    ]


def _epoch(place: "GroupPartition") -> int | None:
    epoch = -1 if place.committed is None else place.committed.leader_epoch
    return None if epoch < 0 else epoch


def _topics(group: str, places: "Sequence[GroupPartition]") -> Sequence[TableRow]:
    """Sum the known lags of each topic's partitions; the seconds are the maximum."""
    by_topic: dict[str, list[GroupPartition]] = {}
    for each in places:
        by_topic.setdefault(each.topic, []).append(each)
    rows = []
    for topic, some in sorted(by_topic.items()):
        lags = [each.lag for each in some if each.lag is not None]
        seconds = [each.lag_seconds for each in some if each.lag_seconds is not None]
        rows.append(
            {
                "group": group,
                "topic": topic,
                "partitions": len(some),
                "lag": sum(lags) if lags else None,
                "most_lag": max(lags, default=None),
                "lag_seconds": max(seconds, default=None),
            }
        )
    return rows


def _members(group: "GroupDescription") -> Sequence[TableRow]:
    return [
        {
            "group": group.group_id,
            "consumer_id": each.member_id,
            "group_instance_id": each.instance_id,
            "host": each.host,
            "client_id": each.client_id,
            "partitions": None if each.assignment is None else len(each.partitions),
            "current_epoch": each.epoch,
            "current_assignment": each.assignment,
            "target_epoch": group.assignment_epoch,
            "target_assignment": each.target,
        }
        for each in group.members
    ]


def _state(client: "Client", group: "GroupDescription") -> TableRow:
    return {
        "group": group.group_id,
        "coordinator": f"{client.address_of(group.coordinator)} ({group.coordinator})",
        "assignment_strategy": group.protocol or None,
        "state": group.state,
        "group_epoch": group.epoch,
        "target_assignment_epoch": group.assignment_epoch,
        "members": len(group.members),
    }
