import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager

import numpy as np
import pytest
from crc32c import crc32c

from groupkeeper.analytics.command import report
from groupkeeper.analytics.reading import compiled, kernels


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 1000])
def test_the_compiled_checksum_is_crc_32c(size):
    data = bytes(n * 37 % 256 for n in range(size))
    assert kernels.crc32c(np.frombuffer(data, np.uint8), 0, size) == crc32c(data)


def test_a_writable_package_is_its_own_cache(tmp_path):
    assert compiled.cache_folder(tmp_path) is None


@pytest.fixture
def read_only(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_kernels_of_a_read_only_package_are_kept_in_a_folder_of_the_user(read_only):
    folder = compiled.cache_folder(read_only / "package")
    assert folder == read_only / f"groupkeeper-numba-{os.getuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert compiled.cache_folder(read_only / "package") == folder


def test_a_folder_that_others_may_write_is_not_trusted(read_only):
    planted = read_only / f"groupkeeper-numba-{os.getuid()}"
    planted.mkdir()
    planted.chmod(0o777)
    assert compiled.cache_folder(read_only / "package") not in (planted, None)


def test_kernels_from_the_cache_load_nothing_that_compiles():
    """This module has compiled them, if they were not there."""
    code = (
        "import sys, groupkeeper.analytics.reading.parser; print('numba.np.linalg' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n", done.stderr


KERNEL = """
from groupkeeper.analytics.reading import compiled

@compiled.kernel(compiled.INT(compiled.INT))
def one_more(number):
    return number + 1

@compiled.kernel(compiled.INT(compiled.INT))
def one_less(number):
    return number - 1
"""


def test_compiling_is_told_once_and_not_when_kernels_are_in_the_cache(tmp_path):
    """The first process compiles, the second one does not."""
    tmp_path.joinpath("kernels_of_a_test.py").write_text(KERNEL)
    code = (
        "from groupkeeper.analytics.reading import compiled\n"
        "with compiled.told_of_compiling(lambda: print('compiling')):\n"
        "    import kernels_of_a_test\n"
        "print(kernels_of_a_test.one_more(1))\n"
    )
    path = os.pathsep.join((str(tmp_path), *filter(None, sys.path)))
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": path}
    command = [sys.executable, "-c", code]
    for expected in "compiling\n2\n", "2\n":
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=100
        )
        assert done.stdout == expected, done.stderr


@pytest.mark.parametrize("is_terminal", [False, True])
def test_the_first_report_says_that_it_compiles(monkeypatch, capsys, is_terminal):
    @contextmanager
    def compiling(tell):
        tell()
        yield

    stages = []
    monkeypatch.setattr(compiled, "told_of_compiling", compiling)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal, raising=False)
    report._load_kernels(lambda *stage: stages.append(stage))
    assert stages == ([(report.COMPILING, 0, 1)] if is_terminal else [])
    assert capsys.readouterr().err == ("" if is_terminal else f"groupkeeper: {report.COMPILING}\n")
