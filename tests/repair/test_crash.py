"""A crash at every file-system call of a repair: nothing that was readable is lost, no original is
gone, and the next repair finishes it.
"""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from groupkeeper.repair.logs import LIMITS, DirectoryLogs, RepairTarget
from groupkeeper.topics.catalog_log import FOLDERS as CATALOG
from groupkeeper.topics.catalog_log import CatalogFolders
from tests.support.damaged import SETTINGS, files_in, live, live_on, looked, repaired
from tests.support.fake_files import Crash, FakeDisk, FakeFiles
from tests.support.served import Served
from tests.support.stored import segment_paths, values_in, write_file

DAMAGED = ("__consumer_offsets-0", "__consumer_offsets-1", "orders-0", "payments-2")


@pytest.fixture(scope="module")
def damaged() -> Iterator[FakeDisk]:
    """Damage of every kind, after a kill."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("groupkeeper.storage.journal.journal.AHEAD_BYTES", 8_000)
        served = Served(*SETTINGS)
        live(served)
        served.stop()
        served.start()
        served.settled()
        live_on(served, flushes=6)
        served.machine.kill()
    disk = served.disk
    disk.write_back()
    for name in DAMAGED[:3]:
        disk.flip(segment_paths(disk, name)[0], 700)
    FakeFiles(disk).remove(segment_paths(disk, DAMAGED[1])[1])
    disk.remove(f"data/{DAMAGED[3]}")
    write_file(disk, f"data/{DAMAGED[2]}/log-start-offset-checkpoint", b"odd")
    for name in CATALOG:
        write_file(disk, segment_paths(disk, name)[0], bytes(60), 100)
    disk.flip("data/format", 5)
    disk.write_back()
    yield disk
    served.close()


def contents(disk: FakeDisk) -> dict[str, Any]:
    """All that can be read: every record of every log, the catalog."""
    files = FakeFiles(deepcopy(disk))
    logs = DirectoryLogs(files, RepairTarget("data", served=True))
    found: dict[str, Any] = {}
    for name in logs.names():
        log = logs.open(name)
        found[name] = log.start_offset, values_in(log)
        log.close()
    logs.close()
    catalog = CatalogFolders(files, "data", LIMITS, lambda what: None, must_exist=True).open()
    found["catalog"] = b"".join(catalog.batches())
    catalog.close()
    return found


def originals(disk: FakeDisk) -> dict[str, bytes]:
    """The files that a repair may change, by path."""
    folders = (*DAMAGED[:3], *CATALOG, "journals")
    paths = [*files_in(disk, *folders), "data/format", "data/folders"]
    return {path: disk.contents(path) for path in paths}


def kept(disk: FakeDisk, path: str, data: bytes) -> bool:
    """Whether a file is as it was, where it was or in a folder of originals."""
    below = [f"data/{name}" for name in disk.children("data") if name.startswith("repaired-")]
    places = [path, *(path.replace("data", folder, 1) for folder in below)]
    return any(disk.has(place) and disk.contents(place) == data for place in places)


PARTS = 8
"""A test for every eighth call: a loaded machine has time enough for each."""


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("mode", ["kill", "lose", "tear"])
def test_a_crash_anywhere_loses_neither_originals_nor_what_is_readable(
    damaged: FakeDisk, mode: str, part: int
) -> None:
    before = originals(damaged)
    whole = deepcopy(damaged)
    repaired(whole)
    assert not looked(whole).is_damaged
    wanted = contents(whole)
    calls = whole.calls - damaged.calls
    assert calls > 200
    for call in range(1 + part, calls + 1, PARTS):
        disk = deepcopy(damaged)
        disk.crash_at = disk.calls + call
        with pytest.raises(Crash):
            repaired(disk)
        disk.revive() if mode == "kill" else disk.power_cut(mode, seed=call)
        at = disk.trace[-1]
        assert [path for path, data in before.items() if not kept(disk, path, data)] == [], at
        repaired(disk)
        assert not looked(disk).is_damaged, at
        assert [path for path, data in before.items() if not kept(disk, path, data)] == [], at
        found = contents(disk)
        for name in wanted.keys() - {"catalog"}:
            assert found[name] == wanted[name], f"{name} after {at}"
