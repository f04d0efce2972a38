"""What a server imports of other packages, and that the rest can be imported later."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from groupkeeper.server.lean_imports import import_lean
import_lean()
assert not {"ssl", "importlib.metadata", "email"} & set(sys.modules), sorted(sys.modules)
"""
CHECKS = {
    "checksums": "from crc32c import crc32c; assert crc32c(b'123456789') == 0xE3069283",
    "ssl": "import ssl; ssl.create_default_context()",
    "metadata": "from importlib.metadata import version; assert version('crc32c')[0].isdigit()",
    "tornado": "import tornado.web",
    "again": "import_lean(); import asyncio, ssl; import_lean(); assert sys.modules['ssl'] is ssl",
    "loop": "import asyncio; assert asyncio.run(asyncio.sleep(0, 7)) == 7",
}


@pytest.mark.parametrize("check", CHECKS)
def test_what_is_left_out_at_the_start_can_be_imported_later(check: str) -> None:
    subprocess.run([sys.executable, "-c", PROGRAM + CHECKS[check]], check=True, timeout=60)
