"""The lock file of what npm installs, and a program that stands in for Node."""

import json
import os
from pathlib import Path

import pytest

from tests.suites import versions
from tests.suites.kafkajs import KafkaJs
from tests.suites.suite import Outcome, Target

LOCK = Path(__file__).with_name("js") / "package-lock.json"


def test_the_lock_pins_everything_and_names_no_registry() -> None:
    packages = json.loads(LOCK.read_text(encoding="utf-8"))["packages"]
    installed = {name: each for name, each in packages.items() if name}
    assert installed["node_modules/kafkajs"]["version"] == versions.KAFKAJS
    platformatic = installed["node_modules/@platformatic/kafka"]
    assert platformatic["version"] == versions.PLATFORMATIC
    assert all(each["integrity"].startswith("sha512-") for each in installed.values())
    assert not any("resolved" in each for each in installed.values())


def test_a_program_that_tells_nothing_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "node").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "node").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    (result,) = KafkaJs().run(Target("127.0.0.1:1"), tmp_path)
    assert result.outcome is Outcome.FAILED
    assert result.detail == "told nothing (exit code 3): see run.log"
