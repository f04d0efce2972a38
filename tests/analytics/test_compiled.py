import os
import subprocess
import sys
import tempfile

import numpy as np
import pytest
from crc32c import crc32c

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
        "import sys, groupkeeper.analytics.reading.numba_engine; "
        "print('numba.np.linalg' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n", done.stderr
