"""Stands in for kafka-python's test/service.py, which starts brokers and is not published.

Only an address is needed: the broker is there already, and is not theirs to start or stop.
"""


class ExternalService:
    """A broker at an address."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    def open(self) -> None: ...

    def stop(self) -> None: ...

    def dump_logs(self) -> None: ...


class SpawnedService:
    """A broker that the tests start; never, as long as they are given an address."""
