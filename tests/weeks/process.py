"""A model of a consumer process: joins, syncs, commits at a steady rhythm, rejoins when it is told.

Heartbeats are sent every three seconds while its group is watched, which the script does around
everything that happens. In quiet times they are left out where a commit keeps the session: they
would change nothing and leave nothing in the log.
"""

import asyncio
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from groupkeeper.protocol.embedded import Subscription, TopicPartition, decode_subscription
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.message import Message
from groupkeeper.protocol.messages.api_versions import ApiVersionsRequest
from tests.simulation.consumer import Wire
from tests.support.codecs import encode_subscription
from tests.support.consumer import FORGET, RETRY, Membership, partitions_in, share_of
from tests.weeks.machine import dial
from tests.weeks.plans import ranges, sticky
from tests.weeks.scribe import Generation, Ownership, Refusal, Replacement, Session

if TYPE_CHECKING:
    from tests.weeks.team import Team

BEAT_S = 3.0
TICK_S = 10.0
QUICK_S = (0.05, 0.5)
STALE = {*FORGET, ErrorCode.FENCED_INSTANCE_ID}


class _Line(Wire):
    """Tells when it is cut."""

    def __init__(self, client_id: str, cut: Callable[[], None]) -> None:
        super().__init__(client_id)
        self._cut = cut

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._cut()


