"""The HTTP port of a server, for commands: the option for its address, and JSON requests to it."""

import http.client
import json
from collections.abc import Mapping
from typing import Any

import click

from groupkeeper.settings.options import Address, parse_address

PROBLEMS = (OSError, http.client.HTTPException, ValueError)
"""Errors of `ask_json` if no server answers with a JSON object."""


# Any: JSON.
def ask_json(
    address: Address,
    path: str,
    timeout_s: float,
    most_bytes: int,
    method: str = "GET",
    body: Mapping[str, Any] | None = None,
) -> tuple[int, dict[str, Any]]:
    """Return status and JSON object of an answer, read up to `most_bytes`. Raises `PROBLEMS`."""
    connection = http.client.HTTPConnection(*address, timeout=timeout_s)
    text = None if body is None else json.dumps(body)
    try:
        connection.request(method, path, text, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        found = json.loads(answer.read(most_bytes))
        if not isinstance(found, dict):
            raise ValueError("not a JSON object")
        return answer.status, found
    finally:
        connection.close()


def port_address(_ctx: click.Context, _param: click.Parameter, text: str) -> Address:
    """Parse HOST:PORT, as a callback of options; port 0 is refused."""
    try:
        return parse_address(text, any_port=False)
    except ValueError as problem:
        raise click.BadParameter(str(problem)) from None
