"""When memory is given back to the system."""

import subprocess
import sys

from groupkeeper.connections.connection_table import WORTH_BYTES, HighWater

FREES = """
import io, time
from groupkeeper.connections.connection_table import give_back

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4 // 1024

buffers, kept = [], []
large = bytes(262_144)
del large
for _ in range(500):
    buffers.append(io.BytesIO())
    for _ in range(12):
        buffers[-1].write(bytes(16_000))
    kept.append(bytearray(700))
full = resident()
buffers.clear()
give_back()
deadline = time.monotonic() + 60
while resident() > full / 2 and time.monotonic() < deadline:
    time.sleep(0.05)
print(full, resident())
"""


def test_what_lies_between_blocks_in_use_is_given_back() -> None:
    command = [sys.executable, "-c", FREES]
    run = subprocess.run(command, capture_output=True, check=True, timeout=300)
    full, after = map(int, run.stdout.split())
    assert full > 90
    assert after < full / 2


def test_it_is_worth_it_when_much_less_is_in_use_than_before() -> None:
    water = HighWater()
    assert not water.is_past(10)
    assert not water.is_past(3 * WORTH_BYTES)
    assert not water.is_past(2 * WORTH_BYTES), "most of it is still in use"
    assert water.is_past(WORTH_BYTES - 1)
    assert not water.is_past(WORTH_BYTES - 1), "once"
    assert not water.is_past(0), "not much"


def test_a_little_is_not_worth_it() -> None:
    water = HighWater()
    assert not water.is_past(WORTH_BYTES - 1)
    assert not water.is_past(0)
