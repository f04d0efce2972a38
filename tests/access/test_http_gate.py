"""Tokens of the HTTP port: the file, who gets in with which role, and what is told and counted."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from groupkeeper.access.audit import AGAIN_S, LoginAudit
from groupkeeper.access.http_gate import HttpGate
from groupkeeper.access.http_tokens import (
    BEGIN,
    FILE_BYTES,
    TOKENS_MOST,
    HttpToken,
    TokenFileError,
    digest_of,
    find_token,
    new_token,
    parse_tokens,
)
from groupkeeper.observe.http_exchange import HttpAnswer, HttpRequest
from groupkeeper.observe.seldom import AUDIT_S
from groupkeeper.settings.table import SettingsError
from tests.support.served import Lines

READER, WRITER = f"{BEGIN}{'r' * 43}", f"{BEGIN}{'w' * 43}"
"""Not random, as they are in the names of tests, which have to be the same in each process."""
BOARD = HttpToken("board", "read", digest_of(READER))
OPS = HttpToken("ops", "write", digest_of(WRITER))
HASH = "sha256:" + "0" * 64


class Scene:
    """A gate with the tokens `board` and `ops`."""

    def __init__(self, folder: Path, open_paths: Iterable[str] = ()) -> None:
        self.now = 100.0
        self.counts = Counter[tuple[str, ...]]()
        self.file = folder / "tokens"
        self.write(f"# who reads\n{BOARD}\n\n  {OPS}  \n")
        self.audit = LoginAudit(self.counts, lambda: self.now)
        self.gate = HttpGate(self.file, [*open_paths], self.audit)

    def write(self, text: str, mode: int = 0o640) -> None:
        """Write the file anew, as an editor does: with another inode."""
        new = self.file.with_name("new")
        new.write_text(text)
        new.chmod(mode)
        new.replace(self.file)

    def ask(self, path: str, header: str | None = None) -> HttpRequest | HttpAnswer:
        headers = {} if header is None else {"authorization": header}
        return self.gate.admit(HttpRequest("GET", path, headers=headers, remote="10.0.0.7"))

    def admits(self, token: str) -> bool:
        return isinstance(self.ask("/status", f"Bearer {token}"), HttpRequest)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


# -- who gets in -----------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER "])
@pytest.mark.parametrize(
    ("token", "principal", "may_write"),
    [(READER, "Token:board", False), (WRITER, "Token:ops", True)],
)
def test_a_token_has_a_name_and_a_role(
    scene: Scene, scheme: str, token: str, principal: str, may_write: bool
) -> None:
    found = scene.ask("/api/v1/groups", f"{scheme} {token}")
    assert isinstance(found, HttpRequest)
    assert (found.principal, found.may_write, found.path) == (
        principal,
        may_write,
        "/api/v1/groups",
    )


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        READER,
        f"Basic {READER}",
        f"Bearer {READER}x",
        f"Bearer {READER[:-1]}",
        f"Bearer {READER}, Bearer {READER}",
        f"Bearer {BOARD.digest.hex()}",
        "Bearer board",
        "Bearer \xe9\udcff",
    ],
)
@pytest.mark.parametrize(
    "path", ["/api/v1/groups", "/status", "/metrics", "/healthz", "/readyz", "/nothing", "//", ""]
)
def test_nothing_else_gets_in(scene: Scene, path: str, header: str | None) -> None:
    refused = scene.ask(path, header)
    assert isinstance(refused, HttpAnswer)
    assert refused.status == 401
    assert refused.headers["WWW-Authenticate"].startswith("Bearer ")
    assert isinstance(refused.body, bytes)
    assert refused.body.startswith(b'{"error": ') and READER.encode() not in refused.body


def test_the_page_is_open_as_it_has_no_data(scene: Scene) -> None:
    for path in ("/", "/page/app.js", "/page/../status"):
        found = scene.ask(path)
        assert isinstance(found, HttpRequest)
        assert (found.principal, found.may_write) == ("", None)


def test_some_paths_may_be_open_and_only_they(tmp_path: Path) -> None:
    scene = Scene(tmp_path, ["/metrics", "", "/healthz"])
    assert isinstance(scene.ask("/metrics"), HttpRequest)
    assert isinstance(scene.ask("/healthz"), HttpRequest)
    for path in ("/readyz", "/metrics/", "/metricsx", "/status"):
        assert isinstance(scene.ask(path), HttpAnswer)


def test_tokens_are_random_and_found_by_their_hash_alone() -> None:
    some = {new_token() for _ in range(100)}
    assert len(some) == 100
    assert all(each.startswith("gk_") and len(each) > 43 for each in some)
    assert find_token([BOARD, OPS], WRITER) == OPS
    assert find_token([BOARD, OPS], "") is None
    assert READER not in str(BOARD)


# -- the file --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ops write", "line 1 is not NAME ROLE sha256:HEX"),
        (f"\nops write {HASH}x", "line 2 is not NAME"),
        (f"ops write {HASH[7:]}", "line 1 is not NAME"),
        (f"-x write {HASH}", "line 1 is not NAME"),
        (f"é write {HASH}", "line 1 is not NAME"),
        (f"ops admin {HASH}", "line 1 has none of the roles read, write"),
        (f"ops read {HASH}\nops write {HASH}", "line 2 has the name of an earlier line, ops"),
        (
            "\n".join(f"t{each} read {HASH}" for each in range(TOKENS_MOST + 1)),
            "it has 201 tokens: at most 200 are taken",
        ),
    ],
)
def test_what_is_wrong_with_a_file(text: str, problem: str) -> None:
    with pytest.raises(TokenFileError) as raised:
        parse_tokens(text)
    assert str(raised.value).startswith(problem)


def test_a_file_of_tokens_themselves_is_not_quoted(scene: Scene) -> None:
    with pytest.raises(TokenFileError) as raised:
        parse_tokens(f"ops write {WRITER}")
    assert WRITER not in str(raised.value)


def test_a_server_without_a_usable_file_does_not_start(tmp_path: Path) -> None:
    audit = LoginAudit(Counter())
    (tmp_path / "large").write_text("#" * (FILE_BYTES + 1))
    (tmp_path / "latin").write_bytes(b"# \xe9\n")
    for name, problem in (
        ("missing", "No such file or directory"),
        ("", "Is a directory"),
        ("large", "more than 65536 bytes"),
        ("latin", "not UTF-8"),
    ):
        with pytest.raises(SettingsError, match=problem) as raised:
            HttpGate(tmp_path / name, (), audit)
        assert str(raised.value).startswith(f"http.tokens.file = {tmp_path / name}: ")
        assert "groupkeeper tokens add NAME --file" in str(raised.value)
        assert "\n" not in str(raised.value)


def test_a_changed_file_is_used(scene: Scene, lines: Lines) -> None:
    scene.write(f"{OPS}\n")
    assert scene.admits(READER), "not before it is looked at"
    scene.gate.refresh()
    assert (scene.admits(READER), scene.admits(WRITER)) == (False, True)
    scene.write("")
    scene.gate.refresh()
    assert not scene.admits(WRITER), "the last token is taken away as any other"
    told = [each for each in lines() if each["event"] == "changed tokens are used"]
    assert [each["count"] for each in told] == [1, 0]


def test_a_changed_file_that_is_bad_keeps_the_old_and_is_told_once(
    scene: Scene, lines: Lines
) -> None:
    scene.write("ops\n")
    scene.gate.refresh()
    scene.gate.refresh()
    scene.file.unlink()
    scene.gate.refresh()
    scene.gate.refresh()
    first, second = lines()
    assert first["event"] == second["event"] == "changed tokens are not used: the old ones stay"
    assert (first["error"], first["file"]) == (
        "line 1 is not NAME ROLE sha256:HEX",
        str(scene.file),
    )
    assert second["error"] == "No such file or directory"
    assert scene.admits(READER)


def test_a_file_that_every_user_may_read_is_told_once(scene: Scene, lines: Lines) -> None:
    scene.write(f"{OPS}\n", mode=0o644)
    scene.gate.refresh()
    scene.write(f"{BOARD}\n", mode=0o644)
    scene.gate.refresh()
    warnings = [each for each in lines() if each["level"] == "warning"]
    assert len(warnings) == 1
    assert "every user of the machine may read" in warnings[0]["event"]


# -- what is told and counted ----------------------------------------------------------------------


def test_requests_are_counted_by_outcome(scene: Scene) -> None:
    assert set(scene.counts) == {
        ("HTTP", "token", "succeeded"),
        ("HTTP", "token", "failed"),
        ("HTTP", "none", "failed"),
    }, "the series exist from the start"
    for _ in range(3):
        scene.admits(READER)
    scene.admits("wrong")
    scene.ask("/status")
    scene.ask("/")
    assert scene.counts == {
        ("HTTP", "token", "succeeded"): 3,
        ("HTTP", "token", "failed"): 1,
        ("HTTP", "none", "failed"): 1,
    }


def test_a_token_has_a_line_an_hour_for_each_address(scene: Scene, lines: Lines) -> None:
    for _ in range(3):
        scene.admits(READER)
    scene.admits(WRITER)
    scene.now += AGAIN_S
    scene.admits(READER)
    told = [
        (each["event"], each["principal"], each["client"], each["mechanism"], each["times"])
        for each in lines()
    ]
    assert told == [
        ("logged in", "Token:board", "/10.0.0.7", "token", 1),
        ("logged in", "Token:ops", "/10.0.0.7", "token", 1),
        ("logged in", "Token:board", "/10.0.0.7", "token", 3),
    ]


def test_a_failure_has_a_line_a_second_for_each_address(scene: Scene, lines: Lines) -> None:
    secret = "PLANTED-token"
    for _ in range(3):
        scene.admits(secret)
    scene.now += AUDIT_S
    scene.ask("/status")
    first, second = lines()
    assert (first["event"], first["why"]) == (
        "login failed",
        "a token that is not in http.tokens.file",
    )
    assert (second["why"], second["times"]) == ("a request without a token", 3)
    assert secret not in str(first)


def test_a_request_is_admitted_still_while_its_token_is_in_the_file(scene: Scene) -> None:
    asked = scene.ask("/api/v1/follow", f"Bearer {READER}")
    assert isinstance(asked, HttpRequest)
    counted = Counter(scene.counts)
    assert scene.gate.admits_still(asked)
    scene.write(f"{OPS}\n")
    scene.gate.refresh()
    assert not scene.gate.admits_still(asked)
    assert not scene.gate.admits_still(HttpRequest("GET", "/api/v1/follow"))
    assert scene.counts == counted, "no login"
