"""What-if against what is: consumers are restarted one after the other on the production server
under virtual time, and the log of that is replayed with instance ids, with other sessions and with
places that are kept. Then the same is done for real with each of these settings.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from groupkeeper.analytics.pipeline.output import table_of
from groupkeeper.analytics.schemas import TABLES
from groupkeeper.analytics.what_if.scenarios import (
    AS_IT_WAS,
    GRACE,
    SCALE_WINDOW,
    SESSION,
    SPARE,
    STATIC,
    STATIC_SESSION,
    STEPS,
)
from tests.analytics.replayed import replayed_of
from tests.weeks.analysed import tables_of
from tests.weeks.team import Team, TeamPlan
from tests.weeks.weeks import Size, Weeks, quiet

MEMBERS = 20
SESSIONS_MS = (10_000, 30_000, 60_000, 120_000)
AWAY_S = (*range(15, 25, 2), *(39 + 0.25 * each for each in range(7)), *range(70, 110, 5))
"""How long each member is away. None as long as a session, give or take a heartbeat and a round:
there it is chance whether one round has ended when the next begins.
"""
SIZE = Size(groups=0, days=0, seed=3, partitions=1)
PLAN = TeamPlan(
    number=0,
    name="billing",
    topic="orders",
    partitions=40,
    members=MEMBERS,
    session_ms=45_000,
    rebalance_ms=300_000,
    commit_s=20.0,
    rate=1.0,
    is_static=False,
    is_cooperative=False,
    software=("apache-kafka-java 3.9.1",),
)


Tables = Mapping[str, Any]
Rounds = dict[tuple[str, int | None], int]
"""How many, by scenario and value; and by RECORDED."""
RECORDED = ("recorded", None)


class RollingRestart(Weeks):
    """One group; each member is away for a time of its own."""

    def __init__(self, folder: Path, plan: TeamPlan, *settings: str, kills: bool) -> None:
        super().__init__(SIZE, folder, *settings)
        self.team = Team(plan, self.loop, self.scribe, SIZE.seed)
        self.teams = [self.team]
        self._kills = kills

    async def _run(self, progress: object = None) -> None:
        await self._start()
        await self._make_topics()
        team = self.team
        await team.begin()
        await team.watch()
        await self._play()
        await self._stop("stopped")
        team.close()

    async def _play(self) -> None:
        team = self.team
        for process, away_s in zip(team.processes[:MEMBERS], AWAY_S, strict=True):
            if self._kills:
                process.crash()
            else:
                await process.leave()
            await asyncio.sleep(away_s)
            await team.again(process)
            expires_s = max(SESSIONS_MS) / 1000 - away_s if self._kills else 0
            await asyncio.sleep(expires_s + 30)

    @property
    def unread_ms(self) -> int:
        """Partition-time in which no process had the partition, by what the processes say."""
        owned, end_ms = self.scribe.ownership, self.scribe.wall_ms()
        begin_ms = min(each.from_ms for each in owned)
        had_ms = sum((each.until_ms or end_ms) - each.from_ms for each in owned)
        return self.team.plan.partitions * (end_ms - begin_ms) - had_ms


def lived(folder: Path, plan: TeamPlan, *settings: str, kills: bool) -> Tables:
    """The tables of a run, with the timeouts that group records tell."""
    return run_and_read(RollingRestart(folder, plan, *settings, kills=kills), folder)


def run_and_read(run: RollingRestart, folder: Path) -> Tables:
    plan = run.team.plan
    with quiet():
        run.run()
    tables = tables_of(folder)
    told = {each.name: None for each in TABLES["members"].columns} | {
        "session_timeout_ms": plan.session_ms,
        "rebalance_timeout_ms": plan.rebalance_ms,
    }
    rows = tables["sessions"].select(["group", "member"]).to_pylist()
    return tables | {"members": table_of("members", [told | row for row in rows])}


def rounds_of(tables: Tables) -> int:
    return len(tables["rounds"])


def replayed(tables: Tables) -> Rounds:
    rows = replayed_of(tables)
    found = {(row["scenario"], row["value"]): row["rounds"] for row in rows}
    return found | {RECORDED: rounds_of(tables)}


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Rounds:
    """Dynamic members that leave when they are restarted."""
    return replayed(lived(tmp_path_factory.mktemp("left"), PLAN, kills=False))


def row_of(tables: Tables, scenario: str, value: int | None) -> dict[str, Any]:
    rows = replayed_of(tables)
    return next(row for row in rows if (row["scenario"], row["value"]) == (scenario, value))


@pytest.fixture(scope="module")
def killed_tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return lived(tmp_path_factory.mktemp("killed"), PLAN, kills=True)


@pytest.fixture(scope="module")
def killed(killed_tables: Tables) -> Rounds:
    """Dynamic members that are killed, and started anew."""
    return replayed(killed_tables)


def test_a_rolling_restart_as_static_members_is_what_it_would_have_been(
    left: Rounds, tmp_path: Path
) -> None:
    assert left[AS_IT_WAS, None] == left[RECORDED] == 1 + 2 * MEMBERS
    real = lived(tmp_path, replace(PLAN, is_static=True), kills=False)
    assert left[STATIC, None] == rounds_of(real) < MEMBERS


@pytest.mark.parametrize("session_ms", SESSIONS_MS)
def test_other_sessions_of_static_members(left: Rounds, tmp_path: Path, session_ms: int) -> None:
    """The curve goes through four points."""
    static = replace(PLAN, is_static=True, session_ms=session_ms)
    assert left[STATIC_SESSION, session_ms] == rounds_of(lived(tmp_path, static, kills=False))


@pytest.mark.parametrize("session_ms", SESSIONS_MS)
def test_other_sessions_of_members_that_are_killed(
    killed: Rounds, tmp_path: Path, session_ms: int
) -> None:
    assert killed[AS_IT_WAS, None] == killed[RECORDED]
    real = lived(tmp_path, replace(PLAN, session_ms=session_ms), kills=True)
    assert killed[SESSION, session_ms] == rounds_of(real)


def close_to(unread_ms: int) -> Any:
    return pytest.approx(unread_ms, rel=0.1)


def unread_of(told: dict[str, Any]) -> int:
    """Without pauses: the processes of a run make none, and are silent for a while all the same."""
    unread_ms: int = told["unread_ms"] - told["paused_ms"]
    return unread_ms


@pytest.mark.parametrize("grace_ms", [10_000, 60_000])
def test_places_that_are_kept(killed_tables: Tables, tmp_path: Path, grace_ms: int) -> None:
    """A log without them tells what they would have made of it, in rebalances and time unread; and
    so does the log of a group that has them.
    """
    setting = f"group.classic.scheduled.rebalance.max.delay.ms={grace_ms}"
    real = RollingRestart(tmp_path, PLAN, setting, kills=True)
    tables = run_and_read(real, tmp_path)
    for read in (killed_tables, tables):
        told = row_of(read, GRACE, grace_ms)
        assert told["rounds"] == rounds_of(tables)
        assert unread_of(told) == close_to(real.unread_ms)
    assert rounds_of(tables) < rounds_of(killed_tables)


def test_a_spare_member(killed_tables: Tables, tmp_path: Path) -> None:
    more = replace(PLAN, members=MEMBERS + 1)
    setting = f"group.classic.target.group.size={MEMBERS}"
    real = RollingRestart(tmp_path, more, setting, kills=True)
    tables = run_and_read(real, tmp_path)
    told = row_of(killed_tables, SPARE, None)
    assert told["rounds"] == rounds_of(tables) == 1
    assert told["asks"] == MEMBERS
    assert unread_of(told) == close_to(real.unread_ms)


def test_an_assignment_in_steps(killed_tables: Tables, tmp_path: Path) -> None:
    settings = "group.classic.remote.assignor=uniform", "group.classic.rebalance.step.partitions=5"
    real = RollingRestart(tmp_path, PLAN, *settings, kills=True)
    told = row_of(killed_tables, STEPS, None)
    assert told["rounds"] == rounds_of(run_and_read(real, tmp_path)) == 1
    assert unread_of(told) == close_to(real.unread_ms)


class ScaleUp(RollingRestart):
    """Twenty more come within ten seconds."""

    async def _play(self) -> None:
        for _ in range(MEMBERS):
            process = self.team.new()
            self.team.processes.append(process)
            process.start()
            await self.team.waits(0.5, 0.5)
        await self.team.waits(90, 90)


def test_a_scale_window(tmp_path: Path) -> None:
    off = ScaleUp(tmp_path / "off", PLAN, kills=False)
    tables = run_and_read(off, tmp_path / "off")
    real = ScaleUp(tmp_path / "on", PLAN, "group.classic.scale.up.window.ms=10000", kills=False)
    told = row_of(tables, SCALE_WINDOW, 10_000)
    assert told["rounds"] == rounds_of(run_and_read(real, tmp_path / "on")) == 2
    assert told["rounds_avoided"] > 0
    assert told["unread_saved_ms"] > 0
    assert real.unread_ms < off.unread_ms


def test_as_many_partitions_move(tmp_path: Path) -> None:
    tables = lived(tmp_path, PLAN, kills=False)
    moved = sum(row["moved"] or 0 for row in tables["rounds"].to_pylist())
    assert row_of(tables, AS_IT_WAS, None)["moved"] == moved > 0
