"""The body of a request that changes something: who may send it, and how it is read.

No page of another origin can make a browser send such a request: its body is JSON, and its Host
header names this machine (decision 008).
"""

import json
from collections.abc import Collection, Mapping
from typing import Any

from groupkeeper.observe.http_exchange import JSON, HttpRequest, media_type
from groupkeeper.observe.http_host import is_own
from groupkeeper.web.parts import Refused


# Any: JSON.
def read_body(request: HttpRequest, hosts: Collection[str], named: str) -> Mapping[str, Any]:
    """The object in it. `hosts`: names that the server has, besides IP addresses and localhost;
    `named`: where they come from. Raises Refused.
    """
    check_host(request, hosts, named)
    if media_type(request.headers) != JSON:
        raise Refused(415, f"send a body with Content-Type: {JSON}")
    try:
        body = json.loads(request.body)
    except (ValueError, RecursionError):
        raise Refused(400, "the body is not JSON: send an object") from None
    if not isinstance(body, dict):
        raise Refused(400, "the body is not a JSON object: send one")
    return body


def check_host(request: HttpRequest, hosts: Collection[str], named: str) -> None:
    """See `read_body`. Raises Refused."""
    host = request.headers.get("Host", "").strip()
    if not is_own(host, hosts):
        line = f"the Host header is '{host[:100]}': ask by an IP address, localhost{named}"
        raise Refused(403, line)


def known(part: Mapping[str, Any], *names: str) -> None:
    """Raises Refused for a field that is none of these."""
    for name in part:
        if name not in names:
            raise Refused(400, f"unknown field '{name[:100]}': give {' or '.join(names)}")


def text(part: Mapping[str, Any], name: str, most: int = 32_767) -> str:
    """A text that is not empty. Raises Refused."""
    value = part[name]
    if not isinstance(value, str) or not 0 < len(value) <= most:
        raise Refused(400, f"'{name}' is no text of at most {most} characters")
    return value


def number(part: Mapping[str, Any], name: str, most: int) -> int:
    """A number from 0 on. Raises Refused."""
    value = part.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise Refused(400, f"'{name}' is no number from 0 to {most}")
    return value


def rows(body: Mapping[str, Any], name: str, most: int) -> list[Mapping[str, Any]]:
    """A list of objects that is not empty. Raises Refused."""
    found = body.get(name)
    if not isinstance(found, list) or not 0 < len(found) <= most:
        raise Refused(400, f"'{name}' is no list of 1 to {most} objects")
    for each in found:
        if not isinstance(each, dict):
            raise Refused(400, f"'{name}' has something that is no object")
    return found
