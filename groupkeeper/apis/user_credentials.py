"""DescribeUserScramCredentials and AlterUserScramCredentials: the users that can log in with SCRAM.

A request's changes are durable together, or none is. Sessions of a user whose credential is removed
go on until they end, as in Kafka. Keys are never part of an answer or a line.

Source: Kafka's `ScramControlManager`, `ScramImage.describe`; KIP-554.
"""

from collections.abc import Sequence
from typing import Final

from groupkeeper.access.users import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    NAME_LENGTH,
    SCRAM_TYPES,
    TYPE_OF,
    Users,
    credential,
    load_hashes,
    user_key,
)
from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo, Response
from groupkeeper.observe.seldom import SHOWN, AuditLines
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from groupkeeper.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from groupkeeper.storage.errors import StorageError
from groupkeeper.topics.catalog import AccessChange
from groupkeeper.topics.refusals import Refusal
from groupkeeper.topics.slices import Pace, counts, each
from groupkeeper.topics.topic_admin import UNWRITABLE
from groupkeeper.topics.topics import Topics
from groupkeeper.turns import Slices

ENTRIES_MOST: Final = 250_000
"""Users and ACLs that the catalog may have; more users are refused."""
SALT_LENGTH: Final = 1_024
"""Longest salt, in bytes."""
_TWICE: Final = Refusal(
    ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
)

_Row = ScramCredentialDeletion | ScramCredentialUpsertion


class UserCredentialsHandler:
    """Answers both APIs."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._users = Users(lambda: topics.catalog.access)
        self._lines = AuditLines()

    # -- describe ------------------------------------------------------------------------------

    def describe(
        self, request: DescribeUserScramCredentialsRequest, caller: Caller, reply_to: ReplyTo
    ) -> Slices[Response]:
        """Describe the users of the request, or all of them."""
        asked = [one.name for one in request.users or ()]
        if asked:
            times = yield from counts(asked, lambda name: name)
        else:
            found = yield from each(self._users.names(), lambda name: name)
            times = {name: 1 for name in found if name is not None}
        results = yield from each(times, lambda name: self._described(name, times[name]))
        return DescribeUserScramCredentialsResponse(results=results)

    def _described(self, name: str, times: int) -> DescribeUserScramCredentialsResult:
        result = DescribeUserScramCredentialsResult(user=name, error_message=None)
        found = self._users.iterations(name)
        if times > 1:
            result.error_code = ErrorCode.DUPLICATE_RESOURCE
            result.error_message = (
                "Cannot describe SCRAM credentials for the same user twice in a single request: "
                + name
            )
        elif not found:
            result.error_code = ErrorCode.RESOURCE_NOT_FOUND
            result.error_message = (
                f"Attempt to describe a user credential that does not exist: {name}"
            )
        result.credential_infos = [
            CredentialInfo(mechanism=TYPE_OF[mechanism], iterations=iterations)
            for mechanism, iterations in found.items()
            if times == 1
        ]
        return result

    # -- alter ---------------------------------------------------------------------------------

    def alter(
        self, request: AlterUserScramCredentialsRequest, caller: Caller, reply_to: ReplyTo
    ) -> None:
        """Change credentials, and reply when that is durable."""
        rows: list[_Row] = [*request.deletions, *request.upsertions]
        work = self._alter(rows, caller)
        self._topics.response_tasks.start(work, reply_to, lambda: _all_failed(rows))

    async def _alter(self, rows: Sequence[_Row], caller: Caller) -> Response:
        topics = self._topics
        async with topics.admin.changing:
            turns = topics.response_tasks.turns
            await topics.worker(load_hashes)
            refused, changes = await turns.run(self._checked(rows))
            entries = [entry for row, entry in changes.values()]
            try:
                await topics.catalog.change_access(entries, topics.wall_ms())
            except StorageError as error:
                topics.failed("users", error)
                refusal = Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, UNWRITABLE)
                refused |= dict.fromkeys(changes, refusal)
                changes = {}
        if changes:
            self._tell([row for row, _ in changes.values()], caller)
        made = AlterUserScramCredentialsResult
        results = [made(user=name, error_message=None) for name in changes]
        results += [
            made(user=name, error_code=code, error_message=message)
            for name, (code, message) in refused.items()
        ]
        return AlterUserScramCredentialsResponse(results=results)

    def _tell(self, rows: Sequence[_Row], caller: Caller) -> None:
        """Log who changed whose credentials."""
        for event, kind in (
            ("credentials set", ScramCredentialUpsertion),
            ("credentials removed", ScramCredentialDeletion),
        ):
            some = [row for row in rows if type(row) is kind]
            if some:
                names = [f"{row.name} {SCRAM_TYPES[row.mechanism]}" for row in some[:SHOWN]]
                self._lines.tell(event, caller.peer, names, len(some))

    def _checked(
        self, rows: Sequence[_Row]
    ) -> Slices[tuple[dict[str, Refusal], dict[str, tuple[_Row, AccessChange]]]]:
        """Return the refused and the accepted rows, by user: a user occurs once in a request."""
        refused: dict[str, Refusal] = {}
        changes: dict[str, tuple[_Row, AccessChange]] = {}
        pace = Pace()
        for row in rows:
            if pace.spent(3):  # the keys of a credential
                yield
            name = row.name
            if name in refused:
                continue
            refusal = _TWICE if changes.pop(name, None) is not None else self._refusal(row)
            if refusal is None:
                changes[name] = row, _entry(row)
            else:
                refused[name] = refusal
        return refused, changes

    def _refusal(self, row: _Row) -> Refusal | None:
        """Check a row by itself, in Kafka's order and words."""
        mechanism = SCRAM_TYPES.get(row.mechanism)
        if not row.name:
            return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
        if mechanism is None:
            return Refusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
        is_known = self._users.find(row.name, mechanism) is not None
        if isinstance(row, ScramCredentialDeletion):
            message = "Attempt to delete a user credential that does not exist"
            return None if is_known else Refusal(ErrorCode.RESOURCE_NOT_FOUND, message)
        if problem := _problem(row):
            return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, problem)
        if not is_known and len(self._topics.catalog.access) >= ENTRIES_MOST:
            message = f"This server has at most {ENTRIES_MOST} users and ACLs"
            return Refusal(ErrorCode.POLICY_VIOLATION, message)
        return None


def _problem(row: ScramCredentialUpsertion) -> str:
    """Return what is wrong with a credential; empty for nothing."""
    if row.iterations < MIN_ITERATIONS:
        return "Too few iterations"
    if row.iterations > MAX_ITERATIONS:
        return "Too many iterations"
    if len(row.name) > NAME_LENGTH:
        return f"A name has at most {NAME_LENGTH} characters"
    return "" if len(row.salt) <= SALT_LENGTH else f"A salt has at most {SALT_LENGTH} bytes"


def _entry(row: _Row) -> AccessChange:
    """Return the catalog's entry of an accepted row."""
    mechanism = SCRAM_TYPES[row.mechanism]
    key = user_key(row.name, mechanism)
    if isinstance(row, ScramCredentialDeletion):
        return key, None
    salted, salt = bytes(row.salted_password), bytes(row.salt)
    return key, credential(mechanism, salted, salt, row.iterations).entry


def _all_failed(rows: Sequence[_Row]) -> Response:
    """Return the answer after a bug."""
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    names = dict.fromkeys(row.name for row in rows)
    results = [AlterUserScramCredentialsResult(user=name, error_code=code) for name in names]
    return AlterUserScramCredentialsResponse(results=results)
