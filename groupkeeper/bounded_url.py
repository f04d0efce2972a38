"""Reads an answer of bounded size over HTTP or HTTPS: the keys and the tokens of an issuer.

Blocking. Redirects are not followed, and no other scheme (such as file or ftp) is opened. What it
needs is imported with the first request, as that takes some MiB.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ssl import SSLContext
    from urllib.request import Request

_PIECE_BYTES: Final = 64 * 1024


def read_url(
    what: "str | Request", most_bytes: int, timeout_s: float, context: "SSLContext | None" = None
) -> bytes:
    """Return the body of an answer; one byte more than `most_bytes` of a longer one. `context` is
    for TLS; None trusts the authorities of the system. Raises OSError (HTTPError for a status that
    is no success), TimeoutError for an answer that is not complete in time, and HTTPException.
    """
    from time import monotonic
    from urllib.request import (
        HTTPDefaultErrorHandler,
        HTTPErrorProcessor,
        HTTPHandler,
        HTTPSHandler,
        OpenerDirector,
        ProxyHandler,
    )

    opener = OpenerDirector()
    for handler in (
        ProxyHandler(),
        HTTPHandler(),
        HTTPSHandler(context=context),
        HTTPDefaultErrorHandler(),
        HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    deadline = monotonic() + timeout_s
    data = b""
    with opener.open(what, timeout=timeout_s) as response:
        while len(data) <= most_bytes and (piece := response.read1(_PIECE_BYTES)):
            data += piece
            if monotonic() > deadline:
                raise TimeoutError(f"not complete after {timeout_s:.0f} s")
    return data
