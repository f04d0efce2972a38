"""DescribeUserScramCredentials: which SCRAM credentials users have (KIP-554)."""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, struct
from groupkeeper.protocol.types import (
    Array,
    Int8,
    Int16,
    Int32,
    NullableArray,
    NullableString,
    String,
)


@struct
class UserName:
    """A user."""

    name: String = ""
    """Name of the user."""


@message(key=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions=(0, 0), flexible=0)
class DescribeUserScramCredentialsRequest:
    """Names the users."""

    users: NullableArray[UserName] = empty()
    """Users to describe; null or empty for all."""


@struct
class CredentialInfo:
    """A credential, without its keys."""

    mechanism: Int8 = 0
    """1 for SCRAM-SHA-256, 2 for SCRAM-SHA-512."""
    iterations: Int32 = 0
    """Rounds of PBKDF2."""


@struct
class DescribeUserScramCredentialsResult:
    """The credentials of one user, or an error."""

    user: String = ""
    """Name of the user."""
    error_code: Int16 = 0
    error_message: NullableString = ""
    credential_infos: Array[CredentialInfo] = empty()
    """One for each mechanism."""


@response_to(DescribeUserScramCredentialsRequest)
class DescribeUserScramCredentialsResponse:
    """One result for each user."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = ""
    results: Array[DescribeUserScramCredentialsResult] = empty()
    """The results by user."""
