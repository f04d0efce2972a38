"""The line of the log that says which limit a request has met."""

from groupkeeper.coordinator.caller import Caller
from groupkeeper.observe.logs import Logger


def limit_reached(log: Logger, limit: str, most: int, api: str, caller: Caller) -> None:
    """A client was refused something, or got less, because of a named limit of requests."""
    log.warning(
        "limit reached",
        limit=limit,
        most=most,
        api=api,
        client_id=caller.client_id,
        host=caller.client_host,
    )
