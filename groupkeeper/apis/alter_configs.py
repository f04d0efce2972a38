"""AlterConfigs and IncrementalAlterConfigs for topics: check every topic's new configs, keep those
that stand, say what became of each.

Not brokers and groups: those resources never get here, and neither do repeated resources, repeated
names, null values and unknown operations (config_routes.py of the server).
Source: Kafka's ``ConfigurationControlManager``; KIP-133, KIP-339.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from groupkeeper.apis.config_changes import (
    AlterRequest,
    AlterResource,
    Change,
    changes_of,
    no_list,
)
from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from groupkeeper.protocol.messages.describe_configs import ConfigKind
from groupkeeper.protocol.messages.incremental_alter_configs import (
    ConfigOperation,
    IncrementalAlterConfigsResponse,
)
from groupkeeper.protocol.wire import LONGEST_TEXT, cut_text
from groupkeeper.topics import configs, names
from groupkeeper.topics.catalog import Topic
from groupkeeper.topics.slices import Pace
from groupkeeper.topics.topic_admin import UNWRITABLE, Refused
from groupkeeper.topics.topics import Topics
from groupkeeper.turns import Slices

AlterResponse = AlterConfigsResponse | IncrementalAlterConfigsResponse

_ALTERED: Final = 3
"""What a resource costs besides its configs, in small things."""

_TOO_LONG: Final = (
    "The configuration value cannot be added because it exceeds the maximum value size of "
    f"{LONGEST_TEXT} bytes."
)


class TopicConfigAlterer:
    """Answers AlterConfigs and IncrementalAlterConfigs."""

    def __init__(self, topics: Topics) -> None:
        self._admin = topics.admin
        self._response_tasks = topics.response_tasks

    def handle(self, request: AlterRequest, caller: Caller, reply_to: ReplyTo) -> None:
        self._response_tasks.start(self._alter(request), reply_to, lambda: _broken(request))

    async def _alter(self, request: AlterRequest) -> AlterResponse:
        anew = isinstance(request, AlterConfigsRequest)
        async with self._admin.changing:
            altered, results = await self._response_tasks.turns.run(
                self._plan(request.resources, anew=anew)
            )
            if altered and not request.validate_only:
                await self._keep(altered)
        return response_to(request, results)

    def _plan(
        self, resources: Iterable[AlterResource], *, anew: bool
    ) -> Slices[
        tuple[list[tuple[Topic, AlterConfigsResourceResponse]], list[AlterConfigsResourceResponse]]
    ]:
        """The topics to change with their results, and all results."""
        altered = []
        results = []
        pace = Pace()
        for resource in resources:
            result = _result(resource)
            results.append(result)
            try:
                topic = self._altered(resource, anew)
            except Refused as refused:
                result.error_code = refused.code
                result.error_message = cut_text(refused.message)
            else:
                # As in Kafka, what changes nothing is not written.
                if topic.configs != self._admin.catalog.by_name[topic.name].configs:
                    altered.append((topic, result))
            if pace.spent(_ALTERED + len(resource.configs)):
                yield
        return altered, results

    async def _keep(self, altered: list[tuple[Topic, AlterConfigsResourceResponse]]) -> None:
        code = await self._admin.change([topic for topic, _ in altered])
        for _, result in altered if code != ErrorCode.NONE else ():
            result.error_code = code
            result.error_message = UNWRITABLE

    def _altered(self, resource: AlterResource, anew: bool) -> Topic:
        """The topic as it shall be; raises UnwantedError. Checks in Kafka's order.

        `anew`: what is not named is unset.
        """
        name = resource.resource_name
        topic = self._admin.catalog.by_name.get(name)
        before = topic.configs if topic is not None else {}
        wanted = _applied({} if anew else before, changes_of(resource))
        _check_name(name)
        try:
            settled = configs.settled(wanted, before)
        except configs.InvalidConfigError as invalid:
            raise Refused(ErrorCode.INVALID_CONFIG, str(invalid)) from None
        if topic is None:
            raise Refused(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist."
            )
        if topic.internal:
            # Kafka would keep them. Here the settings decide, and it has no entry in the catalog.
            raise Refused(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' is internal: the server's settings are its configs.",
            )
        return replace(topic, configs=settled)


def _applied(before: dict[str, str], changes: Iterable[Change]) -> dict[str, str]:
    """The configs after the changes: none too long, and not yet checked for more."""
    after = dict(before)
    for change in changes:
        if change.edits_a_list:
            after[change.name] = _edited(change, before)
        elif change.value is not None and change.sets:
            after[change.name] = change.value
        else:
            after.pop(change.name, None)
    # A client cannot send what is too long, but make it by adding to a list.
    if any(len(after.get(change.name, "").encode()) > LONGEST_TEXT for change in changes):
        raise Refused(ErrorCode.INVALID_CONFIG, _TOO_LONG)
    return after


def _edited(change: Change, before: dict[str, str]) -> str:
    """A list with items added or taken away; where the topic has none, of Kafka's default."""
    row = configs.TABLE.get(change.name)
    if row is None or row.kind is not ConfigKind.LIST:
        raise Refused(ErrorCode.INVALID_CONFIG, no_list(change))
    items = configs.parts(before.get(change.name, row.default))
    given = configs.parts(change.value or "")
    if change.operation == ConfigOperation.SUBTRACT:
        return ",".join(_without(items, given))
    known = frozenset(items)
    return ",".join([*items, *(item for item in dict.fromkeys(given) if item not in known)])


def _without(items: Iterable[str], given: Iterable[str]) -> Iterator[str]:
    """An item goes as often as it is given: as in Kafka the first ones of their kind."""
    due = Counter(given)
    for item in items:
        if due[item]:
            due[item] -= 1
        else:
            yield item


def _check_name(name: str) -> None:
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    wrong = names.complaint(name)
    if wrong is not None:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, wrong)


def response_to(
    request: AlterRequest, results: list[AlterConfigsResourceResponse]
) -> AlterResponse:
    """The response that belongs to the request."""
    if isinstance(request, AlterConfigsRequest):
        return AlterConfigsResponse(responses=results)
    return IncrementalAlterConfigsResponse(responses=results)


def _result(resource: AlterResource) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_message=None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _broken(request: AlterRequest) -> AlterResponse:
    results = [_result(resource) for resource in request.resources]
    for result in results:
        result.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
        result.error_message = "The server failed"
    return response_to(request, results)
