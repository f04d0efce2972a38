"""The situations that are played beside Apache Kafka: a table.

`needs` is what the coordinator's log has to have, or else the situation was not played.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.clients.libraries import CONFLUENT, Library
from tests.truth.foreign import FRANZ_GO, JAVA
from tests.truth.observed.stage import Stage
from tests.truth.play import KAFKA_PYTHON

FOUR: Final = (KAFKA_PYTHON, CONFLUENT, JAVA, FRANZ_GO)
POLLERS: Final = (KAFKA_PYTHON, CONFLUENT, JAVA)
"""Clients that leave if they are not polled in time."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What happens to a group of one client. `needs`: reason and name, as in `broker_log`."""

    name: str
    client: Library
    needs: tuple[tuple[str, str], ...]
    begin: Callable[[Stage], None]
    is_fed: bool = True
    unknowable: tuple[str, ...] = ()
    """Reasons that the records of this situation cannot show."""
    is_in_wave: bool = False
    """The broker that coordinates the group is killed, so all that is played meanwhile is of the
    same situation.
    """
    is_consumer: bool = False
    """The group is a consumer group (KIP-848)."""
    harm: str = ""
    """Pattern of sentences that are false of it."""
    is_once: bool = False
    """It is one of many that are alike, so one play is enough."""

    @property
    def key(self) -> str:
        return f"{self.name}, {self.client.name}"


SITUATIONS: Final[list[Situation]] = []
Begin = Callable[[Stage], None]


def situation(
    name: str,
    *clients: Library,
    needs: str = "",
    is_fed: bool = True,
    unknowable: str = "",
    is_in_wave: bool = False,
    is_consumer: bool = False,
    harm: str = "",
    is_once: bool = False,
) -> Callable[[Begin], Begin]:
    """Add a situation for each of these clients. `needs` are words `reason:name`."""
    wanted = []
    for word in needs.split():
        code, _, who = word.partition(":")
        wanted.append((code, who))

    def add(begin: Begin) -> Begin:
        SITUATIONS.extend(
            Situation(
                name,
                each,
                tuple(wanted),
                begin,
                is_fed,
                tuple(unknowable.split()),
                is_in_wave,
                is_consumer,
                harm,
                is_once,
            )
            for each in clients
        )
        return begin

    return add
