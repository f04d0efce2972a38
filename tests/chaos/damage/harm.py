"""One damage to a data directory: which file, where in it, and what is done to it.

Everything is drawn from one `Random`, by the structure of the directory: its last segment, its last
batch, its last round. So the same seed damages the same kind of place in another directory made by
the same recipe.
"""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from tests.chaos.damage.truth import OFFSETS_TOPIC

JOURNAL: Final = "journal"
OTHER_JOURNAL: Final = "journal of another node"
LAST: Final = "offsets: last segment"
EARLIER: Final = "offsets: earlier segment"
TOPIC_LAST: Final = "topic: last segment"
TOPIC_EARLIER: Final = "topic: earlier segment"
INDEX: Final = "index, epoch file"
START: Final = "log start offset"
CATALOG: Final = "catalog"
LOCKS: Final = "lease, node file"
FOLDER: Final = "partition folder"
OTHER: Final = "any other file"

PLACES: Final = {
    JOURNAL: 18,
    OTHER_JOURNAL: 5,
    LAST: 18,
    EARLIER: 12,
    TOPIC_LAST: 8,
    TOPIC_EARLIER: 5,
    INDEX: 9,
    START: 2,
    CATALOG: 15,
    LOCKS: 3,
    FOLDER: 6,
    OTHER: 8,
}
"""How often each is damaged, of those that there are."""

FLIP: Final = "bit flipped"
CUT: Final = "cut"
ZEROS: Final = "512 bytes zeroed"
REMOVED: Final = "removed"
KINDS: Final = {FLIP: 40, CUT: 25, ZEROS: 20, REMOVED: 15}

BLOCK: Final = 512
TAIL_CHANCE: Final = 0.4
"""How often the last batch, or the last round, is the one."""


@dataclass(frozen=True)
class Damage:
    """What was done."""

    kind: str
    place: str
    path: str
    """Relative to the data directory."""
    at: int = 0
    """First byte that is changed or gone."""
    words: str = ""
    end: int = 0
    """The first byte behind it that is not."""
    tail: int = -1
    """Byte where the last batch or round begins; -1 in files that have none."""

    def __str__(self) -> str:
        return f"{self.path}: {self.words}"

    @property
    def names(self) -> tuple[str, ...]:
        """A line that speaks of the damage has one of them in it."""
        if self.kind != REMOVED:
            return (self.path,)
        folder, _, _ = self.path.partition("/")
        return (self.path, folder)

    @property
    def is_tail(self) -> bool:
        """Nothing sound is left behind it."""
        return self.tail >= 0 and self.end > self.tail


def draw(data: Path, chance: Random) -> Damage:
    """Damage a directory."""
    found = _files(data)
    places = [place for place in PLACES if found.get(place)]
    while True:
        [place] = chance.choices(places, [PLACES[each] for each in places])
        [kind] = chance.choices(list(KINDS), list(KINDS.values()))
        damage = done(data, place, REMOVED if place == FOLDER else kind, chance)
        if damage is not None:
            return damage


def done(data: Path, place: str, kind: str, chance: Random) -> Damage | None:
    """A damage of this kind to a file of this place; None if it would change nothing there."""
    name = chance.choice(_files(data)[place])
    return _KINDS[kind](data, place, name, chance)


def _files(data: Path) -> dict[str, list[str]]:
    """Paths of all files by place, sorted."""
    found: dict[str, list[str]] = {}
    for path in sorted(data.rglob("*")):
        if path.is_file():
            name = str(path.relative_to(data))
            found.setdefault(place_of(data, name), []).append(name)
    found[FOLDER] = sorted(each.name for each in data.iterdir() if _is_partition(each.name))
    return found


def place_of(data: Path, name: str) -> str:
    folder, _, file = name.rpartition("/")
    if folder == "journals" and file[:1].isdigit():
        return JOURNAL if file.startswith("0-") else OTHER_JOURNAL
    if folder in {"leases", "nodes"}:
        return LOCKS
    if file == "log-start-offset-checkpoint":
        return START
    if file.endswith((".index", ".timeindex")) or file == "leader-epoch-checkpoint":
        return INDEX
    if folder == "catalog":
        return CATALOG
    if not file.endswith(".log") or not _is_partition(folder):
        return OTHER
    last = file == max(path.name for path in (data / folder).glob("*.log"))
    if folder.startswith(OFFSETS_TOPIC):
        return LAST if last else EARLIER
    return TOPIC_LAST if last else TOPIC_EARLIER


