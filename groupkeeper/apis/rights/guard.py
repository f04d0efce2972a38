"""Guards in general: of a request as a whole, of its rows, and of the rows of its response.

What is refused as a whole, and short requests whose rows are all allowed, are decided in the same
call. Otherwise the rows are decided in slices: the handler gets a request without those that are
denied, and their results are put into its response.

Source: Kafka 4.1, `KafkaApis` and `ControllerApis`; the `getErrorResponse` of request classes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import GeneratorType
from typing import Any, Final

from groupkeeper.access.acls import CLUSTER_NAME
from groupkeeper.apis.needs import AllOf, AnyOf, Each, Need, Right
from groupkeeper.apis.rights.client import AskingClient, Rights
from groupkeeper.apis.rights.users import changes_refused, description_refused, quotas_refused
from groupkeeper.coordinator.caller import Caller
from groupkeeper.coordinator.replies import join_refused
from groupkeeper.exchange import Handler, ReplyTo, Response
from groupkeeper.protocol.acl_codes import Operation, ResourceKind
from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.message import layout_of
from groupkeeper.protocol.registry import APIS
from groupkeeper.refused_rows import refused_rows, rows_of
from groupkeeper.topics.topics import Topics
from groupkeeper.turns import Slices, Turns

FEW: Final = 50
"""Rows that are decided, or put together, in the same call."""

ERRORS: Final[Mapping[ResourceKind, ErrorCode]] = {
    ResourceKind.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceKind.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceKind.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceKind.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
WORDS: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
}
"""Kafka's messages for these errors."""

_NAMED_BY: Final = {
    ResourceKind.GROUP: "group_id",
    ResourceKind.TRANSACTIONAL_ID: "transactional_id",
}
"""Fields of requests about one resource."""

Resource = tuple[Operation, ResourceKind, str]
"""A right on a resource by name."""
# Any, here and below: messages of the API of a guard, and their rows.
WholeRefusal = Response | Slices[Any] | None


@dataclass(frozen=True, slots=True)
class Guarded:
    """An API that a guard protects, with the parts that the guard uses."""

    key: ApiKey
    needs: Need
    handler: Handler
    """The handler behind the guard."""
    rights: Rights
    topics: Topics
    turns: Turns


class Guard:
    """Refuses requests as a whole."""

    def __init__(self, guarded: Guarded) -> None:
        self.key = guarded.key
        self.handler = guarded.handler
        self.rights = guarded.rights
        self.topics = guarded.topics
        self.turns = guarded.turns
        self._api = APIS[guarded.key].name
        parts = guarded.needs.parts if isinstance(guarded.needs, AllOf) else (guarded.needs,)
        self._needed = [part for part in parts if isinstance(part, Right)]
        """Rights without which a request is refused."""
        self.each = [part for part in parts if isinstance(part, Each)]
        """Rights on its rows."""
        self._instead: list[Right] = []
        """Rights on the cluster with which no right on rows is needed."""
        for part in parts:
            if isinstance(part, AnyOf):
                *instead, last = part.parts
                self._instead += [one for one in instead if isinstance(one, Right)]
                rest = last.parts if isinstance(last, AllOf) else (last,)
                self.each += [one for one in rest if isinstance(one, Each)]

    def client(self, caller: Caller) -> AskingClient:
        return self.rights.of(caller, self._api)

    def handle(self, request: Any, caller: Caller, reply_to: ReplyTo) -> Any:
        """Implements `Handler`."""
        refused = self.refused(self.client(caller), request, caller)
        return self.handler(request, caller, reply_to) if refused is None else refused

    def refused(self, client: AskingClient, request: Any, caller: Caller) -> WholeRefusal:
        """Return the refusal of the whole request, or None."""
        for operation, resource in self._needed:
            name = _name_in(request, resource)
            if name is not None and not client.has(operation, resource, name):
                return refusal(request, caller.api_version, ERRORS[resource])
        return None

    def is_free(self, client: AskingClient) -> bool:
        """Return whether the client needs no right on rows."""
        return any(client.may_on_cluster(operation) for operation, _ in self._instead)


class SyncGuard(Guard):
    """SyncGroup: without the names of its protocol a request is an error whoever asks (KIP-559)."""

    def refused(self, client: AskingClient, request: Any, caller: Caller) -> WholeRefusal:
        if caller.api_version >= 5 and None in (request.protocol_type, request.protocol_name):
            return None
        return super().refused(client, request, caller)


def _name_in(request: Any, resource: ResourceKind) -> str | None:
    """Return the name of the one resource of a request; None if it names none."""
    if resource is ResourceKind.CLUSTER:
        return CLUSTER_NAME
    name: str | None = getattr(request, _NAMED_BY[resource])
    return name


def refusal(request: Any, version: int, error: ErrorCode) -> WholeRefusal:
    """Make the response to a request that is refused as a whole."""
    key = layout_of(type(request)).key
    assert key is not None, "a request"
    rows = rows_of(key, version)
    if rows is not None:
        return refused_rows(key, version, rows, request, error, WORDS[error])
    if key is ApiKey.JOIN_GROUP:
        return join_refused(error, version)
    if key is ApiKey.ALTER_USER_SCRAM_CREDENTIALS:
        return changes_refused(request, error, WORDS[error])
    if key is ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS:
        return description_refused(request, error)
    if key is ApiKey.DESCRIBE_CLIENT_QUOTAS:
        return quotas_refused(error)
    response = APIS[key].response_type
    words = {"error_message": WORDS[error]} if "error_message" in _fields(response) else {}
    made: Response = response(error_code=error, **words)
    return made


def _fields(message: type) -> frozenset[str]:
    return frozenset(field.name for field in layout_of(message).fields)


# -- responses that are changed -------------------------------------------------------------------


class SlicedReply:
    """The reply token of a request whose response is changed before it is sent, in slices."""

    __slots__ = ("_change", "_turns", "reply_to")

    def __init__(
        self, reply_to: ReplyTo, turns: Turns, change: Callable[[Response], Slices[Response]]
    ) -> None:
        self.reply_to = reply_to
        self._turns = turns
        self._change = change

    def answer(self, response: Response) -> None:
        slices = self._change(response)
        try:
            next(slices)
        except StopIteration as end:
            self.reply_to.answer(end.value)
        else:
            self._turns.start(slices, self.reply_to.answer)


class ChangedResponse:
    """Asks a handler, and changes its response whenever and however it comes."""

    def __init__(self, handler: Handler, turns: Turns) -> None:
        self._handler = handler
        self._turns = turns

    def ask(
        self, request: Any, caller: Caller, reply_to: ReplyTo, change: Callable[[Any], Slices[Any]]
    ) -> Slices[Any]:
        response = self._handler(request, caller, SlicedReply(reply_to, self._turns, change))
        if isinstance(response, GeneratorType):
            response = yield from response
        return None if response is None else (yield from change(response))
