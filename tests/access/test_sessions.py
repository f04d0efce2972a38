"""Logins under virtual time: sessions that end, delays of failures, and what does not wait."""

from collections.abc import Iterator
from typing import Any

import pytest

from groupkeeper.access.acls import Acl, PatternKind, Permission
from groupkeeper.connections import sasl_connection
from groupkeeper.protocol.acl_codes import Operation, ResourceKind
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.list_groups import ListGroupsRequest
from groupkeeper.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from groupkeeper.protocol.messages.sasl_handshake import SaslHandshakeRequest
from groupkeeper.settings.options import Listen, SecurityProtocol
from tests.access.record import MODULES
from tests.support.requests import heartbeat, join_request
from tests.support.served import FAST, Client, Served, settle

SASL = ("127.0.0.1", 9093)
LISTENER = Listen("SASL_PLAINTEXT", SASL, protocol=SecurityProtocol.SASL_PLAINTEXT)
JAAS = (
    "listener.name.sasl_plaintext.plain.sasl.jaas.config="
    f'{MODULES}.plain.PlainLoginModule required user_alice="alice-secret";'
)
SESSION_S = 10.0
DELAY_S = 0.5


@pytest.fixture
def served() -> Iterator[Served]:
    server = Served(
        *("sasl.enabled.mechanisms=PLAIN", JAAS, *FAST),
        f"connections.max.reauth.ms={SESSION_S * 1000:.0f}",
        f"connection.failed.authentication.delay.ms={DELAY_S * 1000:.0f}",
        listeners=[LISTENER],
    )
    yield server
    server.close()


def log_in(client: Client, password: str = "alice-secret") -> Any:
    client.call(1, SaslHandshakeRequest(mechanism="PLAIN"))
    token = f"\0alice\0{password}".encode()
    return client.call(2, SaslAuthenticateRequest(auth_bytes=token))


def logged_in(served: Served) -> Client:
    client = served.client(SASL)
    assert log_in(client).session_lifetime_ms == SESSION_S * 1000
    return client


def seconds(served: Served) -> float:
    return served.loop.time()


def ended(served: Served, client: Client) -> bool:
    served.advance(0.01)
    return client.closed


# -- the end of a session --------------------------------------------------------------------------


def test_a_member_that_beats_is_stopped_at_its_first_beat_after_the_end(
    served: Served, decoded: list[int]
) -> None:
    client = logged_in(served)
    began = seconds(served)
    member_id, generation = settle(client)
    client.beat(member_id, generation)
    decoded.clear()
    while seconds(served) + 0.1 < began + SESSION_S:
        served.advance(0.1)
        assert client.beat(member_id, generation) == 0
    assert len(decoded) <= 1  # all others took the short cut
    served.advance(began + SESSION_S - seconds(served) + 0.01)
    client.send(4, heartbeat(member_id, generation))
    assert ended(served, client) and not client.frames
    assert served.server.metrics.authentications["SASL_PLAINTEXT", "PLAIN", "expired"] == 1


def test_commits_that_repeat_are_stopped_too(served: Served) -> None:
    client = logged_in(served)
    member_id, generation = settle(client, session_timeout_ms=60_000)
    for offset in range(20):
        member = {"member_id": member_id, "generation": generation}
        assert client.commit(offset, **member) == 0
    served.advance(SESSION_S)
    client.pipe.write(client.commit_frame(20, **member))
    assert ended(served, client) and not client.frames


def test_nobody_is_closed_between_requests(served: Served) -> None:
    client = logged_in(served)
    served.advance(5 * SESSION_S)
    assert not client.closed
    client.send(4, ListGroupsRequest())
    assert ended(served, client)


def test_a_login_without_an_end_goes_on() -> None:
    served = Served("sasl.enabled.mechanisms=PLAIN", JAAS, *FAST, listeners=[LISTENER])
    client = served.client(SASL)
    assert log_in(client).session_lifetime_ms == 0
    member_id, generation = settle(client)
    for _ in range(100):
        served.advance(9)
        assert client.beat(member_id, generation) == 0
    served.close()


