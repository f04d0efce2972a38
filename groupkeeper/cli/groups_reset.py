"""`groupkeeper groups reset-offsets`."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from groupkeeper.cli.cluster import (
    FAILED,
    Cluster,
    cluster_options,
    execute_options,
    remind,
)
from groupkeeper.cli.groups_select import Selection, group_options
from groupkeeper.cli.reset_plan import (
    Kind,
    Target,
    ago,
    in_range,
    named,
    plan,
    read_datetime,
    read_duration,
    read_plans,
    write_plans,
)
from groupkeeper.cli.tables import Table
from groupkeeper.cli.topic_words import existing_partitions

if TYPE_CHECKING:
    from groupkeeper.cli.reset_plan import Offsets
    from groupkeeper.client import Client
    from groupkeeper.client.groups import Group

COLUMNS = {"group": "GROUP", "topic": "TOPIC", "partition": "PARTITION", "new_offset": "NEW-OFFSET"}
FREE = ("Empty", "Dead")
"""States in which a group takes offsets from outside; a group that does not exist is made."""


@click.command(name="reset-offsets")
@group_options
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:0,1,...]",
    help="A topic, all of it or some partitions; may be repeated.",
)
@click.option("--all-topics", is_flag=True, help="All partitions that the group has offsets for.")
@click.option("--to-earliest", is_flag=True, help="The start of the log.")
@click.option("--to-latest", is_flag=True, help="The end of the log.")
@click.option("--to-current", is_flag=True, help="The committed offset; the end if there is none.")
@click.option("--to-offset", type=click.INT, metavar="OFFSET", help="This offset.")
@click.option("--shift-by", type=click.INT, metavar="N", help="N records on; back if negative.")
@click.option(
    "--to-datetime",
    metavar="TIME",
    help="The first record from then on: YYYY-MM-DDThh:mm:ss.sss, UTC unless it has a zone.",
)
@click.option("--by-duration", metavar="PnDTnHnMnS", help="The first record that is no older.")
@click.option(
    "--from-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The offsets in a CSV file, as --export writes it; without a topic option.",
)
@execute_options
@click.option("--export", is_flag=True, help="Print CSV: topic,partition,offset, after the group.")
@cluster_options
def reset_offsets(
    selection: Selection,
    topics: tuple[str, ...],
    execute: bool | None,
    export: bool,
    cluster: Cluster,
    **given: Any,
) -> int:
    """Move offsets of groups without members.

    Nothing is changed without --execute. Offsets beyond the log are moved to its start or end.

    \b
      groupkeeper groups reset-offsets --group billing --topic orders:0,1 --to-offset 4711
      groupkeeper groups reset-offsets --group billing --all-topics --to-datetime 2026-11-21T08:00
      groupkeeper groups reset-offsets --group billing --all-topics --to-current --export >saved.csv
      groupkeeper groups reset-offsets --group billing --from-file saved.csv --execute
    """
    if export and cluster.as_json:
        raise click.UsageError("--export prints CSV: it excludes --json")
    target = _target(given)
    if (target.kind is not Kind.FILE) != (bool(topics) + given["all_topics"] == 1):
        raise click.UsageError("Name partitions with one of --topic, --all-topics, --from-file")
    plans = _plans(given["from_file"], selection) if target.kind is Kind.FILE else None
    reset = _Reset(cluster, target, topics, plans)

    async def work(client: "Client") -> int:
        ids, reset.exit_code = await selection.ids(client)
        offsets = await reset.plan(client, ids)
        if execute:
            offsets = await reset.execute(client, offsets)
        if export:
            print(write_plans(offsets, with_group=not selection.is_one), end="")
        else:
            _show(offsets, cluster)
        if offsets:
            remind(execute)
        return reset.exit_code

    return cluster.run(work)


def _target(given: Mapping[str, Any]) -> Target:
    """The one target that is given. Raises UsageError if that is none, or several."""
    options = {kind: given[kind.value[2:].replace("-", "_")] for kind in Kind}
    chosen = [kind for kind, value in options.items() if value is not None and value is not False]
    if len(chosen) != 1:
        raise click.UsageError(f"Say where to with one of {', '.join(Kind)}")
    kind, value = chosen[0], options[chosen[0]]
    try:
        match kind:
            case Kind.DATETIME:
                return Target(kind, read_datetime(value))
            case Kind.DURATION:
                return Target(kind, ago(read_duration(value)))
            case Kind.OFFSET | Kind.SHIFT:
                return Target(kind, value)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=kind.value) from error
    return Target(kind)


def _plans(path: Path, selection: Selection) -> "dict[str, Offsets]":
    try:
        text = path.read_text(encoding="utf-8")
        return read_plans(text, selection.names[0] if selection.is_one else None)
    except (OSError, ValueError) as error:
        raise click.BadParameter(f"{path}: {error}", param_hint="--from-file") from error


def _show(offsets: "Mapping[str, Offsets]", cluster: Cluster) -> None:
    Table(COLUMNS, as_json=cluster.as_json).show(
        {"group": group, "topic": topic, "partition": partition, "new_offset": offset}
        for group, some in offsets.items()
        for (topic, partition), offset in sorted(some.items())
    )


@dataclass(slots=True)
class _Reset:
    """One call of the command; `plans` are those of a file. `exit_code` is 1 once a group, or a
    partition of it, was not reset.
    """

    cluster: Cluster
    target: Target
    topics: Sequence[str]
    plans: "dict[str, Offsets] | None"
    exit_code: int = 0

    async def plan(self, client: "Client", ids: Sequence[str]) -> "dict[str, Offsets]":
        """The new offsets of the groups that can be reset; nothing is changed yet."""
        from groupkeeper.client.groups import committed_offsets, describe_groups

        groups = await describe_groups(client, ids)
        free = [name for name, group in groups.items() if self._is_free(group)]
        partitions = await existing_partitions(client, self.topics) if self.topics else None
        found: dict[str, Offsets] = {}
        for name, told in (await committed_offsets(client, free)).items():
            if self.plans is not None:
                if name in self.plans:
                    found[name] = await in_range(client, self.plans[name], _warn)
                else:
                    self._fail(f"group '{name}' was not reset: the file has no line about it")
                continue
            committed = {each: one.offset for each, one in told.items()}
            wanted = committed.keys() if partitions is None else partitions
            found[name] = await plan(client, self.target, wanted, committed, _warn)
        return found

    def _is_free(self, group: "Group") -> bool:
        if group.state in FREE:
            return True
        self._fail(
            f"group '{group.group_id}' was not reset: it is {group.state} with "
            f"{len(group.members)} members; stop them first"
        )
        return False

    async def execute(
        self, client: "Client", offsets: "dict[str, Offsets]"
    ) -> "dict[str, Offsets]":
        """Commit; the offsets that were."""
        from groupkeeper.client.groups import commit_offsets
        from groupkeeper.protocol.errors import ErrorCode

        done: dict[str, Offsets] = {}
        for group, some in offsets.items():
            results = await commit_offsets(client, group, some) if some else {}
            done[group] = {each: some[each] for each, error in results.items() if not error}
            for each, error in results.items():
                if error is ErrorCode.UNKNOWN_MEMBER_ID:
                    told = "the group has members again; stop them first"
                elif error:
                    told = error.name
                else:
                    continue
                self._fail(f"{named(each)} of group '{group}' was not reset: {told}")
        return done

    def _fail(self, told: str) -> None:
        self.exit_code = FAILED
        print(f"groupkeeper: {told}", file=sys.stderr)


def _warn(told: str) -> None:
    print(f"groupkeeper: warning: {told}", file=sys.stderr)
