"""Limits of the HTTP port."""

from typing import Final

HEADER_BYTES: Final = 8 * 1024
"""Of the request line and headers. The most headers that fit are parsed in 3 ms."""
BODY_BYTES: Final = 64 * 1024
"""Of a request's body."""
DROPPED_BYTES: Final = 64 * 1024 * 1024
"""Of a body that is too long: read and dropped, so that its client gets the answer. A longer one
is not read: its connection is closed, which may reset it before the client has read the answer."""
CONNECTIONS: Final = 64
"""Open connections. For one more, the one that has been idle longest is closed."""
ANSWERS: Final = 56
"""Connections that may be busy with an answer. The others are for `HEALTH`, and can be closed for a
new one."""
HEALTH: Final = frozenset({"/healthz", "/readyz"})
"""Paths that are answered even while `ANSWERS` are under way."""
UNCHECKED: Final = HEALTH | {"/metrics"}
"""Paths that are answered whatever the Host header says: probes and scrapers use names that the
server does not know, and nothing there is about groups' contents or clients."""
TIMEOUT_S: Final = 10.0
"""For a whole request to arrive, including idle time before it; and for an answer to be read."""
ACCEPTS: Final = 4
"""Connections accepted in one iteration of the loop."""
BACKLOG: Final = 128
"""Connections that the kernel queues until they are accepted."""
