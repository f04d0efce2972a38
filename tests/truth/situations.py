"""The situations that real clients get into, and what has to be stored about each: a table.

The expectations are written by hand, from what is done to the clients and from what their code
sends then: librdkafka, aiokafka and kafka-python give no reasons, and Java always does. A situation
that comes out wrong is a mistake of the server, or of whoever wrote it down.
"""

import re
from collections.abc import Callable

from tests.clients.libraries import Library
from tests.truth.play import Play, Situation

SITUATIONS: list[Situation] = []
_EVENT = re.compile(r"^ {8}\S.*(?:\n {12}.*)*", re.MULTILINE)


def situation(
    name: str, *clients: Library, expected: str, **how: object
) -> Callable[[Callable[[Play], None]], Callable[[Play], None]]:
    """Add a situation for each of these clients. `expected`: an event each; a line that is indented
    goes on with the one before.
    """
    lines = tuple(" ".join(line.split()) for line in _EVENT.findall(expected))

    def add(begin: Callable[[Play], None]) -> Callable[[Play], None]:
        SITUATIONS.extend(
            Situation(name, client, lines, begin, **how)  # type: ignore[arg-type]  # Situation's
            for client in clients
        )
        return begin

    return add
