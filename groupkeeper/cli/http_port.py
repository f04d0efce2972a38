"""The HTTP port of a server, for commands: the option that names it, and how it is asked."""

import http.client
import json
from collections.abc import Mapping
from typing import Any

import click

from groupkeeper.settings.options import Address, parse_address

PROBLEMS = (OSError, http.client.HTTPException, ValueError)
"""What `ask_json` raises if no server answers with a JSON object."""


# Any: JSON.
def ask_json(
    address: Address,
    path: str,
    timeout_s: float,
    most_bytes: int,
    method: str = "GET",
    body: Mapping[str, Any] | None = None,
) -> tuple[int, dict[str, Any]]:
    """Status and object of an answer, read up to so many bytes. Raises `PROBLEMS`."""
    connection = http.client.HTTPConnection(*address, timeout=timeout_s)
    text = None if body is None else json.dumps(body)
    try:
        connection.request(method, path, text, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        found = json.loads(answer.read(most_bytes))
        if not isinstance(found, dict):
            raise ValueError("no JSON object")
        return answer.status, found
    finally:
        connection.close()


def port_address(_ctx: click.Context, _param: click.Parameter, text: str) -> Address:
    """A callback for options that take HOST:PORT; port 0 is refused."""
    try:
        return parse_address(text, any_port=False)
    except ValueError as problem:
        raise click.BadParameter(str(problem)) from None
