"""The hot loop counts right answers, refuses wrong ones and knows what it last sent."""

import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from benchmarks import wire
from benchmarks.hotloop import HotLoop, quantile

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")

BEAT = wire.heartbeat(b"group", 1, b"member", None)
Answers = Callable[[bytes], bytes]


def right(frame: bytes) -> bytes:
    """The expected heartbeat answer under the request's correlation id."""
    answer = wire.heartbeat_answer()
    return answer[:4] + frame[8:12] + answer[8:]


@pytest.fixture
def serve(tmp_path, monkeypatch) -> Iterator[Callable[[Answers], int]]:
    """Starts a thread that answers frames on one connection; returns the other end's descriptor."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    ends: list[socket.socket] = []
    threads = []

    def start(answer: Answers) -> int:
        ours, theirs = socket.socketpair()
        ends.extend((ours, theirs))
        threads.append(threading.Thread(target=_answering, args=(theirs, answer)))
        threads[-1].start()
        return ours.fileno()

    yield start
    for end in ends:
        end.shutdown(socket.SHUT_RDWR)
    for thread in threads:
        thread.join()
    for end in ends:
        end.close()


def _answering(end: socket.socket, answer: Answers) -> None:
    data = b""
    while chunk := end.recv(1 << 16):
        data += chunk
        while len(data) >= 4 and len(data) >= (whole := 4 + int.from_bytes(data[:4], "big")):
            end.sendall(answer(data[:whole]))
            data = data[whole:]


def beating(fd: int) -> HotLoop:
    return HotLoop([fd], [BEAT], wire.heartbeat_answer())


def test_every_answer_is_counted_once(serve):
    outcome = beating(serve(right)).run(60, depth=4, limit=100)
    assert outcome.answered == sum(outcome.latency_us) == 100


def test_a_later_run_goes_on_with_the_correlation_ids(serve):
    loop = beating(serve(right))
    loop.run(60, limit=10)
    loop.run(60, limit=5)
    assert loop.last_ids() == [15]


def test_an_answer_in_pieces_is_put_together(serve):
    seen = []

    def split(frame: bytes) -> bytes:
        seen.append(right(frame))
        answers = b"".join(seen)
        return {7: answers[:100], 8: answers[100:]}.get(len(seen), b"")

    assert beating(serve(split)).run(60, depth=8, limit=8).answered == 8


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda answer: answer[:13] + b"\0\x19" + answer[15:], id="error code"),
        pytest.param(lambda answer: answer[:7] + b"\x63" + answer[8:], id="another request's"),
        pytest.param(lambda answer: b"\0\0\0\x0d" + answer[4:] + b"\0", id="too long"),
        pytest.param(lambda answer: answer + answer, id="twice"),
    ],
)
def test_a_wrong_answer_ends_the_run(serve, spoil):
    with pytest.raises(wire.WrongAnswerError, match="not the expected one"):
        beating(serve(lambda frame: spoil(right(frame)))).run(60, limit=1_000)


def test_a_closed_connection_ends_the_run(serve):
    ours, theirs = socket.socketpair()
    with ours:
        theirs.close()
        with pytest.raises(wire.WrongAnswerError, match=r"closed|socket's buffer"):
            beating(ours.fileno()).run(60, limit=10)


def test_commits_carry_the_correlation_id_as_every_offset(serve):
    frames = []

    def committed(frame: bytes) -> bytes:
        frames.append(frame)
        answer = wire.offset_commit_answer(3)
        return answer[:4] + frame[8:12] + answer[8:]

    request = wire.offset_commit(b"group", 1, b"member", 3)
    HotLoop([serve(committed)], [request], wire.offset_commit_answer(3), 3).run(60, limit=2)
    partitions = [frames[1][-2 - 18 * left :][4:12] for left in (3, 2, 1)]
    assert [int.from_bytes(offset, "big") for offset in partitions] == [2, 2, 2]


def test_a_rate_is_kept_however_fast_the_answers_are(serve):
    outcome = beating(serve(right)).run(0.2, rate=100)
    assert outcome.per_second <= 100
    assert sum(outcome.latency_us) == 20


def test_at_a_rate_a_request_that_had_to_wait_counts_from_when_it_was_due(serve):
    def slow(frame: bytes) -> bytes:
        time.sleep(0.02)
        return right(frame)

    outcome = beating(serve(slow)).run(0.1, rate=200)
    assert sum(outcome.latency_us) == 20
    assert outcome.answered <= 5
    assert outcome.quantile_us(1.0) >= 300_000  # answered after 400 ms, due after 95


def test_two_loops_run_at_the_same_time(serve):
    loops = [beating(serve(right)), beating(serve(right))]
    threads = [threading.Thread(target=loop.run, args=(60, 1, 2_000)) for loop in loops]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [loop.last_ids() for loop in loops] == [[2_000], [2_000]]


@pytest.mark.parametrize(("share", "bucket"), [(0.5, 1), (0.51, 2), (0.99, 3), (1.0, 3)])
def test_a_quantile_is_the_first_bucket_that_covers_the_share(share, bucket):
    assert quantile([0, 50, 40, 10, 0], share) == bucket
