"""docs/commands.md has every option of `groupkeeper groups`, and of Kafka's tool."""

import re
from pathlib import Path

import click
import pytest

from groupkeeper.cli.groups.command import PLACES as GROUPS
from groupkeeper.cli.groups.command import groups

PAGE = (Path(__file__).parents[2] / "docs" / "commands.md").read_text(encoding="utf-8")
OF_KAFKA = """all-groups all-topics bootstrap-server by-duration command-config
        delete delete-offsets describe dry-run execute export from-file group help list members
        offsets reset-offsets shift-by state timeout to-current to-datetime to-earliest to-latest
        to-offset topic type validate-regex verbose version"""
"""The options that the tool of Kafka 4.1 prints with --help."""


def section(title: str) -> str:
    found = re.search(rf"^## {title}$.*?(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[0]


def options_of(group: click.Group, name: str) -> set[str]:
    command = group.get_command(click.Context(group), name)
    assert command is not None
    return {each for parameter in command.params for each in parameter.opts}


def test_every_option_of_kafkas_tool_has_its_counterpart() -> None:
    named = set(re.findall(r"--([a-z-]+)", section("kafka-consumer-groups")))
    assert set(OF_KAFKA.split()) - named == set()


@pytest.mark.parametrize("name", GROUPS)
def test_every_command_and_option_of_ours_is_on_the_page_and_has_an_example(name: str) -> None:
    text = section("kafka-consumer-groups")
    assert f"`{name}" in text
    missing = {each for each in options_of(groups, name) if each not in text}
    assert missing - {"-h", "--help"} == set()
    command = groups.get_command(click.Context(groups), name)
    assert command is not None
    assert command.help is not None
    assert f"groupkeeper groups {name}" in command.help
