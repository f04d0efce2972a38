"""DescribeLogDirs: the sizes of logs, opened or not."""

import os

import pytest

from groupkeeper.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from tests.topics.scene import Scene, batch

FOLDER = os.path.abspath("data")


async def sizes(scene: Scene, *topics: DescribableLogDirTopic, everything: bool = False) -> object:
    request = DescribeLogDirsRequest(topics=None if everything else list(topics))
    response = await scene.ask(4, request)
    [directory] = response.results
    assert (response.error_code, directory.error_code) == (0, 0)
    assert directory.log_dir == FOLDER
    assert directory.total_bytes > directory.usable_bytes > 0
    return {
        topic.name: {each.partition_index: each.partition_size for each in topic.partitions}
        for topic in directory.topics
    }


@pytest.mark.parametrize("again", [True, False])
async def test_sizes_are_those_of_the_segments(scene: Scene, *, again: bool) -> None:
    await scene.produce("t", 1, batch("a"))
    scene = await scene.restart() if again else scene
    size = len(batch("a"))
    asked = DescribableLogDirTopic(topic="t", partitions=[1, 0, 7, 1])
    nowhere = DescribableLogDirTopic(topic="nowhere", partitions=[0])
    assert await sizes(scene, asked, nowhere) == {"t": {1: size, 0: 0}}
    assert await sizes(scene) == {}
    assert await sizes(scene, everything=True) == {"t": {0: 0, 1: size}}
    assert scene.topics.partitions.opened() == (0 if again else 1)
