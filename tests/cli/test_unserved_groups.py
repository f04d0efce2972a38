"""`groupkeeper groups` while a partition of `__consumer_offsets` is damaged."""

import asyncio
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from groupkeeper.cli import main
from groupkeeper.protocol.placement import partition_of
from tests.support.populated import commit
from tests.support.process import Process, Ready
from tests.support.served import groups_apart

BAD, GOOD = groups_apart(2, 2)
NUMBER = partition_of(BAD, 2)
MISSING = (
    f"groupkeeper: the groups of partition {NUMBER} of __consumer_offsets are missing: no node "
    "serves 1 of its 2 partitions; `groupkeeper status` says why\n"
)
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ready]:
    """Two groups, one of them in a partition whose log cannot be read."""
    data = tmp_path_factory.mktemp("damaged") / "data"
    started = ("--data-dir", str(data), "--http", "127.0.0.1:0")
    started += ("--set", "offsets.topic.num.partitions=2", "--topic", "orders:20")
    with Process(*started) as process:
        _, bootstrap = at(process.ready())
        for group in (BAD, GOOD):
            for _ in range(3):
                offsets = {("orders", each): 0 for each in range(20)}
                asyncio.run(commit(bootstrap, group, offsets))
        process.stop()
    damage(data)
    with Process(*started) as process:
        yield process.ready()


def damage(data: Path) -> None:
    log = data / f"__consumer_offsets-{NUMBER}" / "00000000000000000000.log"
    content = bytearray(log.read_bytes())
    content[70] ^= 255
    log.write_bytes(content)


def at(ready: Ready) -> tuple[str, str]:
    host, port = ready.kafka
    return "--bootstrap-server", f"{host}:{port}"


@pytest.mark.parametrize("words", ["list", "describe --all-groups", "describe --group-regex .*"])
def test_a_list_that_has_gaps_says_so_and_ends_with_1(
    words: str, damaged: Ready, capsys: Capture
) -> None:
    assert main(["groups", *words.split(), *at(damaged)]) == 1
    out, err = capsys.readouterr()
    assert GOOD in out and BAD not in out
    assert MISSING in err


def test_a_group_that_is_not_served_is_refused_at_once(damaged: Ready, capsys: Capture) -> None:
    assert main(["groups", "describe", "--group", BAD, *at(damaged)]) == 1
    assert capsys.readouterr().err == (
        f"groupkeeper: FindCoordinator: COORDINATOR_NOT_AVAILABLE (group '{BAD}': "
        f"partition {NUMBER} of __consumer_offsets is not served: `groupkeeper status` says why)\n"
    )


def test_one_that_is_served_is_shown_as_ever(damaged: Ready) -> None:
    assert main(["groups", "describe", "--group", GOOD, *at(damaged)]) == 0


def test_what_the_server_says_of_it(damaged: Ready) -> None:
    with urllib.request.urlopen(f"http://{damaged.http}/status") as answer:
        [row] = json.load(answer)["not_active"]
    assert (row["partition"], row["state"]) == (NUMBER, "closed")
