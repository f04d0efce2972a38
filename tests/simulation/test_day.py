"""A few hours of two groups, with small segments: the disk stays small, and so does a start."""

from dataclasses import replace

from tests.simulation.day import MIB, Day, Look

HOURS = 3
SEGMENT_BYTES = 128 * 1024
JOURNAL_BYTES = 2 * MIB
MEMBERS = (2, 3)


def test_the_disk_and_a_start_do_not_grow_with_the_hours() -> None:
    day = Day(7, SEGMENT_BYTES, MEMBERS, JOURNAL_BYTES)
    day.begin()
    hours = day.hours(HOURS)
    next(hours)
    first = day.start()
    for _ in hours:
        pass
    last = day.start()
    day.end()
    assert day.answers > HOURS * 3600
    assert [look for look in day.looks if not day.is_small(look)] == []
    assert max(look.active for look in day.looks) < 3 * SEGMENT_BYTES  # the clerk's log is small
    # How many bytes are read does not depend on how busy the machine is, as the seconds do.
    more = max(0, last.stored - first.stored)
    assert last.read <= first.read + 2 * more + SEGMENT_BYTES
    assert last.read < 6 * MIB < first.read * HOURS


def test_a_look_tells_what_is_too_much() -> None:
    day = Day(7, SEGMENT_BYTES, MEMBERS, JOURNAL_BYTES)
    look = Look(live=100, closed=300, fresh=9, active=9, journals=6 * MIB, archive=0)
    assert day.is_small(look)
    assert not day.is_small(replace(look, closed=301))
    assert not day.is_small(replace(look, journals=6 * MIB + 1))
