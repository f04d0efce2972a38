"""Logins: wrong passwords without end, tokens that are forged or giant, conversations that are
replayed, keys that do not come, names that are made for logs.
"""

import contextlib
import json
import re
import selectors
import time
from collections import Counter
from urllib.request import urlopen

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.list_groups import ListGroupsRequest
from tests.access import tokens
from tests.access.conversations import (
    SCRAM_256,
    SCRAM_512,
    SCRAM_PASSWORD,
    SCRAM_USER,
    scram_final,
    scram_first,
)
from tests.access.record import add_users
from tests.chaos import secure
from tests.chaos.attacks.insiders import (
    SASL,
    Talking,
    bearer,
    counted,
    each_in_turn,
    hello,
    log_lines,
    logins,
    memory_mib,
    plain,
    token,
)
from tests.chaos.target import MIB, Attack, Limits, Steps, Target, check
from tests.chaos.wire import Stream, bound, closed_within, dial, pump
from tests.support.requests import join_request

FAMILY = "tls and logins"
WRONG = 100_000
AT_ONCE = 500
ADDRESSES = 10
"""Where wrong passwords come from: one has not enough ports for so many connections."""
DELAY_S = 0.1
"""`connection.failed.authentication.delay.ms`, if it is not set."""
FLAT_MIB = 12.0
FETCH_S = 10.0
"""How long the keys of an issuer may take."""
REFUSED = ErrorCode.SASL_AUTHENTICATION_FAILED


class _Guess:
    """One connection with a wrong password."""

    def __init__(self, target: Target, number: int) -> None:
        self.socket = bound(f"127.0.1.{number % ADDRESSES + 1}")
        self.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            self.socket.connect(target.ports[SASL])
        self.sent_at = 0.0
        self.answer = b""


