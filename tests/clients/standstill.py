"""What stands when a client and the server wait: bytes in their sockets, threads of the server.

Linux only; elsewhere nothing is found.
"""

from pathlib import Path

from tests.clients.server import External
from tests.support.process import Server

_TCP = Path("/proc/net/tcp")
_STATES = {"01": "established", "08": "close wait"}


def standstill(server: Server | External) -> str:
    """Lines for the message of a test that failed."""
    return "\n".join([*_sockets(int(server.bootstrap.rpartition(":")[2])), *_threads(server)])


def _sockets(port: int) -> list[str]:
    """Both ends of the server's connections, with the bytes that wait in them."""
    lines = _TCP.read_text().splitlines()[1:] if _TCP.exists() else []
    rows = [line.split() for line in lines]
    return [
        f"{_end(row)}: {_STATES[row[3]]}, {_bytes(row, 1)} bytes unread, {_bytes(row, 0)} unsent"
        for row in rows
        if row[3] in _STATES and port in (_port(row[1]), _port(row[2]))
    ]


def _end(row: list[str]) -> str:
    return f"socket of {_port(row[1])} to {_port(row[2])}"


def _port(address: str) -> int:
    return int(address.partition(":")[2], 16)


def _bytes(row: list[str], which: int) -> int:
    return int(row[4].split(":")[which], 16)


def _threads(server: Server | External) -> list[str]:
    """State and name of each thread of the server: D is one that waits for the disk."""
    process = None if isinstance(server, External) else server.process
    if process is None:
        return []
    threads = Path(f"/proc/{process.pid}/task").glob("*/stat")
    return [f"thread {' '.join(path.read_text().split()[1:3])}" for path in threads]
