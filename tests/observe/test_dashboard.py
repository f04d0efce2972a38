"""Boards and alerts ask only for what the server has, by names and labels."""

import re

import pytest

from groupkeeper.observe.exposition import Exposition
from tests.groups.test_lag import produce
from tests.support.boards import DOCKER, asked, board, panels, panels_of_others
from tests.support.served import Served, settle
from tests.support.slices import whole
from tests.watch.observed import Observed

ALERTS = (DOCKER / "alerts.yaml").read_text(encoding="utf-8")
_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? \S+$", re.M)
_LABEL = re.compile(r'(\w+)="')


@pytest.fixture
def labels(served: Served) -> dict[str, set[str]]:
    """Every metric of a server with a group, and its labels."""
    client = served.client()
    produce(client, times=5)
    member_id, generation = settle(client, group_instance_id="one")
    client.commit(3, member_id=member_id, generation=generation)
    exposition = Exposition(served.server.metrics)
    pieces = whole(exposition.page(served.run(exposition.look())))
    page = b"".join(pieces).decode()
    return _labels_in(page)


@pytest.fixture
def labels_of_observer(served: Served) -> dict[str, set[str]]:
    """Every metric of an observer, and its labels."""
    return _labels_in(Observed(served).metrics())


def _labels_in(page: str) -> dict[str, set[str]]:
    return {name: set(_LABEL.findall(some)) for name, some in _SAMPLE.findall(page)}


def test_every_panel_asks_for_what_there_is(labels: dict[str, set[str]]) -> None:
    for panel in panels():
        names = asked(panel.expression)
        assert names or not panel.has_data, panel
        for name, wanted in names.items() if panel.has_data else ():
            assert wanted <= labels[name], (panel.board, panel.title, name)
        assert panel.fed_by in (None, *names) or not panel.has_data, panel


def test_every_alert_asks_for_what_there_is(
    labels: dict[str, set[str]], labels_of_observer: dict[str, set[str]]
) -> None:
    expressions = re.split(r"- alert: (\w+)", ALERTS)[1:]
    for alert, text in zip(expressions[::2], expressions[1::2], strict=True):
        expression = text.partition("expr:")[2].partition("labels:")[0]
        names = asked(expression)
        assert names, alert
        there = labels_of_observer if "Observer" in alert else labels
        assert all(wanted <= there[name] for name, wanted in names.items()), alert


def test_every_alert_is_tested_and_described() -> None:
    alerts = re.findall(r"- alert: (\w+)", ALERTS)
    tested = (DOCKER / "alerts-test.yaml").read_text(encoding="utf-8")
    page = (DOCKER.parent / "docs" / "metrics.md").read_text(encoding="utf-8")
    for alert in alerts:
        after = tested.partition(f"alertname: {alert}")[2]
        assert "exp_alerts:" in after, alert
        assert f"| {alert} |" in page
    assert len(alerts) == len(set(alerts)) > 5


def test_other_boards_are_listed() -> None:
    found = [panel.board for panel in panels_of_others()]
    assert {name: found.count(name) for name in found} == {"7589": 5, "Strimzi": 16}


def test_our_board_depends_on_no_data_source_job_or_server() -> None:
    found = board()
    variables = [each["name"] for each in found["templating"]["list"]]
    assert variables == ["datasource", "instance", "group"]
    for panel in found["panels"]:
        if panel["type"] == "row":
            continue
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        for target in panel["targets"]:
            assert "job=" not in target["expr"]
            selectors = re.findall(r"(?:groupkeeper|kafka|process)_\w+(\{[^}]*\})", target["expr"])
            assert selectors
            assert all('instance=~"$instance"' in each for each in selectors)


def test_panels_do_not_overlap() -> None:
    found = board()["panels"]
    taken: set[tuple[int, int]] = set()
    for panel in found:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in found}) == len(found)
