"""An issuer's endpoint on loopback, which gives tokens for a client's id and secret.

with TokenEndpoint() as endpoint:
    endpoint.answers.append((500, b""))     # of the next request
    endpoint.url
"""

import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs

from tests.access import tokens

CLIENT_ID, SECRET = "observer", "PLANTED-secret-of-a-client"
Answer = tuple[int, bytes]


class TokenEndpoint:
    """Gives tokens of `tokens.signed`, or other answers, and notes what it is asked."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.claims: dict[str, Any] = {}
        """Claims that differ from those of a good token."""
        self.answers: list[Answer] = []
        """Status and body of the next answers, in place of a token."""
        self.asked: list[tuple[str, dict[str, list[str]]]] = []
        """The header Authorization, and the form, of each request."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        scheme = "http" if context is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_port}/token"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            """Answers one request."""

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, data = endpoint.answer(self.headers["Authorization"], body)
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    def answer(self, authorization: str, body: bytes) -> Answer:
        self.asked.append((authorization, parse_qs(body.decode())))
        if self.answers:
            return self.answers.pop(0)
        token = tokens.signed(**self.claims)
        row = {"access_token": token, "token_type": "Bearer", "expires_in": 3600}
        return 200, json.dumps(row).encode()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)
