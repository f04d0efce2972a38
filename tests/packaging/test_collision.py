"""A project with packages named `coordinator`, `protocol` and `storage` of its own runs a server.

Neither meets the other's, whichever is imported first, in a process of the server's own and in the
project's; from a wheel, and from an editable install, which puts this checkout on the path.
"""

from pathlib import Path

import pytest

from tests.packaging.environment import Environment

pytestmark = pytest.mark.xdist_group("packaging")


def test_a_server_runs_in_the_folder_of_the_project(
    environment: Environment, project: Path
) -> None:
    assert environment.serves(environment.python, "-m", "groupkeeper", cwd=project) == ""


def test_the_command_runs_with_the_project_first_on_the_path(
    environment: Environment, project: Path
) -> None:
    assert environment.serves(environment.script, cwd=project, PYTHONPATH=str(project)) == ""


@pytest.mark.parametrize("first", ["theirs", "ours"])
def test_the_project_and_a_server_share_a_process(
    environment: Environment, project: Path, first: str
) -> None:
    application = project / "application.py"
    told = environment.serves(environment.python, application, first, cwd=project)
    assert told.splitlines() == [
        line
        for name in ("coordinator", "protocol", "storage")
        for line in (
            f"the user, {name} {project / name / '__init__.py'}",
            f"the user, {name} {project / name / 'errors.py'}",
            f"the user, {name} {project / name / 'log.py'}",
            f"groupkeeper.{name} True",
        )
    ]


PYTEST = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")


@pytest.mark.parametrize("mode", ["prepend", "importlib"])
def test_the_project_s_tests_have_the_fixtures(
    environment: Environment, project: Path, mode: str
) -> None:
    environment.share(*PYTEST)
    told = environment.run(
        *(environment.python, "-m", "pytest", "-p", "no:cacheprovider", f"--import-mode={mode}"),
        "with_broker.py",
        cwd=project,
        PYTHONPATH=str(project),
    )
    assert " 1 passed" in told
