"""The login of a connection by itself: phases, names, lifetimes, lines."""

import hashlib
import hmac
import json
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Awaitable
from typing import Any

import pytest

from groupkeeper.access.audit import LoginAudit
from groupkeeper.access.login import NAME_LENGTH, TOKENS_MOST, Login, Phase, Sasl, TokenOutcome
from groupkeeper.access.plain import PlainConversation, listed, stored
from groupkeeper.access.sasl import SaslFailed, SaslStep
from groupkeeper.access.users import (
    MIN_ITERATIONS,
    SCRAM_TYPES,
    Users,
    credential,
    is_password,
    salted_password,
    user_key,
)
from groupkeeper.observe.log_writer import Line, readable
from groupkeeper.observe.seldom import AUDIT_S
from tests.support.served import Lines

SALT = b"0123456789abcdef"


class Scripted:
    """A conversation whose steps a test chooses."""

    def __init__(self, *steps: SaslStep | SaslFailed) -> None:
        self._steps = [*steps]
        self.tried = "somebody"

    def step(self, token: bytes) -> SaslStep:
        found = self._steps.pop(0) if self._steps else SaslStep(b"more")
        if isinstance(found, SaslFailed):
            raise found
        return found


class Scene:
    """A listener with one mechanism."""

    def __init__(self, *steps: SaslStep | SaslFailed, lifetime_ms: int = 0) -> None:
        self.now = 100.0
        self.counts = Counter[tuple[str, ...]]()
        self.sasl = Sasl(
            listener="L",
            mechanisms={"M": lambda: Scripted(*steps), "N": Scripted},
            lifetime_ms={"M": lifetime_ms},
            seconds=lambda: self.now,
            wall_ms=lambda: 1_000_000,
            audit=LoginAudit(self.counts, lambda: self.now),
        )
        self.login = Login(self.sasl, "/10.0.0.7")

    def step(self) -> TokenOutcome:
        outcome = self.login.token(b"token")
        assert isinstance(outcome, TokenOutcome)
        return outcome

    def whole(self) -> TokenOutcome:
        self.login.handshake("M", 1)
        return self.step()


@pytest.mark.parametrize(
    ("lifetime_ms", "expires_ms", "told", "until"),
    [
        (0, None, 0, float("inf")),
        (5_000, None, 5_000, 105.0),
        (0, 1_003_000, 3_000, 103.0),
        (5_000, 1_003_000, 3_000, 103.0),
        (2_000, 1_003_000, 2_000, 102.0),
        (0, 999_000, 0, 100.0),
    ],
)
def test_a_session_ends_with_the_setting_or_the_token(
    lifetime_ms: int, expires_ms: int | None, told: int, until: float
) -> None:
    scene = Scene(SaslStep(b"", "alice", expires_ms), lifetime_ms=lifetime_ms)
    assert scene.whole().lifetime_ms == told
    assert scene.login.until == until
    assert scene.login.principal == "User:alice"


def test_a_conversation_has_few_tokens() -> None:
    scene = Scene()
    scene.login.handshake("M", 1)
    for _ in range(TOKENS_MOST):
        assert not scene.step().ends
    assert scene.step().ends and scene.login.phase is Phase.FAILED


def test_a_name_is_not_too_long() -> None:
    scene = Scene(SaslStep(b"", "a" * (NAME_LENGTH + 1)))
    assert scene.whole().ends and not scene.login.principal


def test_a_session_is_renewed_once_a_second_at_most() -> None:
    scene = Scene(SaslStep(b"", "alice"), lifetime_ms=60_000)
    scene.whole()
    assert scene.login.may_begin_again(100.0)
    scene.login.begin_again(100.0)
    scene.whole()
    assert not scene.login.may_begin_again(100.9)
    assert scene.login.may_begin_again(101.0)


def test_a_login_without_an_end_is_not_renewed() -> None:
    scene = Scene(SaslStep(b"", "alice"))
    scene.whole()
    assert not scene.login.may_begin_again(500.0)


def test_outcomes_are_counted() -> None:
    scene = Scene(SaslStep(b"", "alice"), lifetime_ms=60_000)
    scene.whole()
    scene.login.begin_again(100.0)
    scene.whole()
    scene.login.expired()
    Login(scene.sasl).handshake("X" * 100, 1)
    Login(scene.sasl).fail("no login")
    assert scene.counts == {
        ("L", "M", "succeeded"): 1,
        ("L", "M", "reauthenticated"): 1,
        ("L", "M", "expired"): 1,
        ("L", "other", "failed"): 1,
        ("L", "none", "failed"): 1,
    }


