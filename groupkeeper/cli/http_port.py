"""Asks the HTTP port of a server, for commands."""

import http.client
import json
from typing import Any

from groupkeeper.settings.options import Address

PROBLEMS = (OSError, http.client.HTTPException, ValueError)
"""What `get_json` raises if no server answers with JSON."""


# Any: JSON.
def get_json(address: Address, path: str, timeout_s: float, most_bytes: int) -> tuple[int, Any]:
    """Status and body of an answer; it is read up to so many bytes. Raises `PROBLEMS`."""
    connection = http.client.HTTPConnection(*address, timeout=timeout_s)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read(most_bytes))
    finally:
        connection.close()