def test_a_request_that_waits_is_answered_after_the_end(served: Served) -> None:
    leader, follower = logged_in(served), logged_in(served)
    first = leader.join(rebalance_timeout_ms=60_000, session_timeout_ms=60_000)
    follower.send(3, join_request(session_timeout_ms=60_000, rebalance_timeout_ms=60_000))
    served.advance(SESSION_S + 1)
    again = served.client()
    again.join(member_id=first.member_id, session_timeout_ms=60_000)
    assert follower.take().error_code == 0
    follower.send(4, ListGroupsRequest())
    assert ended(served, follower)


def test_who_logs_in_again_stays_without_a_rebalance(served: Served) -> None:
    client = logged_in(served)
    member_id, generation = settle(client)
    for _ in range(20):
        for _ in range(4):
            served.advance(2)
            assert client.beat(member_id, generation) == 0
        assert log_in(client).session_lifetime_ms == SESSION_S * 1000
    counts = served.server.metrics.authentications
    assert counts["SASL_PLAINTEXT", "PLAIN", "reauthenticated"] == 20
    assert served.group().generation == generation


def test_an_expired_client_may_still_log_in_again(served: Served) -> None:
    """As on Kafka, which looks at the handshake first."""
    client = logged_in(served)
    served.advance(3 * SESSION_S)
    log_in(client)
    assert client.call(4, ListGroupsRequest()).error_code == 0


def test_the_short_cut_ends_with_a_reauthentication(served: Served) -> None:
    client = logged_in(served)
    member_id, generation = settle(client)
    assert [client.beat(member_id, generation) for _ in range(3)] == [0, 0, 0]
    served.advance(2)
    client.call(1, SaslHandshakeRequest(mechanism="PLAIN"))
    assert client.beat(member_id, generation) == ErrorCode.ILLEGAL_SASL_STATE
    assert ended(served, client)


# -- failures --------------------------------------------------------------------------------------


