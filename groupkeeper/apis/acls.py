"""DescribeAcls, CreateAcls and DeleteAcls, if there is an authorizer.

Source: Kafka's `AclApis`, `AclControlManager`; KIP-140, KIP-290 (prefixes).
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from groupkeeper.access.acl_changes import AclChanges, TooManyAclsError
from groupkeeper.access.acls import Acl, AclFilter, refusal_of
from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo
from groupkeeper.observe.seldom import SHOWN, AuditLines
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.mapped import bulk, mapped
from groupkeeper.protocol.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from groupkeeper.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from groupkeeper.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from groupkeeper.storage.errors import StorageError
from groupkeeper.topics.slices import Pace, each
from groupkeeper.topics.topic_admin import UNWRITABLE
from groupkeeper.topics.worker import ResponseTasks
from groupkeeper.turns import Slices

MAX_FILTERS: Final = 10_000
"""How many filters one DeleteAcls may have; more are INVALID_REQUEST."""

_INVALID: Final = ErrorCode.INVALID_REQUEST


class AclsHandler:
    """Answers these APIs."""

    def __init__(self, changes: AclChanges, response_tasks: ResponseTasks) -> None:
        self._changes = changes
        self._response_tasks = response_tasks
        self._lines = AuditLines()

    # -- DescribeAcls --------------------------------------------------------------------------

    def describe_acls(
        self, request: DescribeAclsRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[DescribeAclsResponse]:
        acls = yield from self._changes.found(_filter(request))
        resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
        pace = Pace()
        for acl in acls:
            place = acl.resource, acl.name, acl.pattern
            if place not in resources:
                resources[place] = DescribeAclsResource(
                    resource_type=acl.resource, resource_name=acl.name, pattern_type=acl.pattern
                )
            resources[place].acls.append(
                AclDescription(
                    principal=acl.principal,
                    host=acl.host,
                    operation=acl.operation,
                    permission_type=acl.permission,
                )
            )
            if pace.spent():
                yield
        return DescribeAclsResponse(resources=bulk([*resources.values()]))

    # -- CreateAcls ----------------------------------------------------------------------------

    def create_acls(
        self, request: CreateAclsRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[CreateAclsResponse | None]:
        """Create the valid ones, all or none. One that is there already is no error."""
        acls = yield from each(request.creations, _created)
        problems = yield from each(acls, refusal_of)
        if all(problems):
            return _created_response(problems)
        work = self._create(acls, problems, caller)
        failed = partial(_all_failed, len(acls), ErrorCode.UNKNOWN_SERVER_ERROR, None)
        self._response_tasks.start(work, reply_to, failed)
        return None

    async def _create(
        self, acls: Sequence[Acl], problems: list[str | None], caller: Caller
    ) -> CreateAclsResponse:
        valid = [acl for acl, problem in zip(acls, problems, strict=True) if problem is None]
        try:
            new = await self._changes.create(valid)
        except TooManyAclsError as refused:
            return _all_failed(len(acls), ErrorCode.POLICY_VIOLATION, str(refused))
        except (StorageError, OSError):
            return _all_failed(len(acls), ErrorCode.KAFKA_STORAGE_ERROR, UNWRITABLE)
        self._tell("acls created", new, caller)
        return _created_response(problems)

    # -- DeleteAcls ----------------------------------------------------------------------------

    def delete_acls(
        self, request: DeleteAclsRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[DeleteAclsResponse | None]:
        """Delete all that match, or none. A filter that matches nothing is no error."""
        filters = yield from each(request.filters, _filter)
        count = len(filters)
        if count > MAX_FILTERS:
            return _none_deleted(count, _INVALID, f"at most {MAX_FILTERS} filters")
        failed = partial(_none_deleted, count, ErrorCode.UNKNOWN_SERVER_ERROR, None)
        self._response_tasks.start(self._delete(filters, caller), reply_to, failed)
        return None

    async def _delete(self, filters: Sequence[AclFilter], caller: Caller) -> DeleteAclsResponse:
        valid = [one for one in filters if one.is_unknown is None]
        try:
            found = iter(await self._changes.delete(valid))
        except TooManyAclsError as refused:
            return _none_deleted(len(filters), ErrorCode.POLICY_VIOLATION, str(refused))
        except (StorageError, OSError):
            return _none_deleted(len(filters), ErrorCode.KAFKA_STORAGE_ERROR, UNWRITABLE)
        results, gone = [], dict[Acl, None]()
        for one in filters:
            problem = one.is_unknown
            if problem is not None:
                results.append(DeleteAclsFilterResult(error_code=_INVALID, error_message=problem))
                continue
            acls = next(found)
            gone |= dict.fromkeys(acls)
            results.append(
                DeleteAclsFilterResult(error_message=None, matching_acls=mapped(_matching, acls))
            )
        self._tell("acls deleted", list(gone), caller)
        return DeleteAclsResponse(filter_results=results)

    def _tell(self, event: str, acls: Sequence[Acl], caller: Caller) -> None:
        """Log who changed what."""
        if acls:
            self._lines.tell(event, caller.peer, [str(each) for each in acls[:SHOWN]], len(acls))


# Any: a request or a part of one, with the same fields.
def _filter(asked: Any) -> AclFilter:
    return AclFilter(
        asked.resource_type_filter,
        asked.resource_name_filter,
        asked.pattern_type_filter,
        asked.principal_filter,
        asked.host_filter,
        asked.operation,
        asked.permission_type,
    )


def _created(asked: AclCreation) -> Acl:
    return Acl(
        asked.resource_type,
        asked.resource_name,
        asked.resource_pattern_type,
        asked.principal,
        asked.host,
        asked.operation,
        asked.permission_type,
    )


def _created_response(problems: Sequence[str | None]) -> CreateAclsResponse:
    def result(problem: str | None) -> AclCreationResult:
        error = ErrorCode.NONE if problem is None else _INVALID
        return AclCreationResult(error_code=error, error_message=problem or "")

    return CreateAclsResponse(results=mapped(result, problems))


def _all_failed(count: int, error: ErrorCode, message: str | None) -> CreateAclsResponse:
    result = AclCreationResult(error_code=error, error_message=message)
    return CreateAclsResponse(results=mapped(lambda _: result, range(count)))


def _none_deleted(count: int, error: ErrorCode, message: str | None) -> DeleteAclsResponse:
    result = DeleteAclsFilterResult(error_code=error, error_message=message)
    return DeleteAclsResponse(filter_results=mapped(lambda _: result, range(count)))


def _matching(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource,
        resource_name=acl.name,
        pattern_type=acl.pattern,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
