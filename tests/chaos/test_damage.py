"""The damage harness itself: what a verdict rests on, and a few damages from end to end.

A hundred times as many are tried by `make chaos ARGS=damage`.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.chaos.damage.bases import RECIPES, Base, make
from tests.chaos.damage.harm import (
    CATALOG,
    CUT,
    EARLIER,
    FLIP,
    FOLDER,
    INDEX,
    JOURNAL,
    LAST,
    LOCKS,
    OTHER,
    REMOVED,
    TOPIC_LAST,
    ZEROS,
    Damage,
    done,
    draw,
    place_of,
)
from tests.chaos.damage.outcome import (
    CHECKSUM,
    NOTICED,
    RECOVERED,
    REFUSED,
    SILENT,
    TAIL,
    TOO_MUCH,
    UNNAMED,
    _of_all,
    judge,
    tried,
)
from tests.chaos.damage.truth import Look, Loss

pytestmark = pytest.mark.xdist_group("damage")  # the directories are made once

LOG = "__consumer_offsets-3"
FILE = f"{LOG}/00000000000000000000.log"
FLIPPED = Damage(FLIP, LAST, FILE, 100, "bit 1 of byte 100 flipped", 101, 500)
LOST = Look(losses=[Loss(LOG, "g orders-0: 1, acknowledged 2")])
NOT_SERVED = Look(refused={LOG})
CLEAR = f"data/{FILE}: the batch at byte 100 is damaged: restore the file, or lose them with ..."


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bool], Base]:
    """A directory after a kill and one after a clean stop, made when they are first asked for."""
    made: dict[bool, Base] = {}

    def base(killed: bool) -> Base:
        if killed not in made:
            [recipe] = [each for each in RECIPES if each.lives == [(0, killed)]]
            made[killed] = make(recipe, tmp_path_factory.mktemp("base") / "made", Random(1))
        return made[killed]

    return base


@pytest.mark.parametrize("killed", [True, False], ids=["killed", "stopped"])
def test_a_directory_without_damage_has_all_that_was_promised(
    bases: Callable[[bool], Base], killed: bool, tmp_path: Path
) -> None:
    base = bases(killed)
    assert base.truth.acknowledgements > 20
    assert len(list(base.data.glob("__consumer_offsets-*/*.log"))) > 5
    shutil.copytree(base.data, tmp_path / "data")
    assert tried(base, None, tmp_path).words == ""


GOOD = [
    (True, JOURNAL, CUT, {RECOVERED, TAIL, NOTICED}),
    (True, LAST, FLIP, {RECOVERED, REFUSED}),
    (True, LAST, ZEROS, {RECOVERED}),
    (True, LAST, CUT, {RECOVERED}),
    (True, LAST, REMOVED, {RECOVERED, REFUSED}),
    (True, EARLIER, FLIP, {REFUSED}),
    (True, CATALOG, REMOVED, {RECOVERED}),
    (True, INDEX, FLIP, {RECOVERED}),
    (True, LOCKS, REMOVED, {RECOVERED}),
    (False, JOURNAL, FLIP, {RECOVERED, REFUSED, NOTICED}),
    (False, JOURNAL, REMOVED, {RECOVERED, REFUSED, NOTICED}),
    (False, LAST, CUT, {RECOVERED, REFUSED}),
    (False, LAST, ZEROS, {RECOVERED, REFUSED}),
    (False, LAST, REMOVED, {REFUSED}),
    (False, EARLIER, REMOVED, {REFUSED}),
    (False, FOLDER, REMOVED, {REFUSED, NOTICED}),
    (False, TOPIC_LAST, FLIP, {RECOVERED, REFUSED, NOTICED}),
    (False, CATALOG, ZEROS, {RECOVERED}),
    (False, INDEX, CUT, {RECOVERED}),
    (False, INDEX, REMOVED, {RECOVERED}),
]


@pytest.mark.parametrize(("killed", "place", "kind", "verdicts"), GOOD)
def test_what_a_damage_may_come_to(
    bases: Callable[[bool], Base],
    killed: bool,
    place: str,
    kind: str,
    verdicts: set[str],
    tmp_path: Path,
) -> None:
    base = bases(killed)
    shutil.copytree(base.data, tmp_path / "data")
    damage = done(tmp_path / "data", place, kind, Random(5))
    assert damage is not None
    outcome = tried(base, damage, tmp_path)
    assert outcome.verdict in verdicts, f"{damage}: {outcome}"


def judged(seen: Look, *lines: str, killed: bool = False, damage: Damage = FLIPPED) -> str:
    return judge(killed, damage, seen, lines).verdict


def test_a_loss_is_silent_unless_a_line_names_the_file_and_how_much() -> None:
    assert judged(LOST) == SILENT
    assert judged(LOST, f"{FILE}: cut") == SILENT
    assert judged(LOST, "another/file.log: cut, 100 bytes") == SILENT
    assert judged(LOST, f"{FILE}: cut at byte 100, 20 bytes, offsets from 7") == NOTICED


def test_a_refusal_names_file_and_remedy_and_stays_with_the_damage() -> None:
    assert judged(NOT_SERVED, CLEAR) == REFUSED
    assert judged(NOT_SERVED, f"{FILE}: the batch at byte 100 is damaged") == UNNAMED
    assert judged(NOT_SERVED) == UNNAMED
    assert judged(Look(refused={LOG, "__consumer_offsets-4"}), CLEAR) == TOO_MUCH


@pytest.mark.parametrize(
    ("place", "path", "allowed"),
    [
        (CATALOG, "catalog/00000000000000000000.log", True),
        (OTHER, "format", True),
        (OTHER, f"{LOG}/manifest", False),
        (JOURNAL, "journals/0-1-aa", False),
        (LAST, FILE, False),
    ],
)
def test_a_start_is_refused_for_what_everything_depends_on_alone(
    place: str, path: str, allowed: bool
) -> None:
    assert _of_all(Damage(FLIP, place, path)) is allowed


def test_a_loss_outweighs_a_refusal() -> None:
    assert judged(Look(losses=LOST.losses, refused={"orders-0"})) == SILENT


def test_nothing_lost_is_recovered_and_a_wrong_checksum_is_told() -> None:
    assert judged(Look()) == RECOVERED
    assert judged(Look(checksums=[Loss("orders-0", "checksum", 3)])) == CHECKSUM


@pytest.mark.parametrize(
    ("place", "path", "killed", "at", "verdict"),
    [
        (JOURNAL, "journals/0-1-aa", True, 500, TAIL),
        (JOURNAL, "journals/0-1-aa", True, 400, SILENT),
        (JOURNAL, "journals/0-1-aa", False, 500, SILENT),
        (TOPIC_LAST, "orders-0/0.log", True, 500, TAIL),
        (LAST, FILE, True, 500, SILENT),
        (CATALOG, "catalog/0.log", True, 500, SILENT),
    ],
)
def test_only_the_last_round_of_a_journal_and_the_end_of_a_topic_may_be_missing_after_a_kill(
    place: str, path: str, killed: bool, at: int, verdict: str
) -> None:
    damage = Damage(FLIP, place, path, at, "", at + 1, tail=500)
    lost = Look(losses=[Loss("orders-0", "record 9 of orders-0 is gone", 9)])
    assert judged(lost, killed=killed, damage=damage) == verdict


def test_the_same_seed_damages_the_same_place(tmp_path: Path) -> None:
    found = []
    for name in ("one", "other"):
        data = tmp_path / name
        for file in ("0-1-aa", "0-2-bb"):
            (data / "journals").mkdir(parents=True, exist_ok=True)
            (data / "journals" / file).write_bytes(bytes(range(256)))
        found.append(draw(data, Random(3)))
    assert found[0] == found[1]


def test_files_have_places(tmp_path: Path) -> None:
    for name in ("00000000000000000000", "00000000000000000009"):
        (tmp_path / LOG).mkdir(exist_ok=True)
        (tmp_path / LOG / f"{name}.log").touch()
    assert place_of(tmp_path, FILE) == EARLIER
    assert place_of(tmp_path, f"{LOG}/00000000000000000009.log") == LAST
    assert place_of(tmp_path, f"{LOG}/leader-epoch-checkpoint") == INDEX
    assert place_of(tmp_path, "catalog/00000000000000000000.log") == CATALOG
    assert place_of(tmp_path, "leases/3") == LOCKS
    assert place_of(tmp_path, "format") == OTHER
