"""DescribeConfigs for topics: every config with its value, where it comes from and what it is for.
And ListConfigResources: which topics there are.

Not brokers and groups: those resources never get here.
Source: Kafka's ``ConfigHelper``; KIP-226 (synonyms), KIP-569 (types and documentation),
KIP-1142 (listing).
"""

from collections.abc import Iterable, Mapping

from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.describe_configs import (
    ConfigSource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
    ResourceType,
)
from groupkeeper.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from groupkeeper.protocol.wire import cut_text
from groupkeeper.topics import names
from groupkeeper.topics.catalog import Topic
from groupkeeper.topics.configs import TABLE
from groupkeeper.topics.effective_configs import EffectiveConfig
from groupkeeper.topics.slices import Pace, each
from groupkeeper.topics.topics import Topics
from groupkeeper.turns import Slices


class TopicConfigDescriber:
    """Answers DescribeConfigs, and ListConfigResources as far as it is about topics."""

    def __init__(self, topics: Topics) -> None:
        self._catalog = topics.catalog
        self._effective = topics.effective
        self._shared: dict[tuple[bool, bool], Mapping[str, DescribeConfigsResourceResult]] = {}
        """What all topics have that do not have it of their own, by what is asked besides."""

    def handle(
        self, request: DescribeConfigsRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[DescribeConfigsResponse]:
        """One result for each resource, in the order asked."""
        pace = Pace()
        results = []
        for resource in request.resources:
            result = self._describe(resource, request)
            results.append(result)
            if pace.spent(1 + (len(result.configs) + len(resource.configuration_keys or ())) // 8):
                yield
        return DescribeConfigsResponse(results=results)

    def list_topics(
        self, request: ListConfigResourcesRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[ListConfigResourcesResponse]:
        """All topics; nobody asks here for anything else."""
        resources = yield from each(
            list(self._catalog.by_name),
            lambda name: ConfigResource(resource_name=name, resource_type=ResourceType.TOPIC),
        )
        return ListConfigResourcesResponse(config_resources=resources)

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
        own = self._effective.own(topic)
        shared = self._inherited(request)
        return [
            _result(self._effective.with_topic_value(name, own[name]), request)
            if name in own
            else shared[name]
            for name in asked_names(TABLE, resource)
        ]

    def _inherited(
        self, request: DescribeConfigsRequest
    ) -> Mapping[str, DescribeConfigsResourceResult]:
        """Made once and part of many answers, for a request may name thousands of topics."""
        besides = request.include_synonyms, request.include_documentation
        if besides not in self._shared:
            self._shared[besides] = {
                name: _result(config, request) for name, config in self._effective.inherited.items()
            }
        return self._shared[besides]


def asked_names(known: Mapping[str, object], resource: DescribeConfigsResource) -> Iterable[str]:
    """Which of the known configs are asked for. As in Kafka an empty list asks for all, too."""
    if not resource.configuration_keys:
        return known
    # Unknown names cost nothing more than this.
    wanted = known.keys() & resource.configuration_keys
    return [name for name in known if name in wanted] if wanted else ()


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
            DescribeConfigsSynonym(name=synonym.key, value=synonym.value, source=synonym.source)
            for synonym in config.synonyms
        ]
    return result


def _documentation(name: str) -> str:
    # Imported late: few ask, and nobody at the start.
    from groupkeeper.apis.topic_config_docs import DOCUMENTATION

    return DOCUMENTATION[name]
