"""InitProducerId: every id once, whatever happens."""

import asyncio

import pytest

from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.init_producer_id import InitProducerIdRequest
from groupkeeper.topics.catalog import PRODUCER_ID_BLOCK
from tests.topics.scene import HeldWorker, Scene


async def ask(scene, version=4, **fields):
    request = InitProducerIdRequest(**{"transactional_id": None, **fields})
    return await scene.ask(version, request)


@pytest.mark.parametrize("version", range(5))
async def test_ids_are_new_and_epochs_are_zero(scene, version):
    answers = [await ask(scene, version) for _ in range(3)]
    assert [(a.error_code, a.producer_epoch) for a in answers] == [(0, 0)] * 3
    assert len({a.producer_id for a in answers}) == 3


async def test_blocks_follow_one_another(scene: Scene) -> None:
    ids = [(await ask(scene)).producer_id for _ in range(PRODUCER_ID_BLOCK + 2)]
    assert ids == list(range(PRODUCER_ID_BLOCK + 2))


@pytest.mark.parametrize("orderly", [True, False])
async def test_no_id_comes_twice_over_restarts(scene, orderly):
    first = (await ask(scene)).producer_id
    again = await scene.restart() if orderly else scene.kill()
    assert (await ask(again)).producer_id == first + PRODUCER_ID_BLOCK


async def test_an_id_is_on_the_disk_before_it_is_given_out(scene: Scene) -> None:
    first = (await ask(scene)).producer_id
    scene.disk.power_cut("lose")
    assert (await ask(Scene(scene.disk))).producer_id > first


async def test_many_at_once_share_a_block(scene: Scene) -> None:
    held = HeldWorker()
    again = Scene(scene.disk, worker=held)
    request = InitProducerIdRequest(transactional_id=None)
    replies = [again.send(4, request) for _ in range(5)]
    held.go.set()
    answers = await asyncio.gather(*(reply.wait() for reply in replies))
    assert [a.producer_id for a in answers] == list(range(5))


async def test_a_producer_that_starts_over_gets_a_new_id(scene: Scene) -> None:
    old = (await ask(scene)).producer_id
    again = await ask(scene, producer_id=old, producer_epoch=0)
    assert (again.error_code, again.producer_epoch) == (0, 0)
    assert again.producer_id != old


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"transactional_id": "tx"}, ErrorCode.UNSUPPORTED_VERSION),
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"producer_id": 5}, ErrorCode.INVALID_REQUEST),
        ({"producer_epoch": 5}, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_what_is_refused(scene, fields, code):
    answer = await ask(scene, **fields)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (code, -1, -1)


async def test_a_full_disk_gives_no_ids_and_heals(scene: Scene) -> None:
    scene.disk.capacity = 0
    assert (await ask(scene)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    scene.disk.capacity = None
    assert (await ask(scene)).error_code == 0
