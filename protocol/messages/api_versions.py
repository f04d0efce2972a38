"""ApiVersions: the APIs and versions of the server, the first request on most connections.

Responses have header v0 in every version (KIP-511), and a request of an unknown version is answered
in version 0.
"""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, since, struct, tagged
from groupkeeper.protocol.types import Array, Boolean, Int16, Int32, Int64, String


@message(key=ApiKey.API_VERSIONS, versions=(0, 4), flexible=3)
class ApiVersionsRequest:
    """Requests the served versions.

    Version 3 adds the client software (KIP-511); version 4 allows features whose minimum is 0.
    """

    client_software_name: String = since(3)
    """Name of the client library."""
    client_software_version: String = since(3)
    """Version of the client library."""


@struct
class ApiVersion:
    """The versions of one API."""

    api_key: Int16 = 0
    """The API, an `ApiKey`."""
    min_version: Int16 = 0
    """Oldest version that is advertised."""
    max_version: Int16 = 0
    """Newest version that is advertised."""


@struct
class SupportedFeatureKey:
    """A feature and the levels that the broker supports (KIP-584)."""

    name: String = since(3)
    """Name of the feature."""
    min_version: Int16 = since(3)
    """Lowest level that the broker can run."""
    max_version: Int16 = since(3)
    """Highest level that the broker can run."""


@struct
class FinalizedFeatureKey:
    """A feature and the levels that the cluster has finalized (KIP-584)."""

    name: String = since(3)
    """Name of the feature."""
    max_version_level: Int16 = since(3)
    """Highest level that the cluster uses."""
    min_version_level: Int16 = since(3)
    """Lowest level that the cluster uses."""


@response_to(ApiVersionsRequest)
class ApiVersionsResponse:
    """The served versions; version 3 adds features as tagged fields (KIP-584)."""

    error_code: Int16 = 0
    """0, or UNSUPPORTED_VERSION if the request's own version is unknown."""
    api_keys: Array[ApiVersion] = empty()
    """Versions of each API that the server answers."""
    throttle_time_ms: Int32 = since(1)
    supported_features: Array[SupportedFeatureKey] = tagged(0, since=3)
    """Features of the broker; up to version 3 none whose minimum is 0."""
    finalized_features_epoch: Int64 = tagged(1, since=3, default=-1)
    """Grows with each change of `finalized_features`; -1 if unknown."""
    finalized_features: Array[FinalizedFeatureKey] = tagged(2, since=3)
    """Features of the cluster; valid only if the epoch is not -1."""
    zk_migration_ready: Boolean = tagged(3, since=3)
    """Whether a KRaft controller could take over from ZooKeeper."""
