"""AlterConfigs and IncrementalAlterConfigs: check each resource, change topics and groups, report
each result.

Topics and groups have configs that can change; broker_configs.py refuses the rest. A resource that
is invalid by itself (it occurs twice, a key occurs twice, a null) is refused first, in Kafka's
order and words. Source: Kafka's `ConfigAdminManager.preprocess` and
`ConfigurationControlManager`; KIP-133, KIP-339.
"""

from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from groupkeeper.apis.broker_configs import (
    AlterConfigOp,
    AlterRequest,
    AlterResource,
    BrokerConfigs,
    ops_of,
)
from groupkeeper.apis.config_ops import applied
from groupkeeper.apis.group_configs import GroupConfigsAdmin
from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo, Response
from groupkeeper.observe.seldom import SHOWN, AuditLines
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from groupkeeper.protocol.messages.describe_configs import ConfigKind, ResourceType
from groupkeeper.protocol.messages.incremental_alter_configs import (
    ConfigOperation,
    IncrementalAlterConfigsResponse,
)
from groupkeeper.protocol.wire import cut_text
from groupkeeper.refused_rows import server_failed
from groupkeeper.topics import configs
from groupkeeper.topics.catalog import Topic
from groupkeeper.topics.names import check_name
from groupkeeper.topics.refusals import Refusal, Refused
from groupkeeper.topics.slices import Pace, counts
from groupkeeper.topics.topic_admin import UNWRITABLE
from groupkeeper.topics.topics import Topics
from groupkeeper.turns import Slices

AlterResponse = AlterConfigsResponse | IncrementalAlterConfigsResponse
Planned = tuple[AlterResource, list[AlterConfigOp], AlterConfigsResourceResponse]
"""A topic or group, its changes, and its result so far."""

_ALTERED: Final = 3
"""Cost of a resource besides its configs, in items of a `Pace`."""

_TYPES: Final = frozenset(ResourceType)
_OPERATIONS: Final = frozenset(ConfigOperation)


