"""Serves the web page: the files of the folder `page`, unchanged, from memory.

`HEADERS` restricts browsers: they load nothing from other origins, run only scripts from these
files, and never turn text into HTML.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from typing import Final

from groupkeeper.observe.http_exchange import HttpAnswer, HttpRequest, error_answer

FOLDER: Final = Path(__file__).parent / "page"
INDEX: Final = "index.html"
"""The file for the path `/`."""
TYPES: Final[Mapping[str, str]] = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "no-cache",  # cached, but revalidated with If-None-Match
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; object-src 'none'; require-trusted-types-for 'script'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(slots=True, frozen=True)
class _File:
    body: bytes
    content_type: str
    tag: str
    """The ETag."""


class PageFiles:
    """All files of the page, read by the constructor: call it in a thread."""

    def __init__(self) -> None:
        self._files = {
            each.name: _read(each) for each in sorted(FOLDER.iterdir()) if each.suffix in TYPES
        }

    def answer(self, request: HttpRequest) -> HttpAnswer:
        """Return the index, or the file with a path under `page/`; 304 if the ETag matches."""
        if request.method not in ("GET", "HEAD"):
            return error_answer(HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": "GET, HEAD"})
        name = INDEX if not request.path else request.path.removeprefix("page/")
        found = self._files.get(name) if request.path in ("", f"page/{name}") else None
        if found is None:
            return error_answer(HTTPStatus.NOT_FOUND)
        headers = {**HEADERS, "ETag": found.tag}
        if found.tag in request.headers.get("if-none-match", ""):
            return HttpAnswer(304, b"", found.content_type, headers)
        return HttpAnswer(200, found.body, found.content_type, headers)


def _read(path: Path) -> _File:
    body = path.read_bytes()
    return _File(body, TYPES[path.suffix], f'"{sha256(body).hexdigest()[:16]}"')
