"""Asks the JSON API of a server in memory; every answer is checked against the OpenAPI document."""

import json
import re
from typing import Any, Protocol
from urllib.parse import quote, urlencode

from jsonschema import Draft202012Validator

from groupkeeper.observe.http_exchange import HttpAnswer, HttpRequest
from groupkeeper.server.http_port import HttpPort, Served
from groupkeeper.web.api import HttpApi


class Asked(Protocol):
    """A server, or an observer, and its event loop."""

    @property
    def server(self) -> Served: ...

    def run(self, work: Any) -> Any: ...


class Web:
    """The API of one server."""

    def __init__(self, served: "Asked") -> None:
        self._served = served
        self.api: HttpApi = HttpPort(served.server, ()).api()

    def answer(self, path: str, query: str = "", method: str = "GET", **more: Any) -> HttpAnswer:
        request = HttpRequest(method, path, query, **more)
        return self._served.run(self.api.answer(request))  # type: ignore[no-any-return]

    def get(self, *path: str, **query: Any) -> tuple[int, dict[str, Any]]:
        """Status and body; the parts of the path are escaped."""
        where = "/".join(quote(each, safe="") for each in path)
        return self._checked(where, "GET", self.answer(where, urlencode(query)))

    def found(self, *path: str, **query: Any) -> dict[str, Any]:
        """The body of an answer that is 200."""
        status, body = self.get(*path, **query)
        assert status == 200, body
        return body

    def group(self, name: str, asker: dict[str, Any]) -> dict[str, Any]:
        """A group, as whoever brings a token sees it: fields of `HttpRequest`."""
        return json.loads(whole(self.answer(f"groups/{name}", **asker)))  # type: ignore[no-any-return]

    def post(
        self, *path: str, headers: Any = None, asker: Any = None, **body: Any
    ) -> tuple[int, dict[str, Any]]:
        """`asker`: fields of `HttpRequest` that a token brings."""
        where = "/".join(quote(each, safe="") for each in path)
        data = json.dumps(body).encode()
        headers = {"content-type": "application/json", "host": "localhost:9644"} | (headers or {})
        sent = {"headers": headers, "body": data, "remote": "10.0.0.7"} | (asker or {})
        answer = self.answer(where, "", "POST", **sent)
        return self._checked(where, "POST", answer)

    def error(self, *path: str, **query: Any) -> tuple[int, str]:
        """Status and text of an answer that is none."""
        status, body = self.get(*path, **query)
        assert status != 200, body
        return status, body["error"]

    def _checked(self, path: str, method: str, answer: HttpAnswer) -> tuple[int, dict[str, Any]]:
        assert answer.content_type == "application/json"
        body = json.loads(whole(answer))
        check(self.document, path, method, answer.status, body)
        return answer.status, body

    @property
    def document(self) -> dict[str, Any]:
        return json.loads(whole(self.answer("openapi.json")))  # type: ignore[no-any-return]


def whole(answer: HttpAnswer) -> bytes:
    """The body of an answer that is no stream."""
    if isinstance(answer.body, bytes):
        return answer.body
    assert isinstance(answer.body, list)
    return b"".join(answer.body)


def check(document: dict[str, Any], path: str, method: str, status: int, body: Any) -> None:
    """Raises ValidationError unless the document has the answer, with all of its fields."""
    operation = _operation(document, path, method.lower())
    if operation is None:
        assert status in (404, 405), "a path that is not in the document"
        schema: Any = {"$ref": "#/components/schemas/Error"}
    else:
        assert str(status) in operation["responses"], f"{status} is not told"
        content = operation["responses"][str(status)]["content"]
        schema = content["application/json"]["schema"]
    whole = closed({"components": document["components"]} | schema)
    Draft202012Validator(whole).validate(body)


def _operation(document: dict[str, Any], path: str, method: str) -> Any:
    for template, operations in document["paths"].items():
        pattern = re.sub(r"{\w+}", "[^/]+", template)
        if re.fullmatch(pattern, f"/api/v1/{path}"):
            return operations.get(method)
    return None


def closed(schema: Any) -> Any:
    """A schema whose objects have no fields but those it names."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: closed(value) for name, value in schema.items()}
    if isinstance(found.get("properties"), dict) and "required" in found:
        found.setdefault("additionalProperties", False)
    return found