def _is_partition(name: str) -> bool:
    topic, _, number = name.rpartition("-")
    return bool(topic) and number.isdigit()


# -- what is in a file ---------------------------------------------------------------------------


def _pieces(path: Path, data: bytes) -> list[int]:
    """Where batches, or rounds, begin; and the end of the last one. Empty for other files."""
    if path.parent.name == "journals":
        return list(_rounds(path, data))
    return list(_batches(data)) if path.suffix == ".log" else []


def _rounds(path: Path, data: bytes) -> Iterator[int]:
    """A round begins with the salt that ends the file's name; behind the last one are zeros."""
    try:
        salt = bytes.fromhex(path.name.rpartition("-")[2])
    except ValueError:
        return
    at = data.find(salt)
    while at >= 0:
        yield at
        at = data.find(salt, at + 1)
    yield len(data.rstrip(b"\0"))


def _batches(data: bytes) -> Iterator[int]:
    at = 0
    while at + 12 <= len(data):
        yield at
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    yield min(at, len(data))


def _used(data: bytes, pieces: list[int]) -> int:
    """Bytes that mean something: the journal is written onto zeros."""
    return pieces[-1] if pieces else len(data)


def _position(data: bytes, pieces: list[int], chance: Random) -> int:
    used = _used(data, pieces)
    low = pieces[-2] if len(pieces) > 1 and chance.random() < TAIL_CHANCE else 0
    return chance.randrange(low, used)


def _tail(pieces: list[int]) -> int:
    return pieces[-2] if len(pieces) > 1 else -1


# -- what is done --------------------------------------------------------------------------------


def _flip(data_dir: Path, place: str, name: str, chance: Random) -> Damage | None:
    path = data_dir / name
    data = bytearray(path.read_bytes())
    pieces = _pieces(path, bytes(data))
    if not _used(bytes(data), pieces):
        return None
    at = _position(bytes(data), pieces, chance)
    bit = chance.randrange(8)
    data[at] ^= 1 << bit
    path.write_bytes(data)
    words = f"bit {bit} of byte {at} flipped"
    return Damage(FLIP, place, name, at, words, at + 1, _tail(pieces))


def _cut(data_dir: Path, place: str, name: str, chance: Random) -> Damage | None:
    path = data_dir / name
    data = path.read_bytes()
    pieces = _pieces(path, data)
    used = _used(data, pieces)
    if not used:
        return None
    ways = [
        lambda: used - chance.randint(1, min(100, used)),
        lambda: chance.choice(pieces[:-1]) if len(pieces) > 1 else chance.randrange(used),
        lambda: pieces[-2] if len(pieces) > 1 else 0,
        lambda: chance.randrange(used),
        lambda: 0,
    ]
    [way] = chance.choices(ways, [30, 20, 20, 25, 5])
    at = way()
    path.write_bytes(data[:at])
    words = f"cut from {len(data)} to {at} bytes"
    return Damage(CUT, place, name, at, words, len(data), _tail(pieces))


def _zero(data_dir: Path, place: str, name: str, chance: Random) -> Damage | None:
    path = data_dir / name
    data = path.read_bytes()
    pieces = _pieces(path, data)
    if not _used(data, pieces):
        return None
    at = _position(data, pieces, chance) // BLOCK * BLOCK
    end = min(at + BLOCK, len(data))
    if not any(data[at:end]):
        return None
    path.write_bytes(data[:at] + bytes(end - at) + data[end:])
    changed = at + next(n for n, byte in enumerate(data[at:end]) if byte)
    words = f"bytes {at} to {end} zeroed"
    return Damage(ZEROS, place, name, changed, words, end, _tail(pieces))


def _remove(data_dir: Path, place: str, name: str, chance: Random) -> Damage | None:
    path = data_dir / name
    if place == FOLDER:
        shutil.rmtree(path)
        return Damage(REMOVED, place, name, words="folder removed")
    if place in {CATALOG, LOCKS, JOURNAL} and chance.random() < TAIL_CHANCE:
        folder, _, _ = name.partition("/")
        shutil.rmtree(data_dir / folder)
        return Damage(REMOVED, place, folder, words="folder removed")
    path.unlink()
    return Damage(REMOVED, place, name, words="removed")


_KINDS: Final[dict[str, Callable[[Path, str, str, Random], Damage | None]]] = {
    FLIP: _flip,
    CUT: _cut,
    ZEROS: _zero,
    REMOVED: _remove,
}
