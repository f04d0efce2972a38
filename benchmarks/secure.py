"""What security costs: decisions, heartbeats and commits with ACLs, TLS, the start, and memory.

    python -m benchmarks.secure
    python -m benchmarks.secure --only decisions tls

Ends with exit code 1 if something costs more than docs/security.md promises. Needs Linux, and a
machine with nothing else to do.
"""

import argparse
import ssl
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from benchmarks import cases, decisions
from benchmarks.encrypted import cost_of_tls, many_handshakes
from benchmarks.loop_times import LongestCallbacks, iterations, longer_than
from benchmarks.processes import GENERATOR_CORE, on_core, raise_file_limit, resident_mib
from benchmarks.sides import Sides, compare, groupkeeper_with
from benchmarks.targets import ROOT, Server, Target, first_join, groupkeeper_of, running
from groupkeeper.access.own_certificates import make_certificates
from groupkeeper.protocol.acl_codes import Operation, ResourceKind
from groupkeeper.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from tests.support.wire import connect

ACLS: Final = 1_000
MEMBERS: Final = 50
HANDSHAKES: Final = 2_000
LITERAL, ALLOW = 3, 3
TOLD: Final = "callbacks"

HEARTBEATS_LEAST, COMMITS_LEAST, TLS_LEAST = 0.95, 0.90, 0.65
HANDSHAKES_S, BEAT_P99_MS = 5.0, 50.0
CALLBACK_MS, ITERATION_S = 5.0, 0.02
START_MS, IDLE_MIB = 100.0, 6.0

WITH_ACLS: Final[Mapping[str, str]] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",  # for who makes them
}


def add_acls(server: Server) -> None:
    """Allow what the load does, and as many other things."""
    rights = [(ResourceKind.TOPIC, "*"), (ResourceKind.GROUP, "*")]
    rights += [(ResourceKind.TOPIC, f"orders-{number}") for number in range(ACLS - len(rights))]
    rows = [
        AclCreation(
            resource_type=kind,
            resource_name=name,
            resource_pattern_type=LITERAL,
            principal="User:ANONYMOUS" if name == "*" else f"User:service-{at % 97}",
            host="*",
            operation=Operation.ALL if name == "*" else Operation.READ,
            permission_type=ALLOW,
        )
        for at, (kind, name) in enumerate(rights)
    ]
    with connect(("127.0.0.1", server.port)) as client:
        answer = client.call(3, CreateAclsRequest(creations=rows))
    assert not [row for row in answer.results if row.error_code]


def measure_acls(base: Path, rounds: int, seconds: float) -> list[str]:
    loads = {"heartbeats": cases.heartbeats(MEMBERS), "commits": cases.commits(MEMBERS, 1)}
    found = compare(WITH_ACLS, loads, rounds, seconds, base, add_acls)
    least = {"heartbeats": HEARTBEATS_LEAST, "commits": COMMITS_LEAST}
    return [_missed(each, least[each.case]) for each in found if each.ratio < least[each.case]]


def _missed(sides: Sides, least: float) -> str:
    return f"{sides.case} with {ACLS} ACLs: {sides.ratio:.2f} of those without, promised {least}"


def tls_target(base: Path) -> Target:
    """A server with a TLS port beside the plain one."""
    made = make_certificates(base / "certificates", ["127.0.0.1"], "client")
    plain = groupkeeper_of(ROOT, sys.executable)

    def command(port: int, folder: Path, settings: Mapping[str, str]) -> list[str]:
        secure = {
            "listeners": f"PLAINTEXT://127.0.0.1:{port},SSL://127.0.0.1:{port + 1}",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(made.server),
        }
        words = plain.command(port, folder, {**settings, **secure})
        at = words.index("--listen")
        return words[:at] + words[at + 2 :]

    return Target(command)


def timed(target: Target) -> Target:
    """The same, which measures its callbacks."""

    def command(port: int, folder: Path, settings: Mapping[str, str]) -> list[str]:
        python, _, _, *words = target.command(port, folder, settings)
        told = f"LONGEST_CALLBACKS={folder / TOLD}"
        return ["env", told, python, "-m", "benchmarks.timed_loop", *words]

    return Target(command)


def client_context(base: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=base / "certificates" / "ca.pem")


