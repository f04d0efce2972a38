"""Random bytes instead of logins and handshakes: nothing raises. `fuzz.py` does it longer."""

from contextlib import suppress
from pathlib import Path

import pytest

from groupkeeper.access.oauth import TokenRules, verified
from groupkeeper.access.sasl import SaslFailed
from tests.access import tokens
from tests.access.damaged import (
    damaged_certificates,
    damaged_conversations,
    damaged_handshakes,
    damaged_hellos,
    damaged_tokens,
)
from tests.access.fuzz import Part, main, play


@pytest.mark.parametrize(
    ("part", "inputs", "word", "share"),
    [
        (damaged_tokens, 30_000, "FAILED", 0.5),
        (damaged_tokens, 5_000, "DONE", 0.001),
        (damaged_conversations, 4_000, "DONE", 0.01),
        (damaged_hellos, 1_500, "answered", 0.5),
        (damaged_handshakes, 150, "open", 0.1),
        (damaged_certificates, 5_000, "named", 0.05),
    ],
)
async def test_nothing_is_raised(
    part: Part, inputs: int, word: str, share: float, tmp_path: Path
) -> None:
    became, wrong = await play(part, inputs, 7, tmp_path)
    assert wrong == []
    assert became.total() == inputs
    assert became[word] > inputs * share  # what is fuzzed is not refused at once


async def test_what_is_raised_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> str:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr("groupkeeper.access.scram.ScramConversation._first", broken)
    _, wrong = await play(damaged_tokens, 1_000, 7, tmp_path)
    assert wrong == ["ZeroDivisionError: planted"]


def test_the_command_plays_every_part(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["300", "7"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("300 inputs, seed 7\n") and out.endswith("nothing was raised\n")
    assert out.count("damaged_") == 5


def test_a_token_of_an_issuer_with_odd_claims() -> None:
    odd = (None, 1, -1, 1.5, True, "x", "", [], {}, [1], ["a"], 1e300, 2**70, "é" * 100)
    rules = TokenRules(issuer="i", audiences=frozenset(["a"]))
    keys = [tokens.key(tokens.RSA)]
    for name in ("iss", "aud", "sub", "iat", "exp", "nbf", "scope"):
        for value in odd:
            token = tokens.signed(**{"iss": "i", "aud": "a", name: value})
            with suppress(SaslFailed):
                verified(token, keys, rules, 0)
