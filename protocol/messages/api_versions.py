"""ApiVersions (key 18): what the server speaks, asked first on every connection.

Responses have header v0 in every version, and a request of an unknown version is answered in the
layout of version 0.
"""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, since, struct, tagged
from groupkeeper.protocol.types import Array, Boolean, Int16, Int32, Int64, String


@message(key=ApiKey.API_VERSIONS, versions=(0, 4), flexible=3)
class ApiVersionsRequest:
    """Asks for the served versions.

    Version 3 names the client software (KIP-511), 4 is for features from 0 on.
    """

    client_software_name: String = since(3)
    client_software_version: String = since(3)


@struct
class ApiVersion:
    """The versions of one API."""

    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


@struct
class SupportedFeatureKey:
    """A feature and the levels the broker could run (KIP-584)."""

    name: String = since(3)
    min_version: Int16 = since(3)
    max_version: Int16 = since(3)


@struct
class FinalizedFeatureKey:
    """A feature and the levels the cluster runs (KIP-584)."""

    name: String = since(3)
    max_version_level: Int16 = since(3)
    min_version_level: Int16 = since(3)


@response_to(ApiVersionsRequest)
class ApiVersionsResponse:
    """The served versions; version 3 adds features as tagged fields (KIP-584)."""

    error_code: Int16 = 0
    api_keys: Array[ApiVersion] = empty()
    throttle_time_ms: Int32 = since(1)
    supported_features: Array[SupportedFeatureKey] = tagged(0, since=3)
    finalized_features_epoch: Int64 = tagged(1, since=3, default=-1)
    finalized_features: Array[FinalizedFeatureKey] = tagged(2, since=3)
    zk_migration_ready: Boolean = tagged(3, since=3)
