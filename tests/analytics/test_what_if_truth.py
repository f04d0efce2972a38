"""What-if against what is: consumers are restarted one after the other on the production server
under virtual time, and the log of that is replayed with instance ids and with other sessions. Then
the same is done for real with each of these settings.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from groupkeeper.analytics.pipeline.output import table_of
from groupkeeper.analytics.schemas import TABLES
from groupkeeper.analytics.what_if.scenarios import AS_IT_WAS, SESSION, STATIC, STATIC_SESSION
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

    def __init__(self, folder: Path, plan: TeamPlan, *, kills: bool) -> None:
        super().__init__(SIZE, folder)
        self.team = Team(plan, self.loop, self.scribe, SIZE.seed)
        self.teams = [self.team]
        self._kills = kills

    async def _run(self, progress: object = None) -> None:
        await self._start()
        await self._make_topics()
        team = self.team
        await team.begin()
        await team.watch()
        for process, away_s in zip(list(team.processes), AWAY_S, strict=True):
            if self._kills:
                process.crash()
            else:
                await process.leave()
            await asyncio.sleep(away_s)
            await team.again(process)
            expires_s = max(SESSIONS_MS) / 1000 - away_s if self._kills else 0
            await asyncio.sleep(expires_s + 30)
        await self._stop("stopped")


def lived(folder: Path, plan: TeamPlan, *, kills: bool) -> Tables:
    """The tables of a run, with the timeouts that group records tell."""
    with quiet():
        RollingRestart(folder, plan, kills=kills).run()
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


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Rounds:
    """Dynamic members that are killed, and started anew."""
    return replayed(lived(tmp_path_factory.mktemp("killed"), PLAN, kills=True))


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
