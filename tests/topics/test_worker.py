"""The one thread beside the loop, and answers that come later."""

import asyncio
import threading

from groupkeeper.topics.worker import ResponseTasks, WorkerThread
from groupkeeper.turns import Turns
from tests.topics.scene import Reply


async def test_jobs_run_one_after_another_in_order_and_off_the_loop() -> None:
    worker = WorkerThread()
    seen: list[tuple[int, int]] = []
    jobs = [worker(lambda n=n: seen.append((n, threading.get_ident()))) for n in range(20)]
    await asyncio.gather(*jobs)
    worker.close()
    assert [n for n, _ in seen] == list(range(20))
    assert len({thread for _, thread in seen}) == 1
    assert seen[0][1] != threading.get_ident()


async def test_work_ends_with_one_answer_its_own_or_that_of_a_failure() -> None:
    async def work(result: object) -> object:
        await asyncio.sleep(0)
        if isinstance(result, Exception):
            raise result
        return result

    told: list[BaseException] = []
    response_tasks = ResponseTasks(lambda where, error: told.append(error), Turns())
    bug = KeyError("x")
    for result, answer, failures in (("done", "done", []), (bug, "broken", [bug])):
        reply = Reply()
        response_tasks.start(work(result), reply, lambda: "broken")
        await response_tasks.finish()
        assert (reply.response, told) == (answer, failures)
    reply = Reply()
    response_tasks.start(work(None), reply, lambda: "broken")
    await response_tasks.finish()
    assert not reply.answered, "left to somebody else"
