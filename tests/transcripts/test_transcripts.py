"""Plays every transcript of this folder and compares what happens with what is written there.

`REWRITE=1` (or `pytest --rewrite`, where that option is registered) writes down what happens
instead; the difference is then reviewed like code.
"""

import os
from pathlib import Path

import pytest

from tests.support.script import play

FOLDER = Path(__file__).parent
TRANSCRIPTS = sorted(FOLDER.glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path, request: pytest.FixtureRequest) -> None:
    written = path.read_text(encoding="utf-8")
    played = play(written)
    if os.environ.get("REWRITE") or request.config.getoption("--rewrite", default=False):
        path.write_text(played, encoding="utf-8")
    else:
        assert played == written


def test_there_are_transcripts() -> None:
    assert len(TRANSCRIPTS) >= 12
