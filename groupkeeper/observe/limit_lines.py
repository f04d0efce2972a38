"""The log line about a request that exceeds a limit."""

from groupkeeper.coordinator.caller import Caller
from groupkeeper.observe.logs import Logger


def limit_reached(log: Logger, limit: str, most: int, api: str, caller: Caller) -> None:
    """Write the line for a request that is refused, or answered in part, because of a limit."""
    log.warning(
        "limit reached",
        limit=limit,
        most=most,
        api=api,
        client_id=caller.peer.client_id,
        host=caller.peer.host,
    )
