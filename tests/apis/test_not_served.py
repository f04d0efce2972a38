"""APIs about what there is not: access rules and transactions."""

import pytest

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.describe_acls import DescribeAclsRequest
from groupkeeper.protocol.messages.describe_transactions import DescribeTransactionsRequest
from groupkeeper.protocol.messages.list_transactions import ListTransactionsRequest
from tests.topics.scene import Scene


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_access_control_is_told_to_be_off(scene: Scene, version: int) -> None:
    response = await scene.ask(version, DescribeAclsRequest())
    assert response.error_code == ErrorCode.SECURITY_DISABLED
    assert response.error_message == "No Authorizer is configured on the broker"


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_no_transaction_is_listed(scene: Scene, version: int) -> None:
    request = ListTransactionsRequest(state_filters=["Ongoing", "nonsense", "nonsense"])
    response = await scene.ask(version, request)
    assert (response.error_code, response.transaction_states) == (0, [])
    assert response.unknown_state_filters == ["nonsense"]


async def test_no_transactional_id_is_known(scene: Scene) -> None:
    request = DescribeTransactionsRequest(transactional_ids=["pay", ""])
    told = (await scene.ask(0, request)).transaction_states
    assert [(each.transactional_id, each.error_code) for each in told] == [
        ("pay", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
        ("", ErrorCode.INVALID_REQUEST),
    ]
