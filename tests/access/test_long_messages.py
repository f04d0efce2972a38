"""Messages of logins that are as long as a server reads: they cost the event loop next to nothing,
and no memory. Each stands before the login, so anybody may send them.
"""

import time
import tracemalloc
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from groupkeeper.access.oauth import OAuthConversation
from groupkeeper.access.plain import PlainConversation, listed
from groupkeeper.access.sasl import Conversation, SaslFailed
from groupkeeper.access.scram import NONCE_LENGTH, ScramConversation
from groupkeeper.access.users import NAME_LENGTH, Users, user_key
from tests.access.conversations import SCRAM_256, SCRAM_PASSWORD, scram_final
from tests.access.damaged import validate_now
from tests.access.secured import stored

SIZE = 500_000
"""Nearly `sasl.server.max.receive.size`, if that is not set."""
MOST_S = 0.05
MOST_BYTES = 8 << 20

Begin = Callable[[], Conversation]


def plain() -> Conversation:
    return PlainConversation(listed({"alice": "secret"}))


def scram() -> Conversation:
    return ScramConversation(SCRAM_256, Users(dict))


def bearer() -> Conversation:
    return OAuthConversation(validate_now)


def filled(begin: bytes, piece: bytes, end: bytes, size: int = SIZE) -> bytes:
    return begin + piece * ((size - len(begin) - len(end)) // len(piece)) + end


LONG: dict[str, tuple[Begin, bytes]] = {
    "PLAIN, name": (plain, filled(b"\0", b"a", b"\0secret")),
    "PLAIN, password": (plain, filled(b"\0alice\0", b"a", b"")),
    "PLAIN, parts": (plain, bytes(SIZE)),
    "SCRAM, name": (scram, filled(b"n,,n=", b"a", b",r=abc")),
    "SCRAM, a name that fits": (scram, filled(b"n,,n=", b"a", b",r=abc", NAME_LENGTH)),
    "SCRAM, escapes": (scram, filled(b"n,,n=", b"=2C", b",r=abc")),
    "SCRAM, authorization id": (scram, filled(b"n,a=", b"=3D", b",n=a,r=abc")),
    "SCRAM, no end": (scram, filled(b"n,,n=", b"a", b"")),
    "SCRAM, nonce": (scram, filled(b"n,,n=a,r=", b"x", b"")),
    "SCRAM, a nonce that fits": (scram, filled(b"n,,n=a,r=", b"x", b"", NONCE_LENGTH)),
    "SCRAM, extensions": (scram, filled(b"n,,n=a,r=abc", b",a=b", b"")),
    "OAUTHBEARER, token": (bearer, filled(b"n,,\x01auth=Bearer ", b"a", b"\x01\x01")),
    "OAUTHBEARER, dots": (bearer, filled(b"n,,\x01auth=Bearer ", b".", b"\x01\x01", 130_000)),
    "OAUTHBEARER, pairs": (bearer, filled(b"n,,\x01", b"a=b\x01", b"\x01")),
    "OAUTHBEARER, fitting pairs": (bearer, filled(b"n,,\x01", b"a=b\x01", b"\x01", 130_000)),
    "OAUTHBEARER, authorization id": (bearer, filled(b"n,a=", b"a", b",\x01auth=Bearer a\x01\x01")),
}


def step(conversation: Conversation, token: bytes) -> None:
    with suppress(SaslFailed):
        found = conversation.step(token)
        if isinstance(found, Awaitable):
            found.close()  # type: ignore[attr-defined]  # what is verified is verified on a thread


@pytest.mark.parametrize("name", LONG)
def test_a_long_message_costs_little(name: str) -> None:
    begin, token = LONG[name]
    step(begin(), token[:100])  # what is compiled once is compiled
    times = []
    for _ in range(3):
        conversation, started = begin(), time.thread_time()
        step(conversation, token)
        times.append(time.thread_time() - started)
    tracemalloc.start()
    try:
        step(begin(), token)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert min(times) < MOST_S
    assert peak < MOST_BYTES


def test_a_final_message_is_not_long_either() -> None:
    users = Users(lambda: {user_key("carol", SCRAM_256): stored(SCRAM_256, SCRAM_PASSWORD)})
    conversation = ScramConversation(SCRAM_256, users)
    conversation.step(b"n,,n=carol,r=abc")
    with pytest.raises(SaslFailed, match="a message of more than"):
        conversation.step(filled(b"c=biws,r=", b"a", b",p=YWJj"))


@pytest.mark.parametrize("name", ["a" * NAME_LENGTH, "," * NAME_LENGTH, "a\nb", "=,="])
def test_the_longest_name_logs_in(name: str) -> None:
    escaped = name.replace("=", "=3D").replace(",", "=2C")
    users = Users(lambda: {user_key(name, SCRAM_256): stored(SCRAM_256, SCRAM_PASSWORD)})
    conversation = ScramConversation(SCRAM_256, users)
    for head in ("n,,", f"n,a={escaped},"):
        conversation = ScramConversation(SCRAM_256, users)
        bare = f"n={escaped},r=abc"
        first = conversation.step(f"{head}{bare}".encode()).reply
        final = scram_final(SCRAM_256, bare, first, SCRAM_PASSWORD, head)
        assert conversation.step(final).name == name
