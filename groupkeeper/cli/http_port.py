"""Asks the HTTP port of a server, for commands."""

import http.client
import json
from collections.abc import Mapping
from typing import Any

from groupkeeper.settings.options import Address

PROBLEMS = (OSError, http.client.HTTPException, ValueError)
"""What `ask_json` raises if no server answers with JSON."""


# Any: JSON.
def ask_json(
    address: Address,
    path: str,
    timeout_s: float,
    most_bytes: int,
    method: str = "GET",
    body: Mapping[str, Any] | None = None,
) -> tuple[int, Any]:
    """Status and body of an answer; it is read up to so many bytes. Raises `PROBLEMS`."""
    connection = http.client.HTTPConnection(*address, timeout=timeout_s)
    text = None if body is None else json.dumps(body)
    try:
        connection.request(method, path, text, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read(most_bytes))
    finally:
        connection.close()
