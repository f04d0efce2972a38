"""`groupkeeper why`: why a group rebalanced, by its stored events, or inferred from its records."""

from collections import deque
from typing import TYPE_CHECKING, Final

import click

from groupkeeper.cli.app import CommandRefused
from groupkeeper.cli.cluster import Cluster, cluster_options
from groupkeeper.cli.http_port import HttpTarget, http_options
from groupkeeper.cli.options import GROUP
from groupkeeper.cli.why.inferred import (
    Inferred,
    Wanted,
    read_inferred,
    remark_on,
    remark_on_skipped,
    since_text,
)
from groupkeeper.cli.why.now import (
    EVENTS_ENABLED,
    LiveViews,
    NoLiveView,
    described_json,
    described_text,
    find_views,
    session_limits,
    settings_of,
)
from groupkeeper.cli.why.read import FollowedLog, ReadEntries, read_from, read_last
from groupkeeper.cli.why.show import Printer, remark
from groupkeeper.cli.why.times import since_option
from groupkeeper.history.coverage import OFFSETS_LOG
from groupkeeper.history.returns import find_returns
from groupkeeper.history.rounds import Round, SessionLimits
from groupkeeper.protocol.group_events import TOPIC
from groupkeeper.why.entries import last_rounds
from groupkeeper.why.texts import time_text

if TYPE_CHECKING:
    from groupkeeper.client import Client
    from groupkeeper.client.group_events import EventTopicReader
    from groupkeeper.client.groups import GroupDescription

LAST: Final = 10
"""Default number of rounds to show."""
SWITCHED_OFF: Final = "events are switched off: start the server with group.events.enabled=true"
UNDER_WAY_WAIT_MS: Final = 500
"""Long-poll timeout of requests for new events while a round is in progress."""
IDLE_WAIT_MS: Final = 2_000
"""Long-poll timeout of requests for new events while no round is in progress."""


@click.command(short_help="Show why a group rebalanced, and what to change.")
@GROUP
@click.option(
    "--last",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"The last N rebalances.  [default: {LAST}, or all since --since]",
)
@click.option(
    "--since",
    callback=since_option,
    metavar="T",
    help="From a time on, in UTC: 3h, 45m, 2d, 03:00, 2026-11-22T03:00.",
)
@click.option("--watch", is_flag=True, help="Keep running: print each rebalance when it ends.")
@http_options(
    None,
    "HTTP port for the current state, of the server or an observer.  [default: port 9644 of the "
    "coordinator's host]",
    off=True,
)
@cluster_options
def why(
    group: str,
    last: int | None,
    since: int | None,
    watch: bool,
    http: HttpTarget | None,
    cluster: Cluster,
) -> int:
    """Show why GROUP rebalanced: the trigger of each rebalance, the client, and what to change.

    Reads the events that a Groupkeeper server has stored (topic `__group_events`), and queries its
    HTTP port for the current activity of the group. Other Kafka clusters store no causes: there
    they are inferred from the group's records in `__consumer_offsets`, of the last hour unless
    --since or --last say otherwise, and each says how sure it is. That needs READ on this topic
    and DESCRIBE on the group. With --http an observer of that cluster is asked, which knows more.

    \b
      groupkeeper why billing
      groupkeeper why billing --since 3h
      groupkeeper why billing --watch
      groupkeeper why billing --last 50 --json | jq .cause.code

    Remarks go to standard error.
    """

    async def work(client: "Client") -> int:
        return await _Report(client, group, cluster, http).run(last, since, watch=watch)

    return cluster.run(work)