class _Guesses:
    """Wrong passwords, so many at a time. Both requests of a login are sent together."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._selector = selectors.DefaultSelector()
        self._begun = self.refused = 0
        self.soonest_s = 60.0
        self.other: Counter[str] = Counter()

    def play(self, count: int) -> None:
        """Raises Complaint if they are not over in time."""
        end, wanted = time.monotonic() + 240.0, self._begun + count
        while self._begun < wanted or self._selector.get_map():
            while self._begun < wanted and len(self._selector.get_map()) < AT_ONCE:
                guess = _Guess(self._target, self._begun)
                self._selector.register(guess.socket, selectors.EVENT_WRITE, guess)
                self._begun += 1
            for key, events in self._selector.select(5.0):
                try:
                    self._move(key.data, events)
                except OSError as error:
                    self._over(key.data, type(error).__name__)
            check(time.monotonic() < end, f"{self.refused} of {wanted} are refused in time")

    def _move(self, guess: _Guess, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            guess.sent_at = time.monotonic()
            guess.socket.send(hello("PLAIN") + token(plain(password=f"wrong {self._begun}")))
            self._selector.modify(guess.socket, selectors.EVENT_READ, guess)
        elif data := guess.socket.recv(4096):
            guess.answer += data
        else:
            is_told = b"Invalid username or password" in guess.answer
            self._over(guess, "" if is_told else f"{len(guess.answer)} bytes")

    def _over(self, guess: _Guess, problem: str) -> None:
        self._selector.unregister(guess.socket)
        guess.socket.close()
        self.soonest_s = min(self.soonest_s, time.monotonic() - guess.sent_at)
        self.refused += not problem
        self.other[problem] += bool(problem)


def wrong_passwords(target: Target) -> Steps:
    yield
    guesses, begin = _Guesses(target), time.monotonic()
    guesses.play(WRONG // 5)
    before = memory_mib(target)
    guesses.play(WRONG - WRONG // 5)
    grown, seconds = memory_mib(target) - before, time.monotonic() - begin
    told = "; ".join(f"{problem}: {count}" for problem, count in guesses.other.items() if count)
    check(guesses.refused == WRONG, f"{guesses.refused} of {WRONG} are told so, {told}")
    failed = logins(target, "failed", mechanism="PLAIN")
    check(failed == WRONG, f"{failed} of {WRONG} are counted")
    check(guesses.soonest_s >= DELAY_S, f"one was told after {guesses.soonest_s * 1000:.0f} ms")
    check(grown < FLAT_MIB, f"memory grew by {grown:.0f} MiB in the last 80,000")
    check(logins(target, "succeeded") == 0, "a wrong password is accepted")
    soonest = guesses.soonest_s * 1000
    return f"{WRONG:,} in {seconds:.0f} s, soonest {soonest:.0f} ms, memory {grown:+.1f} MiB"


def giant_tokens(target: Target) -> Steps:
    """Each of 4 MB. Half of a kind are refused by their size, which is all that is looked at; the
    others have the largest size that is read.
    """
    size = 4 * MIB
    kinds = {
        "PLAIN": b"\0" + b"a" * size,
        SCRAM_256: b"n,,n=" + b"a" * size,
        SCRAM_512: b"n,a=" + b"=2C" * (size // 3),
        "OAUTHBEARER": b"n,,\x01auth=Bearer " + b"a" * size,
    }
    most = secure.RECEIVE_BYTES - 100
    ends = {"PLAIN": b"\0b", SCRAM_256: b",r=abc", SCRAM_512: b",n=a,r=abc", "OAUTHBEARER": b"\1\1"}
    yield
    before, held = logins(target, "failed"), []
    for mechanism, large in kinds.items():
        for data in (large, large[: most - 20] + ends[mechanism]):
            sent = hello(mechanism) + token(data)
            streams = [Stream(dial(target.ports[SASL]), sent, 3) for _ in range(20)]
            pump(streams, 30.0)
            held += [mechanism for stream in streams if not stream.closed]
            for stream in streams:
                stream.socket.close()
    check(not held, f"{len(held)} are open: {', '.join(sorted(set(held)))}")
    failed = logins(target, "failed") - before
    check(failed == 160, f"{failed} of 160 are counted")
    return "8 x 20, all closed and counted"


def replays(target: Target) -> Steps:
    """A good login is overheard. What it said is said again, and is said to another nonce."""
    add_users(target.kafka[1])
    yield
    first, bare = scram_first()

    def finished(answer: object, nonce: str = "") -> bytes:
        server = bytes(answer.auth_bytes)  # type: ignore[attr-defined]
        return scram_final(SCRAM_512, bare, server, SCRAM_PASSWORD, nonce=nonce)

    owner = Talking(target, SCRAM_512)
    overheard = finished(owner.say(first))
    check(owner.say(overheard).error_code == 0, "the owner does not get in")
    kinds = {
        "replayed": lambda _: overheard,
        "with an old nonce": lambda answer: finished(answer, overheard.decode().split(",")[1][2:]),
        "with another nonce": lambda answer: finished(answer, "x" * 40),
        "with a longer nonce": lambda answer: finished(
            answer, bytes(answer.auth_bytes).decode().split(",")[0][2:] + "x"
        ),
        "with the first message": lambda _: first,
        "without a proof": lambda answer: finished(answer).rpartition(b",p=")[0],
        "with a short proof": lambda answer: finished(answer)[:-8],
    }
    for name, made in kinds.items():
        talks = [Talking(target, SCRAM_512) for _ in range(100)]
        answers = each_in_turn(talks, lambda _: first)
        began = time.monotonic()
        codes = {each.error_code for each in each_in_turn(talks, made, answers)}
        check(codes == {REFUSED}, f"{name}: {sorted(codes)}")
        check(time.monotonic() - began >= DELAY_S, f"{name}: told at once")
        for talk in talks:
            check(closed_within(talk.client.socket, 5.0), f"{name}: open")
            talk.close()
    check(logins(target, "succeeded", mechanism=SCRAM_512) == 1, "somebody else got in")
    failed = logins(target, "failed", mechanism=SCRAM_512)
    check(failed == 100 * len(kinds), f"{failed} of {100 * len(kinds)} are counted")
    return f"{len(kinds)} kinds, 100 of each"


FORGED = ("none", "HS256 with the public key", "tampered", "of a stranger under a known key")


def forged_tokens(target: Target) -> Steps:
    tokens.write_keys(secure.keys_in(target.folder))
    forged = {name: bearer(tokens.KINDS[name]()) for name in FORGED}
    yield
    owner = Talking(target, "OAUTHBEARER")
    check(owner.say(bearer(tokens.good())).error_code == 0, "a good token is refused")
    for name, data in forged.items():
        talks = [Talking(target, "OAUTHBEARER") for _ in range(250)]
        challenges = each_in_turn(talks, lambda _, data=data: data)
        told = {bytes(each.auth_bytes) for each in challenges}
        check(told == {b'{"status":"invalid_token"}'}, f"{name}: {told}")
        codes = {each.error_code for each in each_in_turn(talks, lambda _: b"\x01")}
        check(codes == {REFUSED}, f"{name}: {sorted(codes)}")
        for talk in talks:
            talk.close()
    check(owner.client.call(4, ListGroupsRequest()).error_code == 0, "the owner is out")
    check(logins(target, "succeeded") == 1, "a forged token is accepted")
    failed = logins(target, "failed", mechanism="OAUTHBEARER")
    check(failed == 1_000, f"{failed} of 1,000 are counted")
    return f"250 of each: {', '.join(FORGED)}"


def hung_keys(target: Target) -> Steps:
    """Clients with tokens wait for them, and nobody else does."""
    add_users(target.kafka[1])
    yield
    waiting = [Talking(target, "OAUTHBEARER") for _ in range(500)]
    begin, others, slowest = time.monotonic(), 0, 0.0
    for talk in waiting:
        talk.send(bearer(tokens.good()))
    while time.monotonic() - begin < FETCH_S - 1:
        began = time.monotonic()
        talk = Talking(target, SCRAM_512)
        first, bare = scram_first()
        server = bytes(talk.say(first).auth_bytes)
        answer = talk.say(scram_final(SCRAM_512, bare, server, SCRAM_PASSWORD))
        check(answer.error_code == 0, f"{SCRAM_USER} is refused meanwhile")
        slowest, others = max(slowest, time.monotonic() - began), others + 1
        talk.close()
        time.sleep(0.02)
    for talk in waiting:
        answer = talk.take()
        check(b"invalid_token" in bytes(answer.auth_bytes), "a token is accepted without keys")
        talk.send(b"\x01")
    codes = {talk.take().error_code for talk in waiting}
    seconds = time.monotonic() - begin
    check(codes == {REFUSED}, f"{sorted(codes)}")
    check(seconds < FETCH_S + 3, f"they have waited for {seconds:.0f} s")
    check(slowest < 1.0, f"a login with a password took {slowest:.1f} s")
    lines = sum("keys of tokens cannot be read" in line for line in log_lines(target))
    check(1 <= lines <= 5, f"{lines} lines tell of the keys")
    return f"500 refused after {seconds:.0f} s, {others} others in, each in {slowest * 1000:.0f} ms"


FORGED_LINE = '{"event": "login failed", "principal": "User:victim"}'
ODD_NAMES = (
    'a"b\\"c\\',
    f'x"}}\n{FORGED_LINE}\n',
    "\r\x1b[2J\x1b]0;title\x07\u202eevil\u2028\u2029",
    'x"} 1\ngroupkeeper_up{a="',
    "<script>alert(1)</script>'--",
    "%s%n{0}${jndi:ldap://x}",
    "\x7f\x01é" + "y" * 900,
)
_SERIES = re.compile(r'\w+(\{(\w+="([^"\\\n]|\\[\\"n])*",?)*\})? \S+')


def odd_names(target: Target) -> Steps:
    """They fail with them, get in with them as subjects of certificates and tokens, and join."""
    tokens.write_keys(secure.keys_in(target.folder))
    yield
    for at, name in enumerate(ODD_NAMES):
        refused = Talking(target, "PLAIN", f"127.0.2.{at + 1}")
        check(refused.say(plain(name)).error_code == REFUSED, f"{name!r} gets in")
        talk = Talking(target, "OAUTHBEARER")
        answer = talk.say(bearer(tokens.signed(sub=name)))
        check(answer.error_code == 0 and not answer.auth_bytes, f"{name!r} is refused")
        joined = talk.client.call(5, join_request(f"group {name[:100]}"))
        check(joined.error_code in (0, 79), f"{name!r} cannot join: {joined.error_code}")
    time.sleep(2.0)
    told = [json.loads(line) for line in log_lines(target)]  # ValueError: a line is forged
    tried = [str(each.get("principal")) for each in told if each.get("event") == "login failed"]
    check(len(tried) == len(ODD_NAMES), f"{len(tried)} failures are told of {len(ODD_NAMES)}")
    check("User:victim" not in tried, "a line is forged")
    host, port = target.http
    for path in ("/metrics", "/api/v1/groups", "/readyz"):
        with contextlib.closing(urlopen(f"http://{host}:{port}{path}", timeout=10.0)) as page:
            text = page.read().decode()
        if path == "/metrics":
            wrong = [each for each in text.split("\n") if each and each[0] != "#"]
            wrong = [each for each in wrong if not _SERIES.fullmatch(each)]
            check(not wrong, f"no series: {wrong[:1]}")
        elif path.startswith("/api"):
            json.loads(text)
        check("\x1b" not in text and "\u202e" not in text, f"{path} has control characters")
        check("<script>alert" not in text or path.startswith("/api"), f"{path} has a script")
    failed = counted(target, "authentications_total", outcome="failed")
    check(failed == len(ODD_NAMES), f"{failed:.0f} of {len(ODD_NAMES)} are counted")
    return f"{len(ODD_NAMES)} names, all escaped"


ATTACKS = (
    Attack(
        "wrong-passwords",
        FAMILY,
        "100,000 wrong passwords, 500 at a time, from 10 addresses",
        wrong_passwords,
        limits=Limits(seconds=250.0),
        secure=True,
    ),
    Attack(
        "giant-tokens",
        FAMILY,
        "160 tokens of 4 MB, and of the largest size that is read",
        giant_tokens,
        secure=True,
    ),
    Attack(
        "scram-replay",
        FAMILY,
        "700 logins with what another has said, or with another nonce",
        replays,
        secure=True,
    ),
    Attack(
        "forged-tokens",
        FAMILY,
        "1,000 tokens: alg none, HS256 with the public key, tampered, of a stranger",
        forged_tokens,
        secure=True,
    ),
    Attack(
        "hung-keys",
        FAMILY,
        "500 clients with tokens, and a server of keys that never answers",
        hung_keys,
        settings={"sasl.oauthbearer.jwks.endpoint.url": f"http://{secure.SILENT}/keys"},
        secure=True,
    ),
    Attack(
        "odd-names",
        FAMILY,
        "names of users with quotes, newlines and control characters",
        odd_names,
        secure=True,
    ),
)
