"""ApiVersions: the version ranges of all APIs that have a handler.

Source: Kafka's `KafkaApis.handleApiVersionsRequest`; KIP-511 (the client's software).
"""

import re
from collections.abc import Iterable
from typing import Final

from groupkeeper.coordinator.caller import Caller
from groupkeeper.exchange import ReplyTo
from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from groupkeeper.protocol.registry import APIS

SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
"""Valid names and versions of client software (KIP-511)."""


class ApiVersionsHandler:
    """Answers ApiVersions."""

    def __init__(self, keys: Iterable[int]) -> None:
        self._api_keys = [
            ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in sorted((k, APIS[k].advertised) for k in keys)
        ]

    def handle(
        self, request: ApiVersionsRequest, caller: Caller, reply_to: ReplyTo
    ) -> ApiVersionsResponse:
        named = (request.client_software_name, request.client_software_version)
        if caller.api_version >= 3 and not all(SOFTWARE.fullmatch(name) for name in named):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        if caller.api_version >= 3:
            caller.peer.software_name, caller.peer.software_version = named
        return ApiVersionsResponse(api_keys=self._api_keys)

    def unknown_version(
        self, request: None, caller: Caller, reply_to: ReplyTo
    ) -> ApiVersionsResponse:
        """Make the error in version 0, with the range of ApiVersions, for a retry."""
        own = [each for each in self._api_keys if each.api_key == ApiKey.API_VERSIONS]
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=own)