class _Report:
    """One call of the command."""

    def __init__(
        self, client: "Client", group: str, cluster: Cluster, http: HttpTarget | None
    ) -> None:
        self._client = client
        self._group = group
        self._http = http
        self._views: LiveViews | None = None
        self._problem = ""
        """The last error of the HTTP port."""
        self._untold = ""
        """Why an observer's causes are missing, if the HTTP port tells the present."""
        self._settings: dict[str, str] = {}
        """Settings of the group's coordinator."""
        self._printer = Printer(as_json=cluster.as_json)

    async def run(self, last: int | None, since: int | None, *, watch: bool) -> int:
        from groupkeeper.client.group_events import EventTopicReader, NoEventLog

        self._settings = await settings_of(self._client, self._group)
        limits, most = session_limits(self._settings), last or (LAST if since is None else None)
        try:
            log = await EventTopicReader.of(self._client, self._group)
        except NoEventLog:
            await self._infer(last, since, watch=watch)
            return 0
        if since is None:
            told = await read_last(log, last or LAST, limits)
        else:
            told = await read_from(log, await log.since(since), limits)
        entries = told.all(with_rest=not watch)
        is_known = any(isinstance(each, Round) or each.group for each in entries)
        if not is_known and not told.left_out:
            if not watch and await self._show_observed(last, since, limits):
                return 0
            wanted = Wanted(since, last or 0)
            found = await read_inferred(self._client, self._group, wanted, limits)
            if isinstance(found, Inferred) and found.told.entries:
                await self._show_inferred(found, most, watch=watch)
                return 0
        if not entries:
            await self._tell_nothing(log, told, since)
        if entries and self._events_enabled() == "false":
            remark(f"{SWITCHED_OFF}; these are older")
        if told.left_out and entries:
            remark(told.left_out)
        self._printer.entries(last_rounds(entries, most))
        await self._tell_now()
        self._printer.skipped(told.folding.unknown, log.unreadable, log.first_error)
        if watch:
            await self._watch(log, told)
        return 0

    async def _tell_nothing(
        self, log: "EventTopicReader", told: ReadEntries, since: int | None
    ) -> None:
        """Explain why no rebalances are shown. Raises CommandRefused for a missing group."""
        when = "" if since is None else f" since {time_text(since)}"
        none = f"no rebalances of group '{self._group}'"
        if told.left_out:
            remark(f"{none}: {told.left_out}")
            return
        await self._existing(f"has no events{when}")
        if log.unreadable and not log.readable:
            remark(f"the topic {TOPIC} was not written by Groupkeeper: {log.first_error}")
        elif self._events_enabled() == "false":
            remark(SWITCHED_OFF)
        else:
            remark(f"{none}{when}: try an earlier --since" if when else f"{none} are stored yet")

    # -- clusters that store no causes -----------------------------------------------------------

    async def _infer(self, last: int | None, since: int | None, *, watch: bool) -> None:
        """Show what the records of the group show. Raises CommandRefused for a missing group."""
        limits = session_limits(self._settings)
        if not watch and await self._show_observed(last, since, limits):
            return
        wanted = Wanted(since, last or 0, to_record=watch)
        found = await read_inferred(self._client, self._group, wanted, limits)
        if isinstance(found, Inferred):
            most = last or (LAST if since is None else None)
            await self._show_inferred(found, most, watch=watch)
            return
        group = await self._existing()
        if self._events_enabled() == "true":
            remark(f"no rebalances of group '{self._group}' are stored yet")
        elif self._events_enabled() == "false":
            remark(SWITCHED_OFF)
        else:
            remark(
                f"this cluster has no topic {TOPIC}, and causes cannot be inferred, as {found}; "
                "state and members are all that is known"
            )
        self._printer.text(described_text(group), **described_json(group))

    async def _show_observed(
        self, last: int | None, since: int | None, limits: SessionLimits
    ) -> bool:
        """Print what the observer at the HTTP port has stored. Returns False if it has nothing, and
        if no observer was named.
        """
        from groupkeeper.cli.why.observed import read_observed

        if self._http is None or self._http.address is None:
            return False
        most = last or (LAST if since is None else None)
        try:
            views = self._views = await find_views(self._client, self._group, self._http)
            found = await read_observed(views, Wanted(since, most or 0), limits)
        except NoLiveView as problem:
            self._untold = f"{problem}: the observer's causes are not shown"
            return False
        if found is None:
            return False
        entries = found.told.all()
        if entries:
            remark(f"causes are inferred by the observer at {views.where}")
            if found.told.left_out:
                remark(found.told.left_out)
            self._printer.entries(last_rounds(entries, most))
            await self._tell_now()
        unknown = found.told.folding.unknown
        self._printer.skipped(unknown, found.unreadable, found.first_error)
        return bool(entries)

    async def _show_inferred(self, found: Inferred, most: int | None, *, watch: bool) -> None:
        """Print the last rounds (None: all). Raises CommandRefused for a missing group."""
        if self._events_enabled() == "false":
            remark(SWITCHED_OFF)
        log, told, since = found
        entries = told.all(with_rest=not watch)
        when = since_text(since)
        if not entries and not watch:
            await self._existing(f"has no records {when}")
        if not entries:
            further = "" if since is None else ": try an earlier --since"
            remark(f"no rebalances of group '{self._group}' {when}{further}")
        else:
            remark(f"causes are inferred from {OFFSETS_LOG}, {when}: only Groupkeeper stores them")
        if told.left_out:
            remark(told.left_out)
        shown = last_rounds(entries, most)
        remark_on(found, self._group, shown)
        self._printer.entries(shown)
        if self._events_enabled() is not None or self._is_http_given():
            await self._tell_now()
        else:  # no Groupkeeper server, and no observer was named
            await self._tell_described()
        remark_on_skipped(log)
        if watch:
            await self._watch(log, told)

    async def _existing(self, why: str = "") -> "GroupDescription":
        """Return the description of the group. Raises CommandRefused if it does not exist."""
        group = await self._described()
        if group.state == "Dead":
            missing = f"consumer group '{self._group}' does not exist"
            raise CommandRefused(f"{missing}, and {why}" if why else missing)
        return group

    def _events_enabled(self) -> str | None:
        """Return the value of the setting; None for a server without it."""
        return self._settings.get(EVENTS_ENABLED)

    # -- the present -----------------------------------------------------------------------------

    def _is_http_given(self) -> bool:
        return self._http is not None and self._http.address is not None

    async def _tell_now(self) -> None:
        """Print the live state from the HTTP port, or else the state from DescribeGroups."""
        if self._http is not None:
            try:
                if self._views is None:
                    self._views = await find_views(self._client, self._group, self._http)
                view = await self._views.view()
            except NoLiveView as problem:
                self._views = None
                remark(f"{problem}: missing members are not shown; {problem.advice}")
            else:
                if self._untold:
                    remark(self._untold)
                if view is not None:
                    self._printer.live(view)
                    return
        await self._tell_described()

    async def _tell_described(self) -> None:
        """Print the state from DescribeGroups."""
        group = await self._described()
        if group.state == "Dead":
            remark(f"consumer group '{self._group}' does not exist now")
            return
        self._printer.text(described_text(group), **described_json(group))

    async def _described(self) -> "GroupDescription":
        from groupkeeper.client.groups import describe_groups

        return (await describe_groups(self._client, [self._group]))[self._group]

    # -- as it happens ---------------------------------------------------------------------------

    async def _watch(self, log: FollowedLog, told: ReadEntries) -> None:
        """Print new entries until the command is interrupted."""
        folding, before = told.folding, deque(told.entries, maxlen=LAST)

        def wait_ms() -> int:
            return IDLE_WAIT_MS if folding.under_way is None else UNDER_WAY_WAIT_MS

        is_lost = False

        def lost(failure: Exception) -> None:
            nonlocal is_lost
            if not is_lost:
                remark(f"{failure}: still trying")
            is_lost = True

        known = folding.unknown.copy()
        async for events in log.follow(log.end, wait_ms, lost):
            is_lost = False
            for entry in (entry for event in events for entry in folding.add(event)):
                before.append(entry)
                find_returns(before)
                self._printer.entry(entry)
            self._printer.skipped(folding.unknown - known, 0, "")
            known = folding.unknown.copy()
            if not events:
                for entry in folding.let_go():
                    self._printer.entry(entry)
            if folding.under_way is not None and self._views is not None:
                await self._show_status(self._views)

    async def _show_status(self, views: LiveViews) -> None:
        try:
            view = await views.view()
        except NoLiveView as problem:
            if str(problem) != self._problem:
                remark(str(problem))
            self._problem = str(problem)
        else:
            self._problem = ""
            if view is not None:
                self._printer.live_if_new(view)
