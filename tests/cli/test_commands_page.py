"""docs/commands.md has every option of the commands that ask a cluster, and of Kafka's tools."""

import re
from pathlib import Path

import click
import pytest

from groupkeeper.cli.groups import PLACES as GROUPS
from groupkeeper.cli.groups import groups
from groupkeeper.cli.topics import PLACES as TOPICS
from groupkeeper.cli.topics import topics

PAGE = (Path(__file__).parents[2] / "docs" / "commands.md").read_text(encoding="utf-8")
OF_KAFKA = {
    "kafka-consumer-groups": """all-groups all-topics bootstrap-server by-duration command-config
        delete delete-offsets describe dry-run execute export from-file group help list members
        offsets reset-offsets shift-by state timeout to-current to-datetime to-earliest to-latest
        to-offset topic type validate-regex verbose version""",
    "kafka-topics": """alter at-min-isr-partitions bootstrap-server command-config config create
        delete describe exclude-internal if-exists if-not-exists list
        partition-size-limit-per-response partitions replica-assignment replication-factor topic
        topic-id topics-with-overrides unavailable-partitions under-min-isr-partitions
        under-replicated-partitions""",
}
"""The options that the tools of Kafka 4.1 print with --help."""


def section(title: str) -> str:
    found = re.search(rf"^## {title}$.*?(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[0]


def options_of(group: click.Group, name: str) -> set[str]:
    command = group.get_command(click.Context(group), name)
    assert command is not None
    return {each for parameter in command.params for each in parameter.opts}


@pytest.mark.parametrize("tool", OF_KAFKA)
def test_every_option_of_kafkas_tool_has_its_counterpart(tool: str) -> None:
    named = set(re.findall(r"--([a-z-]+)", section(tool)))
    assert set(OF_KAFKA[tool].split()) - named == set()


@pytest.mark.parametrize(
    ("group", "places", "title"),
    [(groups, GROUPS, "kafka-consumer-groups"), (topics, TOPICS, "kafka-topics")],
)
def test_every_command_and_option_of_ours_is_on_the_page(
    group: click.Group, places: dict[str, str], title: str
) -> None:
    text = section(title)
    for name in places:
        assert f"`{name}" in text
        missing = {each for each in options_of(group, name) if each not in text}
        assert missing - {"-h", "--help"} == set()


@pytest.mark.parametrize(
    "name", [*(("groups", each) for each in GROUPS), *(("topics", each) for each in TOPICS)]
)
def test_every_command_has_an_example(name: tuple[str, str]) -> None:
    group = {"groups": groups, "topics": topics}[name[0]]
    command = group.get_command(click.Context(group), name[1])
    assert command is not None
    assert command.help is not None
    assert f"groupkeeper {name[0]} {name[1]}" in command.help
