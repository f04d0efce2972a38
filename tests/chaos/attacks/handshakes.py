"""TLS: handshakes that are never completed, bytes that are none, certificates that expire."""

import contextlib
import datetime as dt
import socket
import ssl
import time

from groupkeeper.protocol.messages.api_versions import ApiVersionsRequest
from tests.chaos import secure
from tests.chaos.attacks.insiders import (
    MUTUAL,
    SASL,
    SASL_SSL,
    SSL,
    client_hello,
    context,
    counted,
    hello,
    logins,
    over_tls,
)
from tests.chaos.target import Attack, Limits, Steps, Target, check
from tests.chaos.wire import Stream, closed_within, dial, pump
from tests.support.wire import frame

FAMILY = "tls and logins"
HALF_OPEN = 2_000
HANDSHAKE_S = 10.0
"""What a server allows for a handshake."""
SESSION_MIB = 80 / 1024
"""Of memory for a handshake that was begun: mostly OpenSSL's."""
SLOW = 500
SLOW_S = 41
"""A begun request has 30 s, and the server looks every 5 s."""
EXPIRES_S = 14.0
LOADED_S = 12.0
"""Within this a changed file is used."""
FAILED = "connections_handshakes_failed_total"


def _open(socks: list[socket.socket]) -> int:
    """How many of them the server has not closed."""
    return sum(not closed_within(sock, 0.001) for sock in socks)


def half_open(target: Target) -> Steps:
    """Half of them say nothing at all, the others begin and never go on."""
    first = client_hello()
    yield
    begin = time.monotonic()
    socks = []
    for _ in range(HALF_OPEN + 300):
        with contextlib.suppress(OSError):
            socks.append(dial(target.ports[SSL]))
    for sock in socks[::2]:
        with contextlib.suppress(OSError):
            sock.sendall(first)
    refused = counted(target, "connections_refused_total")
    check(refused == 300, f"{refused:.0f} refused of 300 above max.connections.per.ip")
    count = counted(target, "connections")
    check(count >= HALF_OPEN, f"{count:.0f} connections are counted")
    spent = time.monotonic() - begin
    check(spent < HANDSHAKE_S - 1, f"too slow: {spent:.0f} s until all were there")
    time.sleep(HANDSHAKE_S + 2.0 - spent)
    left = _open(socks)
    for sock in socks:
        sock.close()
    check(not left, f"{left} are open after {HANDSHAKE_S + 2:.0f} s")
    failed = counted(target, FAILED)
    check(failed == HALF_OPEN, f"{failed:.0f} handshakes failed")
    over_tls(target, SSL, context(target)).close()
    return f"300 of {len(socks):,} refused, the others counted and closed"


def a_byte_a_second(target: Target) -> Steps:
    """Handshakes of TLS, and requests of a login."""
    first, login = client_hello(), hello("SCRAM-SHA-512")[:44] + bytes(20)
    yield
    handshakes = [dial(target.ports[SSL]) for _ in range(SLOW)]
    requests = [dial(target.ports[SASL]) for _ in range(SLOW)]
    begin = time.monotonic()
    for at in range(SLOW_S):
        for socks, data in ((handshakes, first), (requests, login)):
            for sock in socks:
                with contextlib.suppress(OSError):
                    sock.send(data[at : at + 1])
        if at == int(HANDSHAKE_S) + 1:
            left = _open(handshakes)
            check(not left, f"{left} slow handshakes are open after {at} s")
        time.sleep(max(0.0, begin + at + 1 - time.monotonic()))
    left = _open(requests)
    for sock in (*handshakes, *requests):
        sock.close()
    check(not left, f"{left} slow logins are open after {SLOW_S} s")
    return f"2 x {SLOW}, all closed"


_RECORD = b"\x16\x03\x01\x40\0"
_HELLO = b"\x01\xff\xff\xff"
"""A ClientHello of 16 MB, the largest."""


def first_megabyte(target: Target) -> Steps:
    """To each port the largest frame that it might take from whom it does not know."""
    size = (1_000_000).to_bytes(4, "big")
    request = size + frame(2, ApiVersionsRequest())[4:14]
    records = b"".join(
        _RECORD + (_HELLO if not at else bytes(4)) + bytes(16380) for at in range(61)
    )
    data = {SASL: request + bytes(1_000_000), SSL: records, MUTUAL: request + bytes(1_000_000)}
    yield
    kept, before = [], logins(target, "failed")
    for listener, sent in data.items():
        streams = [Stream(dial(target.ports[listener]), sent, 1) for _ in range(200)]
        pump(streams, 8.0)
        kept += [listener for stream in streams if not stream.closed]
        for stream in streams:
            stream.socket.close()
    inner = [over_tls(target, SASL_SSL, context(target)) for _ in range(200)]
    for client in inner:
        with contextlib.suppress(OSError):
            client.send_frame(data[SASL][: 1 << 17])
    for client in inner:
        with contextlib.suppress(OSError):
            kept += [SASL_SSL] * (not client.is_closed())
        client.close()
    check(not kept, f"{len(kept)} are open: {', '.join(sorted(set(kept)))}")
    failed = logins(target, "failed") - before
    check(failed == 400, f"{failed} failed logins are counted, of 400")
    handshakes = counted(target, FAILED)
    check(handshakes == 400, f"{handshakes:.0f} failed handshakes are counted, of 400")
    return "4 x 200, all closed and counted"


