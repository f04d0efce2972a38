"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources: what is settled
before a topic is asked.

Resources that are topics go to whatever serves the topics; the others are answered here. What is
wrong with a request in itself (a resource or a name that comes twice, a null) is refused first, in
Kafka's order and words.
Source: Kafka's ``ConfigAdminManager.preprocess`` and ``ConfigHelper.handleDescribeConfigsRequest``.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any, Final, NamedTuple

from groupkeeper.apis.alter_configs import TopicConfigAlterer, response_to
from groupkeeper.apis.broker_configs import BrokerConfigs, Refusal
from groupkeeper.apis.config_changes import AlterRequest, AlterResource, Change, changes_of
from groupkeeper.apis.describe_configs import TopicConfigDescriber
from groupkeeper.apis.gather import After
from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import Handler, ReplyTo, Response
from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
)
from groupkeeper.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    ResourceType,
)
from groupkeeper.protocol.messages.incremental_alter_configs import ConfigOperation
from groupkeeper.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from groupkeeper.protocol.wire import cut_text
from groupkeeper.topics.refusals import MALFORMED
from groupkeeper.topics.slices import Pace, counts, each
from groupkeeper.topics.topics import Topics
from groupkeeper.turns import Slices

_TYPES: Final = frozenset(ResourceType)
_OPERATIONS: Final = frozenset(ConfigOperation)


