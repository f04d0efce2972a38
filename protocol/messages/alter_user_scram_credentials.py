"""AlterUserScramCredentials: sets and removes SCRAM credentials of users (KIP-554).

A client derives the salted password, so that the password itself does not leave it.
"""

from groupkeeper.protocol.api_keys import ApiKey
from groupkeeper.protocol.message import empty, message, response_to, struct
from groupkeeper.protocol.types import Array, Bytes, Int8, Int16, Int32, NullableString, String


@struct
class ScramCredentialDeletion:
    """A credential to remove."""

    name: String = ""
    """Name of the user."""
    mechanism: Int8 = 0
    """1 for SCRAM-SHA-256, 2 for SCRAM-SHA-512."""


@struct
class ScramCredentialUpsertion:
    """A credential to set."""

    name: String = ""
    """Name of the user."""
    mechanism: Int8 = 0
    """1 for SCRAM-SHA-256, 2 for SCRAM-SHA-512."""
    iterations: Int32 = 0
    """Rounds of PBKDF2."""
    salt: Bytes = b""
    """Random bytes of the client."""
    salted_password: Bytes = b""
    """The key that PBKDF2 derives: a secret like the password."""

    def __repr__(self) -> str:
        return f"ScramCredentialUpsertion({self.name!r}, {self.mechanism}, {self.iterations})"


@message(key=ApiKey.ALTER_USER_SCRAM_CREDENTIALS, versions=(0, 0), flexible=0)
class AlterUserScramCredentialsRequest:
    """Credentials to remove and to set."""

    deletions: Array[ScramCredentialDeletion] = empty()
    """To remove."""
    upsertions: Array[ScramCredentialUpsertion] = empty()
    """To set."""


@struct
class AlterUserScramCredentialsResult:
    """The result for one user."""

    user: String = ""
    """Name of the user."""
    error_code: Int16 = 0
    error_message: NullableString = ""


@response_to(AlterUserScramCredentialsRequest)
class AlterUserScramCredentialsResponse:
    """One result for each user."""

    throttle_time_ms: Int32 = 0
    results: Array[AlterUserScramCredentialsResult] = empty()
    """The results by user."""
