"""Fixtures of the tests of APIs that are about topics."""

import pytest

from tests.topics.scene import Scene


@pytest.fixture
async def scene() -> Scene:
    """A data plane with one topic `t` of two partitions."""
    scene = Scene()
    await scene.create("t", partitions=2)
    return scene