def test_a_failure_is_answered_after_the_delay_and_nobody_else_waits(served: Served) -> None:
    client, other = served.client(SASL), logged_in(served)
    began = seconds(served)
    client.call(1, SaslHandshakeRequest(mechanism="PLAIN"))
    client.send(2, SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"))
    served.advance(DELAY_S / 2)
    assert not client.frames and not client.closed
    assert other.call(4, ListGroupsRequest()).error_code == 0
    assert client.take().error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert seconds(served) - began >= DELAY_S
    assert ended(served, client)


def test_a_client_that_is_gone_is_forgotten(served: Served) -> None:
    client = served.client(SASL)
    client.call(1, SaslHandshakeRequest(mechanism="PLAIN"))
    client.send(2, SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"))
    served.advance(DELAY_S / 2)
    client.hang_up()
    served.advance(2 * DELAY_S)
    assert len(served.server.listener.connections.opened) == 0 + len(open_plain(served))


def open_plain(served: Served) -> list[Any]:
    """Connections of the plain listener, such as the one that made the topics."""
    opened = served.server.listener.connections.opened
    return [each for each in opened if each.peer.listener == "PLAINTEXT"]


def test_failures_that_wait_are_limited(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sasl_connection, "DELAYED_MOST", 2)
    clients = [served.client(SASL) for _ in range(3)]
    for client in clients:
        client.call(1, SaslHandshakeRequest(mechanism="PLAIN"))
        client.send(2, SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"))
        served.advance(0.01)
    assert [each.closed for each in clients] == [False, False, True]
    assert not clients[2].frames
    served.advance(DELAY_S)
    assert [len(each.frames) for each in clients] == [1, 1, 0]
    assert all(each.closed for each in clients)
    late = served.client(SASL)
    late.call(1, SaslHandshakeRequest(mechanism="PLAIN"))
    late.send(2, SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"))
    served.advance(DELAY_S / 2)
    assert not late.closed


def test_what_follows_a_failure_is_not_answered(served: Served) -> None:
    client = served.client(SASL)
    frames = [client.frame(1, SaslHandshakeRequest(mechanism="GSSAPI"))]
    frames += [client.frame(4, ListGroupsRequest()) for _ in range(3)]
    client.deliver(*frames)
    assert client.take().error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert ended(served, client) and not client.frames


def test_many_wrong_passwords_leave_nothing_behind(served: Served) -> None:
    for _ in range(50):
        client = served.client(SASL)
        assert log_in(client, "wrong").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        served.advance(0.01)
    connections = served.server.listener.connections
    assert len(connections.opened) == len(open_plain(served)) and not connections.orphans
    assert served.server.metrics.authentications["SASL_PLAINTEXT", "PLAIN", "failed"] == 50


def test_the_name_of_the_client_is_known_to_its_group(served: Served) -> None:
    client = logged_in(served)
    settle(client)
    [connection] = [
        each
        for each in served.server.listener.connections.opened
        if each.peer.listener == "SASL_PLAINTEXT"
    ]
    assert connection.peer.principal == "User:alice"


# -- with an authorizer ----------------------------------------------------------------------------

AUTHORIZER = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@pytest.fixture
def guarded() -> Iterator[Served]:
    server = Served(
        *("sasl.enabled.mechanisms=PLAIN", JAAS, *FAST, AUTHORIZER),
        "allow.everyone.if.no.acl.found=true",
        f"connections.max.reauth.ms={SESSION_S * 1000:.0f}",
        listeners=[LISTENER],
    )
    yield server
    server.close()


def acl(operation: Operation, permission: Permission) -> Acl:
    who, anywhere = "User:alice", "*"
    about = ResourceKind.GROUP, "g", PatternKind.LITERAL
    return Acl(*about, who, anywhere, operation, permission)


def steady_member(served: Served, decoded: list[int]) -> tuple[Client, tuple[str, int]]:
    """A member whose heartbeats take the short cut."""
    rights = served.server._rights
    assert rights is not None
    rights.authorizer.add(acl(Operation.READ, Permission.ALLOW))
    client = logged_in(served)
    member = settle(client)
    client.beat(*member)
    decoded.clear()
    for _ in range(20):
        served.advance(0.1)
        assert client.beat(*member) == 0
    assert len(decoded) <= 1
    return client, member


def test_a_member_with_rights_is_stopped_at_the_end_of_its_session(
    guarded: Served, decoded: list[int]
) -> None:
    client, member = steady_member(guarded, decoded)
    guarded.advance(SESSION_S)
    client.send(4, heartbeat(*member))
    assert ended(guarded, client) and not client.frames


@pytest.mark.parametrize("revoke", [True, False])
def test_a_member_is_stopped_at_its_first_beat_after_its_right_is_revoked(
    guarded: Served, decoded: list[int], revoke: bool
) -> None:
    client, member = steady_member(guarded, decoded)
    rights = guarded.server._rights
    assert rights is not None
    if revoke:
        rights.authorizer.remove(acl(Operation.READ, Permission.ALLOW))
        rights.authorizer.add(acl(Operation.DELETE, Permission.ALLOW))
    else:
        rights.authorizer.add(acl(Operation.READ, Permission.DENY))
    assert client.beat(*member) == ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_a_commit_that_repeats_is_refused_after_its_right_is_revoked(
    guarded: Served, decoded: list[int]
) -> None:
    client, (member_id, generation) = steady_member(guarded, decoded)
    rights = guarded.server._rights
    assert rights is not None
    member = {"member_id": member_id, "generation": generation}
    for offset in range(5):
        assert client.commit(offset, **member) == 0
    rights.authorizer.add(acl(Operation.READ, Permission.DENY))
    assert client.commit(5, **member) == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert log_in(client).session_lifetime_ms == SESSION_S * 1000
    for offset in range(2):
        assert client.commit(offset, **member) == ErrorCode.GROUP_AUTHORIZATION_FAILED
