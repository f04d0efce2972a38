"""JSON requests of commands to the HTTP port of a server."""

import http.client
import json
from typing import Any

from groupkeeper.settings.options import Address

PROBLEMS = (OSError, http.client.HTTPException, ValueError)
"""Errors of `ask_json` if no server answers with a JSON object."""


# Any: JSON.
def ask_json(
    address: Address, path: str, timeout_s: float, most_bytes: int
) -> tuple[int, dict[str, Any]]:
    """Return status and JSON object of an answer, read up to `most_bytes`. Raises `PROBLEMS`."""
    connection = http.client.HTTPConnection(*address, timeout=timeout_s)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        found = json.loads(answer.read(most_bytes))
        if not isinstance(found, dict):
            raise ValueError("not a JSON object")
        return answer.status, found
    finally:
        connection.close()
