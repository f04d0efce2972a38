"""Describes and changes the SCRAM credentials of users (KIP-554)."""

from collections.abc import Mapping, Sequence
from typing import Any

from groupkeeper.client.client import Client
from groupkeeper.client.group_configs import Failure
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from groupkeeper.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)


async def describe_users(client: Client, names: Sequence[str]) -> dict[str, Mapping[int, int]]:
    """Return the rounds of each credential by its mechanism's number, by user; of all users without
    names. A user that does not exist has none. Raises CallFailed.
    """
    asked = [UserName(name=each) for each in dict.fromkeys(names)]
    answer = await client.call(DescribeUserScramCredentialsRequest(users=asked))
    return {
        each.user: {one.mechanism: one.iterations for one in each.credential_infos}
        for each in answer.results
        if each.error_code in (ErrorCode.NONE, ErrorCode.RESOURCE_NOT_FOUND)
    }


async def set_credential(
    client: Client, name: str, mechanism: int, iterations: int, salt: bytes, salted: bytes
) -> Failure | None:
    """Set a credential; return the refusal. Raises CallFailed."""
    row = ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted
    )
    answer = await client.call(AlterUserScramCredentialsRequest(upsertions=[row]))
    return _failure(answer)


async def remove_credential(client: Client, name: str, mechanism: int) -> Failure | None:
    """Remove a credential; return the refusal. Raises CallFailed."""
    row = ScramCredentialDeletion(name=name, mechanism=mechanism)
    return _failure(await client.call(AlterUserScramCredentialsRequest(deletions=[row])))


def _failure(answer: Any) -> Failure | None:  # Any: an AlterUserScramCredentialsResponse
    for each in answer.results:
        if each.error_code:
            return Failure(ErrorCode(each.error_code), each.error_message or "")
    return None
