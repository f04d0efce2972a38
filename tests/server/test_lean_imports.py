"""What a server imports of other packages, and that the rest can be imported later."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from groupkeeper.server.lean_imports import import_lean
import_lean()
assert not {"argparse", "ssl", "importlib.metadata", "email"} & {*sys.modules}, [*sys.modules]
"""
CHECKS = {
    "checksums": "from crc32c import crc32c; assert crc32c(b'123456789') == 0xE3069283",
    "ssl": "import ssl; ssl.create_default_context()",
    "metadata": "from importlib.metadata import version; assert version('crc32c')[0].isdigit()",
    "command": "from crc32c._cli import main; main.__call__",
    "h11": "import h11",
    "again": "import_lean(); import asyncio, ssl; import_lean(); assert sys.modules['ssl'] is ssl",
    "loop": "import asyncio; assert asyncio.run(asyncio.sleep(0, 7)) == 7",
}


@pytest.mark.parametrize("check", CHECKS)
def test_what_is_left_out_at_the_start_can_be_imported_later(check: str) -> None:
    subprocess.run([sys.executable, "-c", PROGRAM + CHECKS[check]], check=True, timeout=60)


def test_garbage_is_collected_again_after_the_imports() -> None:
    """Also if one of them fails; and what was imported is not gone through."""
    program = """
import gc
from groupkeeper.server.lean_imports import no_collections
try:
    with no_collections():
        assert not gc.isenabled()
        import asyncio, no_such_module
except ImportError:
    assert gc.isenabled() and gc.get_freeze_count() > 1000 and len(gc.get_objects()) < 1000
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.parametrize("free", [False, True])
def test_garbage_of_the_imports_may_be_freed_at_once(free: bool) -> None:
    """Else it stays for good, as what was imported does."""
    program = f"""
import gc, weakref
from groupkeeper.server.lean_imports import no_collections
class Garbage: pass
with no_collections(free={free}):
    garbage = Garbage()
    garbage.itself, seen = garbage, weakref.ref(garbage)
    del garbage
gc.collect()
assert (seen() is None) is {free}
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
