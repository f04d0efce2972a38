"""API version ranges of several Kafka releases, so that a test broker can imitate one of them.

Source: the message definitions in the jars of kafka-clients 2.8.2 (for brokers with ZooKeeper),
3.9.1 and 4.1.0, and ApiVersions responses of 3.9.1 and 4.1.0 brokers.
"""

from collections.abc import Callable, Mapping
from copy import copy
from typing import Final

from groupkeeper.observe.logs import Logger
from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from groupkeeper.protocol.registry import APIS
from groupkeeper.testing.errors import WrongArgument
from groupkeeper.testing.wire.tap import Answer, Exchange

_Range = tuple[int, int]
"""First and last version."""

RELEASES: Final = ("2.8", "3.9", "4.1")

_RANGES: Final[Mapping[int, tuple[_Range | None, ...]]] = {
    # In the order of RELEASES; None: the release does not have the API.
    ApiKey.PRODUCE: ((0, 9), (0, 11), (0, 13)),
    ApiKey.FETCH: ((0, 12), (0, 17), (4, 18)),
    ApiKey.LIST_OFFSETS: ((0, 6), (0, 9), (1, 10)),
    ApiKey.METADATA: ((0, 11), (0, 12), (0, 13)),
    ApiKey.OFFSET_COMMIT: ((0, 8), (0, 9), (2, 9)),
    ApiKey.OFFSET_FETCH: ((0, 7), (0, 9), (1, 9)),
    ApiKey.FIND_COORDINATOR: ((0, 3), (0, 6), (0, 6)),
    ApiKey.JOIN_GROUP: ((0, 7), (0, 9), (0, 9)),
    ApiKey.HEARTBEAT: ((0, 4), (0, 4), (0, 4)),
    ApiKey.LEAVE_GROUP: ((0, 4), (0, 5), (0, 5)),
    ApiKey.SYNC_GROUP: ((0, 5), (0, 5), (0, 5)),
    ApiKey.DESCRIBE_GROUPS: ((0, 5), (0, 5), (0, 6)),
    ApiKey.LIST_GROUPS: ((0, 4), (0, 5), (0, 5)),
    ApiKey.SASL_HANDSHAKE: ((0, 1), (0, 1), (0, 1)),
    ApiKey.API_VERSIONS: ((0, 3), (0, 4), (0, 4)),
    ApiKey.CREATE_TOPICS: ((0, 7), (0, 7), (2, 7)),
    ApiKey.DELETE_TOPICS: ((0, 6), (0, 6), (1, 6)),
    ApiKey.DELETE_RECORDS: ((0, 2), (0, 2), (0, 2)),
    ApiKey.INIT_PRODUCER_ID: ((0, 4), (0, 5), (0, 5)),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: ((0, 4), (0, 4), (2, 4)),
    ApiKey.DESCRIBE_ACLS: ((0, 2), (0, 3), (1, 3)),
    ApiKey.CREATE_ACLS: ((0, 2), (0, 3), (1, 3)),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: ((0, 1), (0, 1), (0, 1)),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: ((0, 0), (0, 0), (0, 0)),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: ((0, 0), (0, 0), (0, 0)),
    ApiKey.DELETE_ACLS: ((0, 2), (0, 3), (1, 3)),
    ApiKey.DESCRIBE_CONFIGS: ((0, 4), (0, 4), (1, 4)),
    ApiKey.ALTER_CONFIGS: ((0, 2), (0, 2), (0, 2)),
    ApiKey.DESCRIBE_LOG_DIRS: ((0, 2), (0, 4), (1, 4)),
    ApiKey.SASL_AUTHENTICATE: ((0, 2), (0, 2), (0, 2)),
    ApiKey.CREATE_PARTITIONS: ((0, 3), (0, 3), (0, 3)),
    ApiKey.DELETE_GROUPS: ((0, 2), (0, 2), (0, 2)),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ((0, 1), (0, 1), (0, 1)),
    ApiKey.OFFSET_DELETE: ((0, 0), (0, 0), (0, 0)),
    ApiKey.DESCRIBE_QUORUM: (None, (0, 2), (0, 2)),
    ApiKey.DESCRIBE_CLUSTER: ((0, 0), (0, 1), (0, 2)),
    ApiKey.DESCRIBE_TRANSACTIONS: (None, (0, 0), (0, 0)),
    ApiKey.LIST_TRANSACTIONS: (None, (0, 1), (0, 2)),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (None, (0, 0), (0, 1)),
    ApiKey.LIST_CONFIG_RESOURCES: (None, (0, 0), (0, 1)),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (None, (0, 0), (0, 0)),
}

_log = Logger("testing")


def ranges_of(release: str) -> dict[int, _Range]:
    """Return the version ranges that both the release and this server support, by API key. Raises
    WrongArgument.
    """
    if release not in RELEASES:
        known = ", ".join(RELEASES)
        raise WrongArgument(f"as_version={release!r} is not supported; known are {known}")
    at = RELEASES.index(release)
    found = {}
    for key, of_releases in _RANGES.items():
        theirs, (low, high) = of_releases[at], APIS[key].advertised
        if theirs is not None:
            found[key] = max(low, theirs[0]), min(high, theirs[1])
    return found


class AsRelease:
    """A layer that serves only the API versions of one Kafka release."""

    def __init__(self, release: str) -> None:
        """Raises WrongArgument."""
        self._release = release
        self._ranges = ranges_of(release)

    def take(self, exchange: Exchange, proceed: Callable[[], None]) -> None:
        """Pass supported versions on, and close the connection on others, as Kafka does."""
        key, version = exchange.key, exchange.caller.api_version
        low, high = self._ranges.get(key, (0, -1))
        if low <= version <= high:
            if key == ApiKey.API_VERSIONS:
                exchange.on_answer(self._cut)
            proceed()
        elif key == ApiKey.API_VERSIONS:  # KIP-511: a version 0 response with ApiVersions' range
            exchange.call.header.api_version = 0
            own = [ApiVersion(api_key=key, min_version=low, max_version=high)]
            error = ErrorCode.UNSUPPORTED_VERSION
            exchange.answer(ApiVersionsResponse(error_code=error, api_keys=own))
        else:
            received = f"{APIS[key].name} version {version}, which {self._release} does not serve"
            client_id = exchange.caller.peer.client_id
            _log.warning("connection refused", received=received, client_id=client_id)
            exchange.call.sender.close()

    def _cut(self, answer: Answer) -> Answer:
        if answer.error_code:
            return answer
        answer = copy(answer)
        answer.api_keys = [
            ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in sorted(self._ranges.items())
        ]
        return answer
