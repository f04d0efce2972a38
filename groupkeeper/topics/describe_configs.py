"""DescribeConfigs for topics: every config with its value, where it comes from and what it is for.
And ListConfigResources: which topics there are.

Not brokers and groups: those resources never get here.
Source: Kafka's ``ConfigHelper``; KIP-226 (synonyms), KIP-569 (types and documentation),
KIP-1142 (listing).
"""

from coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo
from groupkeeper.topics import names
from groupkeeper.topics.catalog import Catalog, Topic
from groupkeeper.topics.effective_configs import EffectiveConfig, EffectiveConfigs
from protocol.errors import ErrorCode
from protocol.messages.describe_configs import (
    ConfigSource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
    ResourceType,
)
from protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from protocol.wire import cut_text


class DescribingConfigs:
    """Answers DescribeConfigs."""

    def __init__(self, catalog: Catalog, effective: EffectiveConfigs) -> None:
        self._catalog = catalog
        self._effective = effective

    def handle(
        self, request: DescribeConfigsRequest, caller: Caller, reply_to: ReplyTo
    ) -> DescribeConfigsResponse:
        """One result for each resource, in the order asked."""
        return DescribeConfigsResponse(
            results=[self._describe(resource, request) for resource in request.resources]
        )

    def list_topics(
        self, request: ListConfigResourcesRequest, caller: Caller, reply_to: ReplyTo
    ) -> ListConfigResourcesResponse:
        """All topics; nobody asks here for anything else."""
        return ListConfigResourcesResponse(
            config_resources=[
                ConfigResource(resource_name=name, resource_type=ResourceType.TOPIC)
                for name in self._catalog.by_name
            ]
        )

    def _describe(
        self, resource: DescribeConfigsResource, request: DescribeConfigsRequest
    ) -> DescribeConfigsResult:
        result = DescribeConfigsResult(
            resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        topic = self._catalog.by_name.get(resource.resource_name)
        if topic is None:
            result.error_code, result.error_message = _absent(resource.resource_name)
            return result
        result.configs = self._configs(topic, resource, request)
        return result

    def _configs(
        self, topic: Topic, resource: DescribeConfigsResource, request: DescribeConfigsRequest
    ) -> list[DescribeConfigsResourceResult]:
        # As in Kafka an empty list of names asks for all, too.
        wanted = frozenset(resource.configuration_keys or ())
        return [
            _result(config, request)
            for config in self._effective.of(topic)
            if not wanted or config.row.name in wanted
        ]


def _absent(name: str) -> tuple[ErrorCode, str]:
    """As Kafka: without a message where the code says it all."""
    wrong = names.complaint(name)
    if wrong is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION, cut_text(wrong)
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""


def _result(
    config: EffectiveConfig, request: DescribeConfigsRequest
) -> DescribeConfigsResourceResult:
    row = config.row
    result = DescribeConfigsResourceResult(
        name=row.name,
        value=config.value,
        config_source=config.source,
        is_default=config.source is ConfigSource.DEFAULT,
        config_type=row.kind,
        documentation=_documentation(row.name) if request.include_documentation else None,
    )
    if request.include_synonyms:
        result.synonyms = [
            DescribeConfigsSynonym(name=place.key, value=place.value, source=place.source)
            for place in config.places
        ]
    return result


def _documentation(name: str) -> str:
    # Imported late: few ask, and nobody at the start.
    from groupkeeper.topics.config_docs import DOCUMENTATION

    return DOCUMENTATION[name]