class AlterConfigsHandler:
    """Answers AlterConfigs and IncrementalAlterConfigs."""

    def __init__(self, topics: Topics, broker: BrokerConfigs, groups: GroupConfigsAdmin) -> None:
        self._admin = topics.admin
        self._effective = topics.effective
        self._response_tasks = topics.response_tasks
        self._broker = broker
        self._groups = groups
        self._lines = AuditLines()

    def handle(
        self, request: AlterRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[Response | None]:
        """Reply at once if no topic or group is to change; else return None and reply later."""
        resources: Sequence[AlterResource] = request.resources
        times = yield from counts(resources, lambda one: (one.resource_type, one.resource_name))
        results = []
        planned: list[Planned] = []
        pace = Pace()
        for resource in resources:
            kind, name = resource.resource_type, resource.resource_name
            result = AlterConfigsResourceResponse(
                error_message=None, resource_type=kind, resource_name=name
            )
            results.append(result)
            ops = ops_of(resource)
            refusal = _check_ops(times[kind, name], ops) or _check_types(resource, ops)
            if refusal is None and kind in (ResourceType.TOPIC, ResourceType.GROUP):
                planned.append((resource, ops, result))
            elif refusal is not None or (refusal := self._broker.alter_refusal(kind, name, ops)):
                _refuse(result, refusal)
            if pace.spent(1 + len(ops)):
                yield
        if not planned:
            return _response(request, results)

        failed = partial(server_failed, request, caller.api_version)
        work = self._alter(request, planned, results, caller)
        self._response_tasks.start(work, reply_to, failed)
        return None

    async def _alter(
        self,
        request: AlterRequest,
        planned: Sequence[Planned],
        results: list[AlterConfigsResourceResponse],
        caller: Caller,
    ) -> AlterResponse:
        is_legacy = isinstance(request, AlterConfigsRequest)
        of_groups = [one for one in planned if one[0].resource_type == ResourceType.GROUP]
        if of_groups:
            await self._alter_groups(request, of_groups, caller)
            planned = [one for one in planned if one[0].resource_type == ResourceType.TOPIC]
        if not planned:
            return _response(request, results)
        async with self._admin.changing:
            altered = await self._response_tasks.turns.run(self._check(planned, is_legacy))
            if altered and not request.validate_only:
                error = await self._admin.change([topic for topic, _ in altered])
                for _, result in altered if error != ErrorCode.NONE else ():
                    _refuse(result, Refusal(error, UNWRITABLE))
                if error == ErrorCode.NONE:
                    shown = [f"topic {topic.name}" for topic, _ in altered[:SHOWN]]
                    self._tell(shown, len(altered), caller)
        return _response(request, results)

    async def _alter_groups(
        self, request: AlterRequest, planned: Iterable[Planned], caller: Caller
    ) -> None:
        run = self._response_tasks.turns.run
        asked = await run(self._ask_groups(request, planned, caller))
        shown, count = list[str](), 0
        for result, answer in asked:
            refusal = await self._groups.changed(answer)
            if refusal is not None:
                _refuse(result, refusal)
            elif not request.validate_only:
                count += 1
                shown += [f"group {result.resource_name}"] if count <= SHOWN else []
        self._tell(shown, count, caller)

    def _tell(self, shown: Sequence[str], count: int, caller: Caller) -> None:
        """Log who changed how many resources."""
        if count:
            self._lines.tell("configs changed", caller.peer, shown, count)

    def _ask_groups(
        self, request: AlterRequest, planned: Iterable[Planned], caller: Caller
    ) -> Slices[list[tuple[AlterConfigsResourceResponse, Awaitable[object]]]]:
        """Check the changes of groups, and ask for those that are valid, unless `validate_only`."""
        is_legacy = isinstance(request, AlterConfigsRequest)
        asked = []
        pace = Pace()
        for resource, ops, result in planned:
            name = resource.resource_name
            try:
                wanted = self._groups.wanted(name, ops, is_legacy=is_legacy)
            except Refused as refused:
                _refuse(result, refused.refusal)
            else:
                # The partition is asked in the step that read what was set before.
                configs = None if request.validate_only else wanted
                asked.append((result, self._groups.ask(name, caller, configs)))
            if pace.spent(_ALTERED + len(ops)):
                yield
        return asked

    def _check(
        self, planned: Iterable[Planned], is_legacy: bool
    ) -> Slices[list[tuple[Topic, AlterConfigsResourceResponse]]]:
        """Return the topics to change, with their results."""
        altered = []
        pace = Pace()
        for resource, ops, result in planned:
            try:
                topic = self._altered(resource.resource_name, ops, is_legacy)
            except Refused as refused:
                _refuse(result, refused.refusal)
            else:
                # As in Kafka, a change to the same configs is not written.
                if topic.configs != self._admin.catalog.by_name[topic.name].configs:
                    altered.append((topic, result))
            if pace.spent(_ALTERED + len(ops)):
                yield
        return altered

    def _altered(self, name: str, ops: Sequence[AlterConfigOp], is_legacy: bool) -> Topic:
        """Return a copy of the topic with its new configs. Raises Refused; checks in Kafka's order.

        `is_legacy`: configs that the request does not name are unset.
        """
        topic = self._admin.catalog.by_name.get(name)
        before = topic.configs if topic is not None else {}
        wanted = applied({} if is_legacy else before, ops, _list_default)
        if not name:
            raise Refused(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        refusal = check_name(name)
        if refusal is not None:
            raise Refused(*refusal)
        validated = self._effective.validated(wanted, before)
        if topic is None:
            raise Refused(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist."
            )
        if topic.internal:
            # Kafka stores them. Here settings decide, and the topic has no entry in the catalog.
            raise Refused(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' is internal: the server's settings are its configs.",
            )
        return replace(topic, configs=validated)


def _list_default(name: str) -> str | None:
    row = configs.TABLE.get(name)
    return row.default if row is not None and row.kind is ConfigKind.LIST else None


def _check_ops(times: int, ops: Sequence[AlterConfigOp]) -> Refusal | None:
    """Return the refusal of any resource, or None. `times`: how often the request names it."""
    error = ErrorCode.INVALID_REQUEST
    if times > 1:
        return Refusal(error, "Each resource must appear at most once.")
    if len({op.name for op in ops}) < len(ops):
        return Refusal(error, "Error due to duplicate config keys")
    nulls = ", ".join(op.name for op in ops if op.sets and op.value is None)
    return Refusal(error, f"Null value not supported for : {nulls}") if nulls else None


def _check_types(resource: AlterResource, ops: Sequence[AlterConfigOp]) -> Refusal | None:
    kind = resource.resource_type
    is_legacy = isinstance(resource, AlterConfigsResource)
    if kind not in _TYPES or (is_legacy and kind == ResourceType.BROKER_LOGGER):
        return Refusal(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")
    for op in ops:
        if op.operation not in _OPERATIONS:
            return Refusal(ErrorCode.INVALID_REQUEST, f"Unknown operations type {op.operation}")
    return None


def _refuse(result: AlterConfigsResourceResponse, refusal: Refusal) -> None:
    result.error_code = refusal.error
    result.error_message = cut_text(refusal.message or "")


def _response(request: AlterRequest, results: list[AlterConfigsResourceResponse]) -> AlterResponse:
    if isinstance(request, AlterConfigsRequest):
        return AlterConfigsResponse(responses=results)
    return IncrementalAlterConfigsResponse(responses=results)
