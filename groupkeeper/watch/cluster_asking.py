"""Asks the observed cluster for what records do not say: names of topics, of which they have ids,
and session timeouts of consumer groups (KIP-848), which are settings of brokers.

    asker = ClusterAsker(client)
    await asker.ask_all_names()
    asker.answers.want(group, newer)    # by folds; asked for by `asker.run()`, a task

Session timeouts may change, so those of groups with records are asked for again now and then. What
is not answered stays unknown: names need DESCRIBE on topics, session timeouts DESCRIBE_CONFIGS
on groups, and brokers of Kafka 4.0 or later.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from itertools import islice
from typing import Final, TypeVar

from groupkeeper.backoff import Backoff
from groupkeeper.client import CallFailed, Client
from groupkeeper.client.group_configs import Failure, describe_configs
from groupkeeper.history.newer_departures import SessionLimit
from groupkeeper.history.newer_topics import id_of
from groupkeeper.observe.logs import Logger
from groupkeeper.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from groupkeeper.topics.slices import Pace
from groupkeeper.watch.answers import ClusterAnswers
from groupkeeper.watch.rate import Requests

NAMES_MOST: Final = 200_000
"""Maximum number of topics whose names are remembered."""
SESSIONS_MOST: Final = 100_000
"""Maximum number of groups whose session timeouts are remembered."""
ASKED_AT_ONCE: Final = 500
"""Topics, or groups, in a request."""
ASK_S: Final = 1.0
"""Interval at which is asked what folds want."""
PAUSE_MOST_S: Final = 60.0
"""Longest pause after a failure."""
AGAIN_S: Final = 600.0
"""Time for which a group is not asked for again, with or without an answer about it."""
SESSION_CONFIGS: Final = ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms")
"""Configs of groups, in the order of `SessionLimit`."""

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_log = Logger("observer")


async def topic_names(
    client: Client, topics: Iterable[str] | None = None
) -> AsyncIterator[tuple[bytes, str]]:
    """Return ids and names of topics, given by their ids as text, or of all. Raises CallFailed. The
    response has all their partitions, so it is decoded, read and freed in slices.
    """
    ids = None if topics is None else map(id_of, topics)
    wanted = (
        None if ids is None else [MetadataRequestTopic(topic_id=each, name=None) for each in ids]
    )
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
    rows, pace = (await client.call_in_slices(request)).topics, Pace()
    while rows:
        row = rows.pop()
        if row.topic_id and row.name:
            yield row.topic_id, row.name
        if pace.spent(1 + len(row.partitions)):
            del row
            await asyncio.sleep(0)


async def session_limits(client: Client, groups: Iterable[str]) -> dict[str, SessionLimit]:
    """Return the settings of sessions, of groups that may be described. Raises CallFailed."""
    found = {}
    # All configs of a group are some eleven, which take four times as long to decode.
    described = await describe_configs(client, [*groups], SESSION_CONFIGS)
    for group, configs in described.items():
        told = {} if isinstance(configs, Failure) else {each.name: each.value for each in configs}
        values = [told.get(name) or "" for name in SESSION_CONFIGS]
        if all(each.isdecimal() for each in values):
            found[group] = SessionLimit(*map(int, values))
    return found


class ClusterAsker:
    """Asks for what records do not say."""

    def __init__(self, client: Client, *, is_on: bool = True) -> None:
        """`is_on`: False asks for nothing."""
        self.answers = ClusterAnswers()
        self._client, self._is_on = client, is_on
        self._asked: deque[tuple[float, str]] = deque()
        """Groups of `answers.asked`, with the time of the event loop until which they are."""
        self.requests = Requests(1 / ASK_S)
        self._has_told = False
        """Whether it was told that there is no answer about a group."""

    async def ask_all_names(self) -> None:
        """Ask for the names of all topics; without an answer, ids are shown."""
        try:
            if self._is_on:
                async for topic, name in topic_names(self._client):
                    self._keep(self.answers.names, topic, name, NAMES_MOST)
        except CallFailed as failure:
            self.requests.failed("names of topics are not known", str(failure))

    async def run(self) -> None:
        """Ask until cancelled."""
        backoff = Backoff(ASK_S, PAUSE_MOST_S)
        while True:
            self._forget_asked()
            try:
                await self._ask()
                backoff.reset()
                await asyncio.sleep(ASK_S)
            except CallFailed as failure:
                self.requests.failed("the cluster does not answer about groups", str(failure))
                await asyncio.sleep(backoff.failed())

    def _forget_asked(self) -> None:
        """Let groups be asked for again that were asked for a while ago."""
        now_s = asyncio.get_running_loop().time()
        for _ in range(2 * ASKED_AT_ONCE):
            if not self._asked or (now_s < self._asked[0][0] and len(self._asked) <= SESSIONS_MOST):
                break
            self.answers.asked.discard(self._asked.popleft()[1])

    async def _ask(self) -> None:
        answers = self.answers
        # Folds add to both on another thread, so each is copied in one step.
        topics = [*islice(answers.unnamed, ASKED_AT_ONCE)]
        if topics:
            async for topic, name in topic_names(self._client, topics):
                self._keep(answers.names, topic, name, NAMES_MOST)
            for each in topics:
                del answers.unnamed[each]
        groups = [*islice(answers.unasked, ASKED_AT_ONCE)]
        if groups:
            found = await session_limits(self._client, groups)
            for group, limit in found.items():
                self._keep(answers.sessions, group, limit, SESSIONS_MOST)
            until_s = asyncio.get_running_loop().time() + AGAIN_S
            for each in groups:
                answers.asked.add(each)
                self._asked.append((until_s, each))
                del answers.unasked[each]
                if each not in found:
                    self._omit(each)

    def _keep(self, known: dict[_Key, _Value], key: _Key, value: _Value, most: int) -> None:
        """Keep an answer if there is room."""
        if key in known or len(known) < most:
            known[key] = value
            return
        what = "names of topics" if known is self.answers.names else "session timeouts of groups"
        self.requests.drop(what, most)

    def _omit(self, group: str) -> None:
        """Tell of a group that may not be described, or whose brokers do not know such configs."""
        if not self._has_told:
            self._has_told = True
            _log.warning(
                "session timeouts of consumer groups are not known, so fewer ends are told",
                group=group,
                needed="DESCRIBE_CONFIGS on groups, and brokers of Kafka 4.0 or later",
            )
