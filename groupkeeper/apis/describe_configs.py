"""DescribeConfigs: each config with its value and source. ListConfigResources: the resources that
can be described.

Groups are described in group_configs.py, other resources than topics in broker_configs.py.
Source: Kafka's `ConfigHelper`; KIP-226 (synonyms), KIP-569 (types and documentation),
KIP-1142 (listing).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from groupkeeper.apis.broker_configs import BrokerConfigs, config_result, requested_names
from groupkeeper.apis.group_configs import GroupConfigsAdmin, refusal_of
from groupkeeper.coordinator.caller import Caller
from groupkeeper.coordinator.step import GroupConfigs
from groupkeeper.exchange import ReplyTo
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    ResourceType,
)
from groupkeeper.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from groupkeeper.protocol.wire import cut_text
from groupkeeper.refused_rows import server_failed
from groupkeeper.topics.configs import TABLE
from groupkeeper.topics.names import check_name
from groupkeeper.topics.refusals import MALFORMED, Refusal
from groupkeeper.topics.slices import Pace, each
from groupkeeper.topics.topics import Topics
from groupkeeper.turns import Slices

_TYPES: Final = frozenset(ResourceType)
_GROUP: Final = ResourceType.GROUP


class DescribeConfigsHandler:
    """Answers DescribeConfigs."""

    def __init__(self, topics: Topics, broker: BrokerConfigs, groups: GroupConfigsAdmin) -> None:
        self._catalog = topics.catalog
        self._effective = topics.effective
        self._response_tasks = topics.response_tasks
        self._broker = broker
        self._groups = groups
        self._shared: dict[bool, Mapping[str, DescribeConfigsResourceResult]] = {}
        """Configs that topics do not set, by whether synonyms are included."""

    def handle(
        self, request: DescribeConfigsRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[DescribeConfigsResponse | None]:
        """Return one result for each resource, in the order of the request. A resource that is
        repeated with the same keys is described once: a few bytes of request would cost thousands
        each. Return None and reply later if groups are described.
        """
        distinct: dict[tuple[int, str, tuple[str, ...] | None], DescribeConfigsResource] = {}
        yield from each(request.resources, lambda one: distinct.update({_key(one): one}))
        resources = list(distinct.values())
        if any((yield from each(resources, lambda one: one.resource_type not in _TYPES))):
            refusal = Refusal(ErrorCode.INVALID_REQUEST, MALFORMED)
            refused = yield from each(resources, lambda one: _refused(one, refusal))
            return DescribeConfigsResponse(results=refused)
        groups = {one.resource_name for one in resources if one.resource_type == _GROUP}
        if not groups - {""}:
            return (yield from self._described(resources, request, {}))
        work = self._with_groups(resources, request, groups - {""})
        failed = partial(server_failed, request, caller.api_version)
        self._response_tasks.start(work, reply_to, failed)
        return None

    async def _with_groups(
        self,
        resources: Sequence[DescribeConfigsResource],
        request: DescribeConfigsRequest,
        groups: Collection[str],
    ) -> DescribeConfigsResponse:
        found = await self._groups.configs_of(groups)
        return await self._response_tasks.turns.run(self._described(resources, request, found))

    def _described(
        self,
        resources: Iterable[DescribeConfigsResource],
        request: DescribeConfigsRequest,
        groups: Mapping[str, GroupConfigs],
    ) -> Slices[DescribeConfigsResponse]:
        """`groups`: what the partitions of all groups in the request have answered."""
        pace = Pace()
        results = []
        for resource in resources:
            group = groups.get(resource.resource_name)
            if group is not None and resource.resource_type == _GROUP:
                result = self._of_group(group, resource, request)
            else:
                result = self._describe(resource, request)
            results.append(result)
            if pace.spent(1 + (len(result.configs) + len(resource.configuration_keys or ())) // 8):
                yield
        return DescribeConfigsResponse(results=results)

    def _of_group(
        self,
        group: GroupConfigs,
        resource: DescribeConfigsResource,
        request: DescribeConfigsRequest,
    ) -> DescribeConfigsResult:
        refusal = refusal_of(group)
        if refusal is not None:
            return _refused(resource, refusal)
        return DescribeConfigsResult(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=self._groups.described(group, resource, request),
        )

    def _describe(
        self, resource: DescribeConfigsResource, request: DescribeConfigsRequest
    ) -> DescribeConfigsResult:
        kind, name = resource.resource_type, resource.resource_name
        if kind == ResourceType.TOPIC:
            refusal = None
            if name not in self._catalog.by_name:
                # As in Kafka, this error has no message.
                unknown = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                refusal = check_name(name) or unknown
        else:
            refusal = self._broker.describe_refusal(kind, name)
        if refusal is not None:
            return _refused(resource, refusal)
        describe = self._describe_topic if kind == ResourceType.TOPIC else self._broker.describe
        return DescribeConfigsResult(
            resource_type=kind, resource_name=name, configs=describe(resource, request)
        )

    def _describe_topic(
        self, resource: DescribeConfigsResource, request: DescribeConfigsRequest
    ) -> list[DescribeConfigsResourceResult]:
        own = self._effective.own(self._catalog.by_name[resource.resource_name])
        shared = self._inherited(request)
        return [
            config_result(self._effective.with_topic_value(name, own[name]), request)
            if name in own
            else shared[name]
            for name in requested_names(TABLE, resource)
        ]

    def _inherited(
        self, request: DescribeConfigsRequest
    ) -> Mapping[str, DescribeConfigsResourceResult]:
        """Return the inherited configs, which responses share, as topics may be thousands."""
        if request.include_synonyms not in self._shared:
            self._shared[request.include_synonyms] = {
                name: config_result(config, request)
                for name, config in self._effective.inherited.items()
            }
        return self._shared[request.include_synonyms]


class ListConfigResourcesHandler:
    """Answers ListConfigResources: the node, its topics, and the groups that have configs."""

    def __init__(self, topics: Topics, broker: BrokerConfigs, groups: GroupConfigsAdmin) -> None:
        self._catalog = topics.catalog
        self._broker = broker
        self._groups = groups

    def handle(
        self, request: ListConfigResourcesRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[ListConfigResourcesResponse]:
        """List the resources; version 0 lists client metrics only."""
        types = frozenset(request.resource_types) or _TYPES
        if caller.api_version == 0:
            types = frozenset((ResourceType.CLIENT_METRICS,))
        if types - _TYPES:
            return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        resources = [one for one in self._broker.resources() if one.resource_type in types]
        if ResourceType.TOPIC in types:
            resources += yield from each(list(self._catalog.by_name), _topic_resource)
        if _GROUP in types:
            resources += yield from self._groups.resources()
        return ListConfigResourcesResponse(config_resources=resources)


def _topic_resource(name: str) -> ConfigResource:
    return ConfigResource(resource_name=name, resource_type=ResourceType.TOPIC)


def _key(resource: DescribeConfigsResource) -> tuple[int, str, tuple[str, ...] | None]:
    keys = resource.configuration_keys
    return resource.resource_type, resource.resource_name, None if keys is None else tuple(keys)


def _refused(resource: DescribeConfigsResource, refusal: Refusal) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=refusal.error,
        error_message=cut_text(refusal.message or ""),
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
