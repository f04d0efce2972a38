"""`analyze` on the log of a broker with groups of every protocol, against Kafka's own tools."""

import json

import pytest

from groupkeeper.analytics.command import report
from groupkeeper.analytics.command.request import Request
from tests.suites.offsets_log import CHECKS, EXPECTED, FIXTURE, table


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    out = tmp_path_factory.mktemp("out") / "analysis"
    assert report.analyze([FIXTURE], Request(out)) == 0
    return {name: table(out, name) for name in ("records", "groups", "members", "offsets")}


@pytest.mark.parametrize("name", CHECKS)
def test_the_log_tells_what_kafkas_tools_told(read, name):
    said = json.loads((FIXTURE / EXPECTED).read_text(encoding="utf-8"))
    CHECKS[name](said, read)


def test_protocols_are_told_apart(read):
    kinds = {row["group"]: row["type"] for row in read["groups"]}
    assert {name: kinds[name] for name in ("members", "modern", "upgraded", "shared")} == {
        "members": "classic",
        "modern": "consumer",
        "upgraded": "consumer",
        "shared": "share",
    }