def test_a_failure_is_a_line_a_second_for_each_address(lines: Lines) -> None:
    scene = Scene(SaslFailed("the password is wrong"))
    for _ in range(5):
        scene.login = Login(scene.sasl, "/10.0.0.7")
        scene.whole()
    Login(scene.sasl, "/10.0.0.8").fail("other")
    scene.now += AUDIT_S
    scene.login = Login(scene.sasl, "/10.0.0.7")
    scene.whole()
    first, other, last = lines()
    assert (first["principal"], first["client"]) == ("User:somebody", "/10.0.0.7")
    assert (first["mechanism"], first["listener"], first["times"]) == ("M", "L", 1)
    assert first["why"] == "the password is wrong"
    assert other["client"] == "/10.0.0.8" and other["principal"] is None
    assert last["times"] == 5


def test_logins_are_a_line_a_second_for_each_address(lines: Lines) -> None:
    scene = Scene(SaslStep(b"", "alice"), lifetime_ms=60_000)
    for _ in range(3):
        scene.login = Login(scene.sasl, "/10.0.0.7")
        scene.whole()
    scene.login.begin_again(scene.now)
    scene.whole()  # which is none of a new client
    scene.now += AUDIT_S
    scene.login = Login(scene.sasl, "/10.0.0.7")
    scene.whole()
    told = [(each["event"], each["principal"], each["times"]) for each in lines()]
    assert told == [("logged in", "User:alice", 1), ("logged in", "User:alice", 3)]


def test_a_name_with_quotes_and_newlines_is_escaped(lines: Lines) -> None:
    odd = 'x"\n{"event": "login failed"}\x1b[2J\u202e' + "y" * 500
    Scene().sasl.audit.failed("L", "M", odd, "/10.0.0.7", "why")
    [line] = lines()
    fields = {**line, "logger": "access"}
    level, event = fields.pop("level"), fields.pop("event")
    fields.pop("timestamp", None)
    shown = readable(Line(0.0, level, event, fields, None))
    assert "\n" not in shown and "\x1b" not in shown and "\u202e" not in shown
    assert "\n" not in json.dumps(line)
    assert len(line["principal"]) < 300


# -- passwords -------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", SCRAM_TYPES.values())
def test_a_password_is_known_by_its_credential(mechanism: str) -> None:
    salted = salted_password(mechanism, "secret-é", SALT, MIN_ITERATIONS)
    known = credential(mechanism, salted, SALT, MIN_ITERATIONS)
    assert is_password(mechanism, known, "secret-é")
    assert not is_password(mechanism, known, "secret-e")
    assert "secret" not in repr(known) and repr(known).count("=") == 1


def test_a_credential_is_that_of_rfc_7677() -> None:
    """Its example of an exchange: the server's signature is that of the server key."""
    salt, nonce = "W22ZaJ0SNY7soEsUEjb6gQ==", "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    salted = salted_password("SCRAM-SHA-256", "pencil", b64decode(salt), 4096)
    found = credential("SCRAM-SHA-256", salted, b64decode(salt), 4096)
    signed = f"n=user,r=rOprNGfwEbeRWgbNEkqO,r={nonce},s={salt},i=4096,c=biws,r={nonce}"
    signature = hmac.digest(found.server_key, signed.encode(), "sha256")
    assert b64encode(signature) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    proof = b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    mask = hmac.digest(found.stored_key, signed.encode(), "sha256")
    client_key = bytes(a ^ b for a, b in zip(proof, mask, strict=True))
    assert hashlib.sha256(client_key).digest() == found.stored_key


async def test_plain_checks_stored_credentials_on_a_thread() -> None:
    entries = {}
    for mechanism, password in zip(SCRAM_TYPES.values(), ("one", "two"), strict=True):
        salted = salted_password(mechanism, password, SALT, MIN_ITERATIONS)
        kept = credential(mechanism, salted, SALT, MIN_ITERATIONS)
        entries[user_key("a/b", mechanism)] = kept.entry
    jobs = []

    async def on_thread(job: Any) -> bool:
        jobs.append(job)
        return bool(job())

    check = stored(Users(lambda: entries), on_thread)
    for name, password, is_right in (("a/b", "one", True), ("a/b", "x", False), ("n", "x", False)):
        conversation = PlainConversation(check)
        later = conversation.step(f"\0{name}\0{password}".encode())
        assert isinstance(later, Awaitable)
        if is_right:
            assert (await later).name == name
        else:
            with pytest.raises(SaslFailed):
                await later
        assert conversation.tried == name
    assert len(jobs) == 3  # also for the unknown user


def test_a_list_has_no_user_with_an_empty_password() -> None:
    check = listed({"alice": "secret"})
    assert check("alice", "secret") is True
    assert check("alice", "") is False
    assert check("bob", "") is False


def test_users_are_listed_once() -> None:
    users = Users(lambda: {"user:a/SCRAM-SHA-256": {}, "user:a/SCRAM-SHA-512": {}, "acl:x": {}})
    assert [*users.names()] == ["a", None, None]