class Process(Membership):
    """One consumer, from its start to its end."""

    def __init__(self, team: "Team", number: int, instance: str | None, host: str = "") -> None:
        plan = team.plan
        super().__init__(
            plan.name, instance, plan.session_ms, plan.rebalance_ms, protocol=plan.assignor
        )
        self.team = team
        self.loop = team.loop
        self.random = team.random
        self.scribe = team.scribe
        self.client_id = f"{team.plan.name}-app-{number}"
        self.host = host or f"10.{team.plan.number // 250}.{team.plan.number % 250}.{number + 1}"
        self.software = team.plan.software[number % len(team.plan.software)]
        self.topics = [team.plan.topic]
        self.commit_s = team.plan.commit_s
        """Between two commits; read it only, see `commits_every`."""
        self.is_silent = False
        self.is_zombie = False
        self.poll_s = QUICK_S
        """How long its application takes to come back to poll, and so to rejoin."""
        self.share: list[int] = []
        self.must_join = True
        self.rejoins_as: str | None = None
        """The cause of a round that its next JoinGroup starts; None: it follows one."""
        self.heard_ms = 0
        self.leads = False
        self._sent_join_ms = 0
        self.offsets: dict[int, int] = {}
        self._wire: Wire | None = None
        self._task: asyncio.Task[None] | None = None
        self._nap: asyncio.Future[None] | None = None
        self._session: Session | None = None
        self._owned: list[Ownership] = []
        self._beats_at = self._commits_at = self.loop.time()

    @property
    def instance(self) -> str | None:
        return self.instance_id

    # -- its life ------------------------------------------------------------------------------

    def start(self) -> None:
        first_s = self.random.uniform(0.2, 1) * self.commit_s
        self._commits_at = math.ceil((self.loop.time() + first_s) / TICK_S) * TICK_S
        self.commits_every(self.commit_s)
        self._task = self.loop.create_task(self._run())

    def commits_every(self, seconds: float | None) -> None:
        """Change its rhythm; None is never, and 0 as often as before that."""
        self.is_silent = seconds is None
        self.commit_s = seconds or self.commit_s
        self.scribe.paces.append(
            {
                "group": self.team.plan.name,
                "client_id": self.client_id,
                "from_ms": self.scribe.wall_ms(),
                "pace_ms": 0 if self.is_silent else int(self.commit_s * 1000),
            }
        )

    @property
    def is_steady(self) -> bool:
        return self.generation >= 0 and not self.must_join

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    def wake(self) -> None:
        """Do what is due; while the group is watched, send heartbeats."""
        if self.team.is_watched:
            soon = self.loop.time() + self.random.uniform(0, BEAT_S)
            self._beats_at = min(self._beats_at, soon)
        if self._nap is not None and not self._nap.done():
            self._nap.set_result(None)

    async def leave(self) -> None:
        """Close the consumer: a dynamic member leaves the group, a static one does not."""
        self.stop()
        self._disown()
        if self.instance is None:
            await self.send_leave()
        self.hang_up()

    async def send_leave(self) -> None:
        self.team.trigger("member_left", self, -1)
        reply = await self.call(5, self.leave_request())
        assert not reply.error_code, ErrorCode(reply.error_code)
        self.end("left")

    def crash(self, *, hangs_up: bool = True) -> None:
        """Nothing comes from it any more: the process was killed, or else is paused."""
        self.stop()
        self._disown()
        if hangs_up:
            self.hang_up()
        self.team.gone(self)

    def resume(self) -> None:
        """Go on after a pause."""
        self._task = self.loop.create_task(self._run())

    def hang_up(self) -> None:
        if self._wire is not None and self._wire.transport is not None:
            self._wire.transport.close()
        self._wire = None

    def close(self) -> None:
        """The run is over."""
        self.scribe.ownership += self._owned

    def end(self, how: str, at_ms: int | None = None) -> None:
        """Its membership is over."""
        if self._session is not None:
            self._session.until_ms = self.scribe.wall_ms() if at_ms is None else at_ms
            self._session.how = how
            self._session.heard_ms = self.heard_ms
        self._session = None

    def stop(self) -> None:
        """Nothing comes from it any more."""
        if self._task is not None:
            self._task.cancel()
        self._task = None

    # -- what it does --------------------------------------------------------------------------

    async def _run(self) -> None:
        while not self.is_fenced:
            try:
                await self._connect()
                while not self.is_fenced:
                    await (self._join() if self.must_join else self._consume())
            except ConnectionError:
                await asyncio.sleep(self.random.uniform(0.5, 1.5))

    async def _connect(self) -> None:
        if self._wire is not None and self._wire.transport is not None:
            return
        wire = _Line(self.client_id, self.wake)
        dial(self.loop, wire, self.host)
        self._wire = wire
        name, _, version = self.software.partition(" ")
        request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
        await self.call(3, request)
        self._beats_at = self.loop.time()

    async def call(self, version: int, request: Message) -> Any:
        if self._wire is None or self._wire.transport is None:
            raise ConnectionError("not connected")
        self.heard_ms = self.scribe.wall_ms()
        self.scribe.requests[type(request).__name__] += 1
        return await self._wire.call(version, request)

    async def _consume(self) -> None:
        """Wait for what is due next, and do it."""
        if self._wire is None or self._wire.transport is None:
            raise ConnectionError("cut")
        quiet_s = 0.6 * self.team.plan.session_ms / 1000
        now = self.loop.time()
        if self.team.is_watched:
            self._beats_at = min(self._beats_at, now + BEAT_S)
        due = min(self._beats_at, self._commits_at)
        if due > now:
            self._nap = self.loop.create_future()
            alarm = self.loop.call_at(due, self.wake)
            try:
                await self._nap
            finally:
                alarm.cancel()
            return
        if self._commits_at <= now:
            if self.share and not self.is_silent:
                self._beats_at = now + (BEAT_S if self.team.is_watched else quiet_s)
                await self.commit()
                self._commits_at = self._next_commit()
                return
            self._commits_at = self._next_commit()
        if self._beats_at <= now:
            self._beats_at = now + (BEAT_S if self.team.is_watched else quiet_s)
            await self._heartbeat()

    def _next_commit(self) -> float:
        """Processes commit at the same instants, which makes it cheap: what comes together is
        written together.
        """
        due = max(self._commits_at + self.commit_s, self.loop.time() + 0.5 * self.commit_s)
        return round(due / TICK_S) * TICK_S

    async def _heartbeat(self) -> None:
        reply = await self.call(4, self.heartbeat_request())
        self._heed("Heartbeat", reply.error_code)
        if reply.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            await self._come_back()

    async def _come_back(self) -> None:
        """The application returns to poll; meanwhile its other thread sends heartbeats."""
        delay = self.random.uniform(*self.poll_s)
        while delay > 0:
            await asyncio.sleep(min(BEAT_S, delay))
            delay -= BEAT_S
            if delay > 0:
                code = (await self.call(4, self.heartbeat_request())).error_code
                if code != ErrorCode.REBALANCE_IN_PROGRESS:
                    self._heed("Heartbeat", code)
                    if code in STALE:
                        await asyncio.sleep(max(0.0, delay))
                        return
        self.must_join = True

    def _heed(self, api: str, error: int) -> None:
        code = ErrorCode(error)
        if code in STALE:
            self.scribe.refusals.append(
                Refusal(
                    self.team.plan.name,
                    self.client_id,
                    self.host,
                    self.member_id,
                    api,
                    code.name,
                    self.scribe.wall_ms(),
                )
            )
            if self.is_zombie:
                return
            self._disown()
            if code is ErrorCode.UNKNOWN_MEMBER_ID and self._session is not None:
                self.team.left_out(self)
            if code is ErrorCode.FENCED_INSTANCE_ID:
                self.is_fenced = True
            else:
                self.must_join, self.generation = True, -1
                if code is ErrorCode.UNKNOWN_MEMBER_ID:
                    self.member_id = ""
        else:
            assert code in {ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS, *RETRY}, code

    # -- joining -------------------------------------------------------------------------------

    async def _join(self) -> None:
        if not self.team.plan.is_cooperative:
            self._disown()
        if self.rejoins_as is not None and self.member_id:
            self.team.trigger(self.rejoins_as, self, 0)
        self.rejoins_as = None
        joined = await self._send_join()
        if joined is None:
            return
        number, now = joined.generation_id, self.scribe.wall_ms()
        generation = self.scribe.generation(self.team.plan.name, self.team.era, number)
        self.leads = bool(joined.members)
        if generation.ended_ms is None:  # else it was replaced without a round
            generation.join_ended_ms = generation.join_ended_ms or now
            generation.joins[self.client_id] = self._sent_join_ms
        await self._sync(joined, generation)

    async def _send_join(self) -> Any:
        """The answer; None if there is no generation in it."""
        plan = self.team.plan
        owned = [TopicPartition(topic=plan.topic, partitions=list(self.share))]
        subscription = Subscription(
            version=1,
            topics=self.topics,
            owned_partitions=owned if plan.is_cooperative and self.share else [],
        )
        self.metadata = encode_subscription(subscription)
        if not self.member_id:
            if self.instance is None:
                first = await self.call(9, self.join_request())
                if first.error_code in RETRY:
                    await asyncio.sleep(0.1)
                    return None
                assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED, first.error_code
                self.member_id = first.member_id
            is_known = self.team.coming(self)
        else:
            is_known = True
        self._sent_join_ms = self.scribe.wall_ms()
        joined = await self.call(9, self.join_request())
        if joined.error_code:
            self._heed("JoinGroup", joined.error_code)
            if joined.error_code in RETRY | {ErrorCode.REBALANCE_IN_PROGRESS}:
                await asyncio.sleep(0.1)
            return None
        self._note_session(joined, is_known)
        return joined

    def _note_session(self, joined: Any, is_known: bool) -> None:
        if self._session is None or self._session.member != joined.member_id:
            plan = self.team.plan
            self.team.met(self, joined.member_id, is_known)
            self._session = Session(
                plan.name,
                self.client_id,
                self.host,
                self.software,
                self.instance,
                joined.member_id,
                self._sent_join_ms,
                self.instance is not None,
            )
            self.scribe.sessions.append(self._session)
        self.member_id = joined.member_id

    async def _sync(self, joined: Any, generation: Generation) -> None:
        plan = self.team.plan
        request = self.sync_request(self._assign(joined))
        request.generation_id = joined.generation_id
        synced = await self.call(5, request)
        if synced.error_code:
            self._heed("SyncGroup", synced.error_code)
            self.must_join = True
            return
        if self.client_id in generation.joins:
            generation.ended_ms = generation.ended_ms or self.scribe.wall_ms()
        share = partitions_in(synced.assignment)
        generation.shares[self.client_id] = len(share)
        self._take(share, generation)
        quiet_s = 0.6 * plan.session_ms / 1000
        self._beats_at = self.loop.time() + (BEAT_S if self.team.is_watched else quiet_s)

    def _take(self, share: list[int], generation: Generation) -> None:
        revoked = [one for one in self.share if one not in share]
        self.generation, self.must_join = generation.number, False
        self._disown(revoked)
        generation.revoked += len(revoked)
        for one in share:
            if one not in self.share:
                self._owned.append(
                    Ownership(
                        self.team.plan.name,
                        self.team.plan.topic,
                        one,
                        self.client_id,
                        self.member_id,
                        self.scribe.wall_ms(),
                    )
                )
        self.share = share
        if revoked:  # KIP-429: who gave something up asks for another round
            self.must_join, self.rejoins_as = True, "member_rejoined"

    def _assign(self, joined: Any) -> dict[str, bytes]:
        plan = self.team.plan
        if not joined.members or joined.skip_assignment:
            return {}
        if plan.is_cooperative:
            owned = {
                each.member_id: [
                    one
                    for topic in decode_subscription(each.metadata).owned_partitions
                    for one in topic.partitions
                ]
                for each in joined.members
            }
            shares = sticky(owned, plan.partitions)
        else:
            shares = ranges([each.member_id for each in joined.members], plan.partitions)
        return {who: share_of(plan.topic, share) for who, share in shares.items()}

    def _disown(self, partitions: list[int] | None = None) -> None:
        """It does not consume these any more; by default all."""
        now = self.scribe.wall_ms()
        kept = []
        for each in self._owned:
            if partitions is None or each.partition in partitions:
                each.until_ms = now
                self.scribe.ownership.append(each)
            else:
                kept.append(each)
        self._owned = kept
        self.share = [each.partition for each in kept]

    # -- commits -------------------------------------------------------------------------------

    async def commit(self) -> None:
        """Every partition further by what has come since; what is refused is noted."""
        plan, ends = self.team.plan, self.team.ends
        places = {}
        for one in self.share:
            ends[one] += max(1, int(self.random.uniform(0.8, 1.2) * plan.rate * self.commit_s))
            places[plan.topic, one] = ends[one]
        reply = await self.call(8, self.commit_request(places))
        results = reply.topics[0].partitions
        code = results[0].error_code
        if code == ErrorCode.NONE:
            if self._session is not None:
                self._session.last_commit_ms = self.scribe.wall_ms()
            hour = self.scribe.wall_ms() // 3_600_000 * 3_600_000
            for each in results:
                self.scribe.commits[plan.name, self.client_id, each.partition_index, hour] += 1
        else:
            self._heed("OffsetCommit", code)
            if code == ErrorCode.REBALANCE_IN_PROGRESS:
                await self._come_back()

    def replaced_by(self, member: str, client: "Process") -> None:
        """Another process has its instance id now, or it has come back with a new member id."""
        self.scribe.replacements.append(
            Replacement(
                self.team.plan.name,
                self.instance or "",
                client.client_id,
                client.host,
                self.scribe.wall_ms(),
                self.member_id,
                member,
            )
        )
        self.end("replaced")
