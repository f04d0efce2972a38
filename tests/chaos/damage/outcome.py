"""A server started over a damaged directory, and what that comes to.

`tried` starts one, looks at everything that was promised, and gives a verdict.
"""

import json
import re
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from groupkeeper.protocol.group_events import TOPIC as EVENT_TOPIC
from tests.chaos.damage.bases import SETTINGS, Base
from tests.chaos.damage.harm import CATALOG, JOURNAL, OTHER, TOPIC_LAST, Damage
from tests.chaos.damage.truth import Look, Loss, look
from tests.chaos.server import Needs, Server, ServerError
from tests.support.process import ROOT

RECOVERED: Final = "recovered"
REFUSED: Final = "refused"
NOTICED: Final = "noticed"
TAIL: Final = "tail"
CHECKSUM: Final = "checksum"
UNNAMED: Final = "unnamed"
TOO_MUCH: Final = "too much"
SILENT: Final = "silent"
BROKEN: Final = "broken"

VERDICTS: Final = {
    RECOVERED: "everything that was promised is there",
    REFUSED: "a partition, a topic or the catalog is not served; a line names file and remedy",
    NOTICED: "served with a loss; a line names the file, and bytes or offsets",
    TAIL: "lost, and cannot be told from a crash a moment earlier: the last round of a killed "
    "server's journal, the end of a topic's last segment after a kill",
    CHECKSUM: "served with a wrong checksum: whoever fetches it knows, the server says nothing",
    UNNAMED: "refused, but no line names the file and a remedy",
    TOO_MUCH: "refused more than the damage explains: the start, for what not all depends on, or "
    "another partition",
    SILENT: "lost, and nobody was told",
    BROKEN: "a traceback, no answer, or an end without a word",
}
BAD: Final = frozenset({UNNAMED, TOO_MUCH, SILENT, BROKEN})

SETTLE_SECONDS: Final = 20.0
POLL_SECONDS: Final = 0.01
REMEDY: Final = re.compile(
    r"\b(restore|remove|truncate|delete|lose|give up|set |copy|move|format)\b", re.IGNORECASE
)
AMOUNT: Final = re.compile(r"\b(byte|bytes|offset|offsets|batch|batches|round|rounds)\b")
WORDS: Final = 300


@dataclass(frozen=True)
class Outcome:
    """What became of one damage."""

    verdict: str
    words: str = ""
    """What was lost, or said."""

    @property
    def bad(self) -> bool:
        return self.verdict in BAD


def tried(base: Base, damage: Damage | None, folder: Path, checkout: Path = ROOT) -> Outcome:
    """Start a server over `folder`/data and judge what it serves."""
    server = Server(folder, Needs(SETTINGS, checkout=checkout))
    try:
        try:
            server.start()
        except ServerError:
            return _not_started(damage, server)
        try:
            reasons = _settled(server)
            seen = look(server.kafka, base.truth)
            if seen != Look():
                server.stop()  # what it says about it may still wait to be written
        except (OSError, ServerError, AssertionError) as error:
            return Outcome(BROKEN, f"{type(error).__name__} {error}\n{server.tail()}")
    finally:
        server.kill()
    lines = [*_lines(server), *reasons]
    if any("Traceback" in line for line in lines):
        return Outcome(BROKEN, "\n".join(lines)[-1_000:])
    return judge(base.recipe.killed, damage, seen, lines)


def _not_started(damage: Damage | None, server: Server) -> Outcome:
    lines = _lines(server)
    said = "\n".join(lines)[-WORDS:]
    if server.exit_code != 1 or "Traceback" in said:
        return Outcome(BROKEN, f"exit code {server.exit_code}: {said}")
    if damage is None or not _of_all(damage):
        return Outcome(TOO_MUCH, said)
    return Outcome(REFUSED if _named(damage, lines) else UNNAMED, said)


def _of_all(damage: Damage) -> bool:
    """Whether all partitions depend on it: the catalog, or a file of the data directory itself."""
    return damage.place == CATALOG or (damage.place == OTHER and "/" not in damage.path)


def _settled(server: Server) -> list[str]:
    """Wait until no partition loads any more; what it says of those that are not active."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        status, text = server.page("/readyz", 5.0)
        if status not in {200, 503}:
            raise ServerError(f"/readyz: {status or text}")
        waiting = json.loads(text)["not_active"]
        if all(each["state"] == "closed" for each in waiting):
            return [each["reason"] for each in waiting]
        if time.monotonic() > deadline:
            raise ServerError(f"still not settled after {SETTLE_SECONDS:.0f} s: {text}")
        time.sleep(POLL_SECONDS)


def _lines(server: Server) -> list[str]:
    return server.log.read_text(errors="replace").splitlines() if server.log.exists() else []


def judge(killed: bool, damage: Damage | None, seen: Look, lines: Sequence[str]) -> Outcome:
    """The verdict on a server that was started."""
    if damage is None:
        bad = seen.losses or seen.refused or seen.checksums
        return Outcome(SILENT if bad else RECOVERED, f"{seen}" if bad else "")
    if seen.losses:
        words = _told(seen.losses)
        if _told_of(damage, lines):
            return Outcome(NOTICED, words)
        tail = killed and _is_tail(damage, seen.losses)
        return Outcome(TAIL if tail else SILENT, words)
    if seen.refused:
        words = f"{', '.join(sorted(seen.refused))} not served: {_about(damage, lines)}"
        if not _explained(damage, seen.refused):
            return Outcome(TOO_MUCH, words)
        return Outcome(REFUSED if _named(damage, lines) else UNNAMED, words)
    if seen.checksums and not _told_of(damage, lines):
        return Outcome(CHECKSUM, _told(seen.checksums))
    of_events = damage.path.startswith(EVENT_TOPIC)  # one that fails keeps nobody from its group
    noticed = seen.checksums or (of_events and _named(damage, lines))
    return Outcome(NOTICED if noticed else RECOVERED)


def _told(losses: Sequence[Loss]) -> str:
    more = f" and {len(losses) - 3} more" if len(losses) > 3 else ""
    return "; ".join(loss.words for loss in losses[:3]) + more


def _is_tail(damage: Damage, losses: Sequence[Loss]) -> bool:
    """Of a killed server's journal the last round, of a topic the end: these may be missing."""
    if not damage.is_tail:
        return False
    if damage.place == JOURNAL:
        return True
    folder = damage.path.partition("/")[0]
    return damage.place == TOPIC_LAST and all(loss.log == folder for loss in losses)


def _explained(damage: Damage, refused: Collection[str]) -> bool:
    """Whether only what is damaged is refused; a journal or the catalog may take any log along."""
    folder = damage.path.partition("/")[0]
    return folder in {"journals", "catalog"} or "-" not in folder or set(refused) == {folder}


def _about(damage: Damage, lines: Sequence[str]) -> str:
    return next((line for line in lines if _names(damage, line)), "no line about it")[:WORDS]


def _names(damage: Damage, line: str) -> bool:
    return any(name in line for name in damage.names)


def _named(damage: Damage, lines: Sequence[str]) -> bool:
    return any(_names(damage, line) and REMEDY.search(line) for line in lines)


def _told_of(damage: Damage, lines: Sequence[str]) -> bool:
    return any(_names(damage, line) and AMOUNT.search(line) for line in lines)
