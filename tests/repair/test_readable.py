"""What a survey says is readable is what a server serves after the repair: at random damages."""

from collections.abc import Callable
from random import Random

import pytest

from groupkeeper.protocol.placement import partition_of
from groupkeeper.repair.logs import is_of_groups
from groupkeeper.repair.survey import Survey
from groupkeeper.topics.names import EVENT_TOPIC
from tests.support.damaged import (
    GROUPS,
    PARTITIONS,
    SETTINGS,
    Seen,
    commit_late,
    compact,
    files_in,
    live,
    live_on,
    looked,
    repaired,
    seen,
    spoil,
)
from tests.support.served import Served

LOGS = [f"__consumer_offsets-{number}" for number in range(PARTITIONS)] + ["orders-0", "payments-2"]


@pytest.fixture(autouse=True)
def fewer_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groupkeeper.storage.journal.journal.AHEAD_BYTES", 8_000)


def check(found: Survey, served: Seen) -> None:
    """Every log holds what the survey says, whether it was damaged or not."""
    contents = found.sound | {log.name: log.contents for log in found.logs if log.contents}
    for name, what in contents.items():
        if is_of_groups(name):
            index = int(name.rpartition("-")[2])
            groups = [
                each
                for id_, each in served.groups.items()
                if partition_of(id_, PARTITIONS) == index
            ]
            offsets = sum(len(offsets) for _, offsets in groups)
            members = sum(members for members, _ in groups)
            assert (what.groups, what.members, what.offsets) == (len(groups), members, offsets), (
                name
            )
        else:
            topic, _, index_text = name.rpartition("-")
            if topic == EVENT_TOPIC:  # the server itself writes to it, later, too
                continue
            offsets_seen = served.messages.get((topic, int(index_text)), [])
            assert what.records == len(offsets_seen), name


def spoilt(served: Served, random: Random) -> bool:
    """Damage one to three files; returns whether a journal is among them."""
    paths = []
    for _ in range(random.randrange(1, 4)):
        paths.append(random.choice(files_in(served.disk, *LOGS, "journals", "leases")))
        how = random.choice(["flip", "cut", "zero", "remove"])
        spoil(served.disk, paths[-1], how, random)
    return any("journals" in path for path in paths)


@pytest.mark.parametrize("seed", range(80))
def test_what_is_said_to_be_readable_is_served_after_the_repair(
    serve: Callable[..., Served], seed: int
) -> None:
    random = Random(seed)
    served = serve(*SETTINGS)
    live(served)
    if seed % 2:
        compact(served)
        live_on(served, flushes=10)
    end = random.choice(["stop", "kill", "power"])
    if end != "stop":
        commit_late(served, 77)
    before = seen(served)
    served.stop() if end == "stop" else served.machine.kill()
    if end == "power":
        served.disk.power_cut("keep")
    journal_spoilt = spoilt(served, random)
    found = looked(served.disk)
    again, originals = repaired(served.disk)
    assert (again.logs, again.sound) == (found.logs, found.sound)
    assert bool(originals) == found.is_damaged
    assert [log.refused for log in looked(served.disk).logs] == []
    served.start()
    served.settled()
    now = seen(served)
    check(found, now)
    if end == "stop" or not journal_spoilt:  # the end of a journal may be lost unnoticed
        check_losses(found, before, now, tails=end != "stop")
    assert served.client().commit(99, GROUPS[0]) == 0


def check_losses(found: Survey, before: Seen, now: Seen, *, tails: bool) -> None:
    """What is missing is said to be lost: only logs with losses have other offsets than before.

    With `tails`, messages at the end of a topic's log may be missing: a crash cannot be told from
    damage there.
    """
    lossy = {log.name for log in found.logs if any(each.end != each.first for each in log.losses)}
    for group_id, (_, offsets) in before.groups.items():
        if f"__consumer_offsets-{partition_of(group_id, PARTITIONS)}" not in lossy:
            assert now.groups[group_id][1] == offsets
    for log in found.logs:
        if not is_of_groups(log.name) and log.contents is not None:
            topic, _, index = log.name.rpartition("-")
            place = topic, int(index)
            missing = {*before.messages[place]} - {*now.messages.get(place, [])}
            ends = [(loss.first, loss.end or 1 << 20) for loss in log.losses]
            ends += [(log.contents.end, 1 << 20)] if tails else []
            assert all(any(first <= n < end for first, end in ends) for n in missing)
