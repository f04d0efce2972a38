"""What boards ask Prometheus for: ours, and those of others as docs/metrics.md lists them."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
_ROW = re.compile(r"^\| ([^|]+) \| `([^|]+)` \| ([^|]+) \|$")
_NO_REPLICAS = "replicas: empty"
ALL = {"topic": ".*", "consumergroup": ".*", "group": ".*", "instance": ".*"}


class Panel(NamedTuple):
    """One expression of a panel."""

    board: str
    title: str
    expression: str
    fed_by: str | None
    """The family that another's board says; None for ours."""

    @property
    def has_data(self) -> bool:
        """Whether it is not about replicas."""
        return self.fed_by is None or not self.fed_by.startswith(_NO_REPLICAS)

    def filled(self, variables: Mapping[str, str] = ALL) -> str:
        """The expression with values for the board's variables."""
        text = self.expression.replace("$__rate_interval", "1m")
        return re.sub(r"\$(\w+)", lambda found: variables[found[1]], text)


def board() -> dict[str, Any]:  # Any: JSON
    path = DOCKER / "grafana" / "dashboards" / "groupkeeper.json"
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def our_panels() -> Iterator[Panel]:
    for panel in board()["panels"]:
        for target in panel.get("targets", ()):
            yield Panel("ours", panel["title"], target["expr"], None)


def panels_of_others() -> Iterator[Panel]:
    """From the tables of the page."""
    name, text = "", (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    for line in text.partition("## Boards")[2].partition("\n## ")[0].splitlines():
        if line.startswith(("Kafka Exporter Overview", "Strimzi Kafka Exporter")):
            name = "7589" if "7589" in line else "Strimzi"
        elif (row := _ROW.match(line)) is not None:
            yield Panel(name, row[1].strip(), row[2], row[3].strip("` "))


def panels() -> list[Panel]:
    return [*panels_of_others(), *our_panels()]


_SELECTOR = re.compile(r"\b((?:groupkeeper|kafka|process)_\w+)(?:\{([^}]*)\})?")
_BY = re.compile(r"\b(?:by|without)\s*\(([^)]*)\)")
_OF_TARGETS = {"instance", "job", "le"}


def asked(expression: str) -> dict[str, set[str]]:
    """The metrics of an expression, and the labels that it wants of each of them."""
    wanted = {word.strip() for found in _BY.findall(expression) for word in found.split(",")}
    return {
        name: (set(re.findall(r"(\w+)\s*[=!]", matchers)) | wanted) - _OF_TARGETS - {""}
        for name, matchers in _SELECTOR.findall(expression)
    }