def measure_tls(base: Path, rounds: int, seconds: float) -> list[str]:
    slow = []
    target = tls_target(base)
    with on_core(GENERATOR_CORE), running("tls", base, target) as server:
        context = client_context(base)
        ratio = cost_of_tls(server, context, MEMBERS, rounds, seconds)
        print(f"heartbeats over TLS: {ratio:.2f} of plain ones")
        if ratio < TLS_LEAST:
            slow.append(f"heartbeats over TLS: {ratio:.2f} of plain ones, promised {TLS_LEAST}")
        before = longer_than(ITERATION_S, iterations(server.metrics()))
        crowd = many_handshakes(server, context, HANDSHAKES)
        long = longer_than(ITERATION_S, iterations(server.metrics())) - before
    with on_core(GENERATOR_CORE), running("timed", base, timed(target)) as server:
        callbacks = LongestCallbacks(server.folder / TOLD)
        callbacks.since_last(server.pid)
        many_handshakes(server, context, HANDSHAKES)
        longest = callbacks.since_last(server.pid)
    print(
        f"{HANDSHAKES} TLS connections from one second: all in after {crowd.seconds:.1f} s, "
        f"heartbeats of others p99 {crowd.beat_p99_ms:.1f} ms"
    )
    print(
        f"meanwhile {long} iterations of the event loop over {ITERATION_S * 1000:.0f} ms; longest "
        f"callback of {longest.count}: {longest.ms:.1f} ms, {longest.name}"
    )
    if long:
        slow.append(f"handshakes: {long} iterations over {ITERATION_S * 1000:.0f} ms, promised 0")
    if longest.ms > CALLBACK_MS:
        slow.append(f"handshakes: a callback of {longest.ms:.1f} ms of {CALLBACK_MS:.0f}")
    if crowd.seconds > HANDSHAKES_S:
        slow.append(f"{HANDSHAKES} handshakes: {crowd.seconds:.1f} s of {HANDSHAKES_S:.0f}")
    if crowd.beat_p99_ms > BEAT_P99_MS:
        slow.append(f"heartbeats meanwhile: p99 {crowd.beat_p99_ms:.0f} ms of {BEAT_P99_MS:.0f}")
    return slow


def measure_start(base: Path, rounds: int, _: float) -> list[str]:
    """Start servers in turn, without and with TLS and logins."""
    target = tls_target(base)

    def secure(port: int, folder: Path, settings: Mapping[str, str]) -> list[str]:
        words = target.command(port, folder, settings)
        at = next(at for at, word in enumerate(words) if word.startswith("listeners="))
        words[at] = words[at].replace("SSL://", "SASL_SSL://")
        return [*words, "--set", "sasl.enabled.mechanisms=SCRAM-SHA-512"]

    found: dict[str, list[tuple[float, float]]] = {"off": [], "TLS and SCRAM": []}
    for number in range(rounds):
        for name, each in (("off", groupkeeper_with({})), ("TLS and SCRAM", Target(secure))):
            server = Server(f"{name}-{number}", base, target=each)
            try:
                ready_ms = server.wait(first_join)
                found[name].append((ready_ms, resident_mib(server.pid)))
            finally:
                server.stop()
    (off_ms, off_mib), (on_ms, on_mib) = (
        tuple(statistics.median(each) for each in zip(*runs, strict=True))
        for runs in found.values()
    )
    print(f"start, to the first JoinGroup answered: off {off_ms:.0f} ms, on {on_ms:.0f} ms")
    print(f"memory then: off {off_mib:.1f} MiB, on {on_mib:.1f} MiB")
    slow = []
    if on_ms - off_ms > START_MS:
        slow.append(f"start: {on_ms - off_ms:.0f} ms more, promised {START_MS:.0f}")
    if on_mib - off_mib > IDLE_MIB:
        slow.append(f"memory: {on_mib - off_mib:.1f} MiB more, promised {IDLE_MIB:.0f}")
    return slow


def measure_decisions(_: Path, rounds: int, __: float) -> list[str]:
    return decisions.measure(decisions.ACLS, decisions.DECISIONS, rounds)


PARTS: Final[Mapping[str, Callable[[Path, int, float], list[str]]]] = {
    "decisions": measure_decisions,
    "acls": measure_acls,
    "tls": measure_tls,
    "start": measure_start,
}


def main() -> int:
    """Measure, print the figures, and say what is slower than promised."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.secure",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", nargs="+", choices=PARTS, default=[*PARTS], metavar="PART")
    parser.add_argument("--rounds", type=int, default=5, help="medians are of so many (5)")
    parser.add_argument("--seconds", type=float, default=3.0, help="of load in a run (3)")
    options = parser.parse_args()
    raise_file_limit()
    slow: list[str] = []
    for name in options.only:
        print(f"-- {name}", flush=True)
        with tempfile.TemporaryDirectory() as base:
            slow += PARTS[name](Path(base), options.rounds, options.seconds)
    for each in slow:
        print(f"slower than promised: {each}")
    return int(bool(slow))


if __name__ == "__main__":
    sys.exit(main())