class ConfigHandlers:
    """Handlers of the config APIs."""

    def __init__(self, topics: Topics, others: BrokerConfigs) -> None:
        describer, alterer = TopicConfigDescriber(topics), TopicConfigAlterer(topics)
        self._topics: dict[ApiKey, Handler] = {
            ApiKey.DESCRIBE_CONFIGS: describer.handle,
            ApiKey.ALTER_CONFIGS: alterer.handle,
            ApiKey.INCREMENTAL_ALTER_CONFIGS: alterer.handle,
            ApiKey.LIST_CONFIG_RESOURCES: describer.list_topics,
        }
        self._others = others

    def describe(
        self, request: DescribeConfigsRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[Response | None]:
        """One result for each resource, in the order asked. A resource that comes again with the
        same names is described once: in a request it takes some bytes, in an answer thousands.
        """
        distinct: dict[tuple[int, str, tuple[str, ...] | None], DescribeConfigsResource] = {}
        yield from each(request.resources, lambda one: distinct.update({_asked(one): one}))
        resources = list(distinct.values())
        if any((yield from each(resources, lambda one: one.resource_type not in _TYPES))):
            refusal = (ErrorCode.INVALID_REQUEST, MALFORMED)
            refused = yield from each(resources, lambda one: _undescribed(one, refusal))
            return DescribeConfigsResponse(results=refused)
        here: dict[int, DescribeConfigsResult] = {}
        there: list[DescribeConfigsResource] = []
        pace = Pace()
        for at, resource in enumerate(resources):
            cost = 1
            if resource.resource_type == ResourceType.TOPIC:
                there.append(resource)
            else:
                here[at] = self._describe(resource, request)
                cost += (len(here[at].configs) + len(resource.configuration_keys or ())) // 8
            if pace.spent(cost):
                yield
        asked = DescribeConfigsRequest(
            resources=there,
            include_synonyms=request.include_synonyms,
            include_documentation=request.include_documentation,
        )
        split = Split(
            here,
            asked if there else None,
            ApiKey.DESCRIBE_CONFIGS,
            lambda reply: reply.results,
            lambda results: DescribeConfigsResponse(results=results),
        )
        return (yield from self._with_topics(split, caller, reply_to))

    def _describe(
        self, resource: DescribeConfigsResource, request: DescribeConfigsRequest
    ) -> DescribeConfigsResult:
        kind, name = resource.resource_type, resource.resource_name
        refusal = self._others.describe_refusal(kind, name)
        if refusal is not None:
            return _undescribed(resource, refusal)
        configs = self._others.describe(resource, request)
        return DescribeConfigsResult(resource_type=kind, resource_name=name, configs=configs)

    def alter(
        self, request: AlterRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[Response | None]:
        """Topics may change; all else is refused, or had nothing to change."""
        here: dict[int, AlterConfigsResourceResponse] = {}
        there: list[Any] = []  # Any: resources of the request's own kind
        resources: Sequence[AlterResource] = request.resources
        times = yield from counts(resources, lambda one: (one.resource_type, one.resource_name))
        pace = Pace()
        for at, resource in enumerate(resources):
            kind, name = resource.resource_type, resource.resource_name
            changes = changes_of(resource)
            refusal = _complaint(times[kind, name], changes) or self._refusal(resource, changes)
            if refusal is None and kind == ResourceType.TOPIC:
                there.append(resource)
            else:
                here[at] = _unaltered(resource, refusal)
            if pace.spent(1 + len(changes)):
                yield
        asked = type(request)(resources=there, validate_only=request.validate_only)
        key = ApiKey.INCREMENTAL_ALTER_CONFIGS
        if isinstance(request, AlterConfigsRequest):
            key = ApiKey.ALTER_CONFIGS
        split = Split(
            here,
            asked if there else None,
            key,
            lambda reply: reply.responses,
            lambda results: response_to(request, results),
        )
        return (yield from self._with_topics(split, caller, reply_to))

    def _refusal(self, resource: AlterResource, changes: Sequence[Change]) -> Refusal | None:
        """Why a resource that is not a topic keeps what it has; None for topics."""
        kind = resource.resource_type
        legacy = isinstance(resource, AlterConfigsResource)
        if kind not in _TYPES or (legacy and kind == ResourceType.BROKER_LOGGER):
            return ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}"
        for change in changes:
            if change.operation not in _OPERATIONS:
                return ErrorCode.INVALID_REQUEST, f"Unknown operations type {change.operation}"
        if kind == ResourceType.TOPIC:
            return None
        return self._others.alter_refusal(kind, resource.resource_name, changes)

    def list_resources(
        self, request: ListConfigResourcesRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[Response | None]:
        """The node and its topics. Of client metrics, all that version 0 knows, there are none, and
        none of the groups has configs.
        """
        asked_for = frozenset(request.resource_types) or _TYPES
        if caller.api_version == 0:
            asked_for = frozenset((ResourceType.CLIENT_METRICS,))
        if asked_for - _TYPES:
            return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        nodes = [one for one in self._others.resources() if one.resource_type in asked_for]
        topics: list[int] = [ResourceType.TOPIC] if ResourceType.TOPIC in asked_for else []
        split = Split(
            dict(enumerate(nodes)),
            ListConfigResourcesRequest(resource_types=topics) if topics else None,
            ApiKey.LIST_CONFIG_RESOURCES,
            lambda reply: reply.config_resources,
            lambda results: ListConfigResourcesResponse(config_resources=results),
        )
        return (yield from self._with_topics(split, caller, reply_to))

    def _with_topics(
        self, split: "Split", caller: Caller, reply_to: ReplyTo
    ) -> Slices[Response | None]:
        """Ask for the topics, if there are any, and put all results in their order."""
        if split.asked is None:
            return split.merged([])

        def merge(reply: Any) -> Response:
            return split.merged(split.results(reply))

        part = After(reply_to, merge)
        answer = self._topics[split.key](split.asked, caller, part)
        if isinstance(answer, Generator):
            answer = yield from answer
        return None if answer is None else merge(answer)


class Split(NamedTuple):
    """A request of which some results are known and the others are those of topics."""

    here: dict[int, Any]
    """Results by their place in the answer."""
    asked: Any
    """The request for the rest; None if nothing is left to ask."""
    key: ApiKey
    results: Callable[[Any], Sequence[Any]]
    whole: Callable[[list[Any]], Response]

    def merged(self, of_topics: Sequence[Any]) -> Response:
        """In one step, as it may be done when the topics answer later: it takes some 50 ns each."""
        if not self.here:
            return self.whole(list(of_topics))
        count = len(self.here) + len(of_topics)
        rest = iter(of_topics)
        return self.whole([self.here.get(at) or next(rest) for at in range(count)])


def _complaint(times: int, changes: Sequence[Change]) -> Refusal | None:
    """What is wrong with the wishes for a resource, whatever it is."""
    if times > 1:
        return ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."
    if len({change.name for change in changes}) < len(changes):
        return ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys"
    nulls = ", ".join(change.name for change in changes if change.sets and change.value is None)
    if nulls:
        return ErrorCode.INVALID_REQUEST, f"Null value not supported for : {nulls}"
    return None


def _asked(resource: DescribeConfigsResource) -> tuple[int, str, tuple[str, ...] | None]:
    keys = resource.configuration_keys
    return resource.resource_type, resource.resource_name, None if keys is None else tuple(keys)


def _undescribed(resource: DescribeConfigsResource, refusal: Refusal) -> DescribeConfigsResult:
    code, message = refusal
    return DescribeConfigsResult(
        error_code=code,
        error_message=cut_text(message),
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _unaltered(resource: AlterResource, refusal: Refusal | None) -> AlterConfigsResourceResponse:
    code, message = refusal or (ErrorCode.NONE, None)
    return AlterConfigsResourceResponse(
        error_code=code,
        error_message=None if message is None else cut_text(message),
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