def _until(seconds: float) -> dt.datetime:
    return dt.datetime.now(dt.UTC) + dt.timedelta(seconds=seconds)


def expired(target: Target) -> Steps:
    """Those of a client and of the server. Open connections stay, as on a broker."""
    ca = secure.authority(target.folder)
    seconds = "certificate_expires_seconds"
    ends = _until(LOADED_S + EXPIRES_S)
    ca.issue_cert(
        "localhost", "127.0.0.1", not_after=ends
    ).private_key_and_cert_chain_pem.write_to_path(secure.server_pem(target.folder))
    deadline = time.monotonic() + LOADED_S
    while counted(target, seconds, listener=SSL) > LOADED_S + EXPIRES_S + 1:
        check(time.monotonic() < deadline, "the new certificate is not used")
    with_key = context(target)
    file = target.folder / "client.pem"
    client = ca.issue_cert("alice@example.org", common_name="alice", not_after=ends)
    client.private_key_and_cert_chain_pem.write_to_path(file)
    with_key.load_cert_chain(file)
    stale = context(target)  # does not look at the server's certificate
    stale.check_hostname, stale.verify_mode = False, ssl.CERT_NONE
    stale.load_cert_chain(file)
    yield
    connected = [over_tls(target, MUTUAL, with_key) for _ in range(50)]
    while counted(target, seconds, listener=SSL) > -1.0:
        for each in connected:
            check(each.call(0, ApiVersionsRequest()).error_code == 0, "refused before the end")
    for each in connected:
        check(each.call(0, ApiVersionsRequest()).error_code == 0, "an open connection is refused")
    for of, reason in ((with_key, "certificate has expired"), (stale, "alert certificate expired")):
        check(reason in _refused(target, of), f"a new client is not told: {reason}")
        time.sleep(1.1)  # an address has one line a second
    told = sum("certificate has expired" in line for line in _told(target))
    check(told > 0, "no line says that the certificate of a client has expired")
    for each in connected:
        each.close()
    return "50 open connections stay, new ones are refused on both sides"


def _refused(target: Target, of: ssl.SSLContext) -> str:
    """Why a new client does not get in."""
    try:
        client = over_tls(target, MUTUAL, of)
        client.call(0, ApiVersionsRequest())  # with TLS 1.3 the alert comes after the handshake
    except OSError as error:
        return str(error).lower().replace("_", " ")
    return "it gets in"


def _told(target: Target) -> list[str]:
    text = (target.folder / "server.log").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if "no TLS" in line]


def strangers(target: Target) -> Steps:
    """Clients that do not know the authority of the server, as fast as they can."""
    unknown = ssl.create_default_context()
    yield
    refused = 0
    for _ in range(1_000):
        try:
            over_tls(target, SSL, unknown).close()
        except ssl.SSLError:
            refused += 1
    check(refused == 1_000, f"{refused} of 1,000 have refused the server")
    failed = counted(target, FAILED)
    check(failed == 1_000, f"{failed:.0f} of 1,000 are counted")
    client = over_tls(target, SSL, context(target))
    check(client.call(0, ApiVersionsRequest()).error_code == 0, "a good client is refused")
    return "1,000 counted"


ATTACKS = (
    Attack(
        "half-open-tls",
        FAMILY,
        "2,300 half-open handshakes; max.connections.per.ip is 2,000",
        half_open,
        settings={"max.connections.per.ip": str(HALF_OPEN)},
        limits=Limits(growth_mib=64 + HALF_OPEN * SESSION_MIB, kept_mib=96),  # all freed at once
        secure=True,
    ),
    Attack(
        "slow-logins",
        FAMILY,
        "500 handshakes of TLS and 500 logins, a byte every second",
        a_byte_a_second,
        limits=Limits(growth_mib=64 + SLOW * SESSION_MIB),
        secure=True,
    ),
    Attack(
        "first-megabyte",
        FAMILY,
        "800 connections whose first frame has 1 MB, with and without TLS",
        first_megabyte,
        secure=True,
    ),
    Attack(
        "expired-certificates",
        FAMILY,
        "certificates of a client and of the server expire while it is connected",
        expired,
        secure=True,
    ),
    Attack(
        "tls-strangers",
        FAMILY,
        "1,000 clients that do not trust the server",
        strangers,
        secure=True,
    ),
)
