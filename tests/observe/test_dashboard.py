"""The dashboard in docker/ asks only for what the server has."""

import json
import re
from pathlib import Path

from groupkeeper.observe.exposition import Exposition
from groupkeeper.observe.metrics import Metrics
from tests.support.slices import whole

DOCKER = Path(__file__).parent.parent.parent / "docker"
BOARD = json.loads((DOCKER / "grafana" / "dashboards" / "groupkeeper.json").read_text())


def expressions() -> list[str]:
    return [target["expr"] for panel in BOARD["panels"] for target in panel["targets"]]


def test_every_panel_asks_for_metrics_that_exist() -> None:
    metrics = Metrics()
    page = b"".join(whole(Exposition(metrics).page())).decode()
    known = set(re.findall(r"^# TYPE (\w+)", page, re.MULTILINE))
    asked = {
        name for text in expressions() for name in re.findall(r"(?:groupkeeper|process)_\w+", text)
    }
    assert {re.sub(r"_bucket$", "", name) for name in asked} <= known
    assert len(asked) > 10


def test_panels_do_not_overlap() -> None:
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in BOARD["panels"]]
    assert len(places) == len(set(places))
