"""Compaction of damaged segments, on a failing disk and within its memory."""

import errno
import tracemalloc
from collections.abc import Callable

import pytest
from crc32c import crc32c

from groupkeeper.protocol.record_batch import encode_batch
from groupkeeper.storage.compaction import segment_writer
from groupkeeper.storage.compaction.compaction import compact
from groupkeeper.storage.compaction.key_map import KEY_BYTES, KeyMap
from groupkeeper.storage.compaction.pieces import FIELDS, Piece, SourceSegment
from groupkeeper.storage.errors import Corrupt, StorageError, remedy
from groupkeeper.storage.log.segment import segment_path
from groupkeeper.storage.log.window import PIECE
from tests.support.compacting import FOLDER, HOUR, TOKEN, Folder, with_limits
from tests.support.fake_files import Crash, FakeDisk, FakeFiles
from tests.support.raw_batches import (
    COMMIT,
    TIME,
    Kind,
    Written,
    headers_of,
    marker,
    plain,
    raw_batch,
    records_of,
    transactional,
)

NOW = TIME + HOUR
A, B, C = b"a", b"b", b"c"
MIB = 1024 * 1024


def fill(files: FakeFiles) -> Folder:
    """Two segments that become two, a batch of each kind among them."""
    folder = with_limits(Folder(files), segment_bytes=400, index_interval_bytes=60)
    folder.add(plain(0, (A, b"1"), (B, b"1")), plain(2, (A, b"2")), plain(3, (C, None)))
    folder.add(
        transactional(4, 4000, (A, b"3")),
        marker(5, 4000, COMMIT),
        raw_batch(6, [Written(B, b"2"), Written(B, b"3")], Kind(codec=4)),
        plain(8, (C, b"1")),
    )
    return folder


@pytest.fixture
def folder(files: FakeFiles) -> Folder:
    return fill(files)


def cleaned(disk: FakeDisk) -> list[str]:
    return [name for name in disk.children(FOLDER) if name.endswith(".cleaned")]


# -- damage ----------------------------------------------------------------------------------------


def refusal(folder: Folder) -> str:
    """Why nothing is compacted; no new file is left."""
    with pytest.raises(Corrupt) as caught:
        compact(folder.files, folder.job(NOW))
    assert isinstance(folder.files, FakeFiles)
    assert cleaned(folder.files.disk) == []
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_every_damaged_byte_is_found_and_named(disk: FakeDisk, folder: Folder) -> None:
    """Whatever a byte says: also those that no checksum of a batch covers."""
    before = folder.contents()
    for segment in folder.segments:
        path = segment_path(FOLDER, segment.base)
        for position in range(segment.size):
            disk.flip(path, position, 1 << position % 8)
            message = refusal(folder)
            assert message.startswith(f"{path}: at byte ")
            disk.flip(path, position, 1 << position % 8)
    assert folder.contents() == before


def test_the_first_byte_of_the_damaged_batch_is_named(disk: FakeDisk, folder: Folder) -> None:
    path = segment_path(FOLDER, 4)
    headers = headers_of(folder.read(4))
    for header in headers:
        disk.flip(path, header.end - 1)
        assert refusal(folder) == (
            f"{path}: at byte {header.position}: the batch is damaged: {remedy(FOLDER)}"
        )
        disk.flip(path, header.end - 1)


def test_damage_is_found_without_a_checksum_of_the_whole(disk: FakeDisk, folder: Folder) -> None:
    folder.forget_checksums()
    path = segment_path(FOLDER, 0)
    covered = [
        position
        for header in headers_of(folder.read(0))
        for position in (*range(header.position, header.position + 6), header.end - 1)
    ]
    for position in covered:
        disk.flip(path, position, 64)
        assert refusal(folder).startswith(f"{path}: at byte ")
        disk.flip(path, position, 64)


def test_a_header_that_only_the_whole_checksum_covers_is_named(
    disk: FakeDisk, folder: Folder
) -> None:
    path = segment_path(FOLDER, 0)
    disk.flip(path, headers_of(folder.read(0))[2].position + 7, 4)  # offset 3 becomes 7
    message = refusal(folder)
    assert "offset or the epoch of the batch is wrong" in message
    disk.flip(path, headers_of(folder.read(0))[2].position + 7, 4)
    disk.flip(path, 15, 1)  # the leader epoch of the first batch: all others are older
    assert "offset or the epoch" in refusal(folder)
    disk.flip(path, 15, 1)
    disk.flip(path, headers_of(folder.read(0))[2].position + 15, 1)  # the epoch of the last one
    assert "the header of a batch before it is damaged" in refusal(folder)


def write(folder: Folder, base: int, data: bytes) -> None:
    path = segment_path(FOLDER, base)
    handle = folder.files.open(path)
    folder.files.truncate(handle, 0)
    folder.files.write(handle, data, 0)
    folder.files.close(handle)


@pytest.mark.parametrize("change", [-80, -1, 1, 80])
def test_another_size_is_refused(folder: Folder, change: int) -> None:
    data = folder.read(4)
    write(folder, 4, data[:change] if change < 0 else data + bytes(change))
    assert f"the file has {len(data) + change} bytes instead of {len(data)}" in refusal(folder)


@pytest.mark.parametrize("cut", [1, 40, 60, 61, 62, 70])
def test_a_batch_that_is_cut_off_is_refused(folder: Folder, cut: int) -> None:
    data = folder.read(4)
    start = headers_of(data)[-1].position
    folder.segments[-1] = folder.segments[-1]._replace(size=start + cut - 1, crc=None)
    write(folder, 4, data[: start + cut - 1])
    if cut > 1:
        assert refusal(folder).startswith(f"{segment_path(FOLDER, 4)}: at byte {start}: ")
    else:
        compact(folder.files, folder.job(NOW))


@pytest.mark.parametrize("base", [3, 8, 9, 1 << 40])
def test_batches_outside_of_their_segment_are_refused(files: FakeFiles, base: int) -> None:
    folder = Folder(files)
    folder.add(plain(0, (A, b"1")), end=4)
    folder.add(plain(base, (A, b"1"), (B, b"1")), base=4, end=9)
    path = segment_path(FOLDER, 4)
    assert refusal(folder).startswith(f"{path}: at byte 0: the offset or the epoch")


@pytest.mark.parametrize("magic", [0, 1])
def test_older_batches_are_refused(folder: Folder, disk: FakeDisk, magic: int) -> None:
    disk.flip(segment_path(FOLDER, 4), 16, 2 ^ magic)
    message = refusal(folder)
    assert f"at byte 0: the batch has magic {magic}, and only 2 is read" in message
    assert "accept-loss" not in message  # it would give the records up


def malformed(batch: bytes) -> bytes:
    """Its record ends one byte early, under a right checksum."""
    changed = bytearray(batch)
    changed[61] -= 2
    changed[17:21] = crc32c(bytes(changed[21:])).to_bytes(4, "big")
    return bytes(changed)


@pytest.mark.parametrize(
    "batch",
    [
        plain(4, (A, b"1")),
        plain(4, (A, b"1"), (B, b"2")),
        transactional(4, 4000, (A, b"1")),
        marker(4, 4000, COMMIT),
    ],
)
def test_records_that_cannot_be_read_are_refused(files: FakeFiles, batch: bytes) -> None:
    folder = Folder(files)
    folder.add(plain(0, (A, b"1")), malformed(batch))
    at = len(plain(0, (A, b"1")))
    message = refusal(folder)
    assert f"at byte {at}: the records of the batch cannot be read" in message
    folder.first_dirty = folder.end  # now only the second pass reads it
    assert refusal(folder) == message


def with_field(batch: bytes, at: int, value: bytes) -> bytes:
    """The batch with another value of a field of its header, under a right checksum."""
    changed = bytearray(batch)
    changed[at : at + len(value)] = value
    changed[17:21] = crc32c(bytes(changed[21:])).to_bytes(4, "big")
    return bytes(changed)


@pytest.mark.parametrize(
    ("at", "value", "why"),
    [
        (22, b"\x05", "the records of the batch cannot be read"),  # a codec that nobody knows
        (23, b"\xff\xff\xff\xff", "the batch is damaged"),  # a negative last offset delta
        (57, b"\xff\xff\xff\xff", "the batch is damaged"),  # a negative number of records
    ],
)
def test_a_field_that_cannot_be_is_refused(
    files: FakeFiles, at: int, value: bytes, why: str
) -> None:
    folder = Folder(files)
    folder.add(with_field(plain(0, (A, b"1")), at, value), end=9)
    assert f"at byte 0: {why}" in refusal(folder)


def test_a_file_that_becomes_shorter_is_refused(disk: FakeDisk) -> None:
    class ShrinkingFiles(FakeFiles):
        def read(self, handle: int, size: int, position: int) -> bytes:
            return super().read(handle, size, position)[: 90 - position]

    folder = fill(ShrinkingFiles(disk))
    assert "the batch is cut off" in refusal(folder)


@pytest.mark.parametrize("second", [plain(1, (B, b"1")), transactional(1, 4000, (B, b"1"))])
def test_damage_beyond_the_range_does_not_matter_unless_it_is_read(
    disk: FakeDisk, files: FakeFiles, second: bytes
) -> None:
    """The first segment is read for its keys, and the second one, whose keys do not fit."""
    folder = with_limits(Folder(files), segment_bytes=1)
    folder.dedupe_bytes = 1
    folder.add(plain(0, (A, b"1")))
    folder.add(second)
    folder.add(plain(2, (C, b"1")))
    disk.flip(segment_path(FOLDER, 2), 60)
    result = folder.compact(NOW)
    assert (result.first_dirty, result.blocked_by) == (1, -1)


def test_a_missing_segment_is_named(folder: Folder) -> None:
    path = segment_path(FOLDER, 4)
    folder.files.remove(path)
    with pytest.raises(FileNotFoundError) as caught:
        compact(folder.files, folder.job(NOW))
    assert caught.value.filename == path


# -- a failing disk --------------------------------------------------------------------------------


def calls_of_a_run() -> int:
    disk = FakeDisk()
    folder = fill(FakeFiles(disk))
    before = disk.calls
    compact(folder.files, folder.job(NOW))
    return disk.calls - before


CALLS = calls_of_a_run()


def sources_of(folder: Folder) -> tuple[bytes, list[str]]:
    names = folder.files.list_folder(FOLDER)
    return folder.contents(), [name for name in names if not name.endswith(".cleaned")]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_after_an_error_of_the_disk_nothing_new_is_left(code: int) -> None:
    for call in range(1, CALLS + 1):
        disk = FakeDisk()
        files = FakeFiles(disk)
        folder = fill(files)
        before = sources_of(folder)
        disk.failures[disk.calls + call] = OSError(code, "it failed")
        with pytest.raises(OSError, match="it failed"):
            compact(files, folder.job(NOW))
        assert cleaned(disk) == [], call
        assert sources_of(folder) == before, call
        assert files.open_paths == [], call
        disk.failures.clear()
        folder.compact(NOW)


@pytest.mark.parametrize("mode", ["lose", "names", "keep", "tear", "spoil"])
def test_a_crash_leaves_the_sources_as_they_are(mode: str) -> None:
    expected = fill(FakeFiles(FakeDisk()))
    wanted = compact(expected.files, expected.job(NOW))
    for call in range(1, CALLS + 1):
        disk = FakeDisk()
        folder = fill(FakeFiles(disk))
        disk.write_back()
        before = sources_of(folder)
        disk.crash_at = disk.calls + call
        with pytest.raises(Crash):
            compact(folder.files, folder.job(NOW))
        disk.power_cut(mode, seed=call)
        folder.files = FakeFiles(disk)
        assert sources_of(folder) == before, call
        result = compact(folder.files, folder.job(NOW))  # over what the crash has left
        assert result == wanted, call
        folder.swap(result)


def test_the_result_is_on_the_disk(disk: FakeDisk, folder: Folder) -> None:
    disk.write_back()
    result = compact(folder.files, folder.job(NOW))
    names = cleaned(disk)
    contents = [disk.contents(f"{FOLDER}/{name}") for name in names]
    disk.power_cut("lose")
    assert cleaned(disk) == names
    assert len(names) == 3 * len(result.segments) == 6
    assert [disk.contents(f"{FOLDER}/{name}") for name in names] == contents


def test_files_of_another_compaction_are_left_alone(disk: FakeDisk, folder: Folder) -> None:
    other = f"{FOLDER}/{0:020d}.log.other.cleaned"
    folder.files.close(folder.files.open(other, create=True))
    disk.failures[disk.calls + 5] = OSError(errno.ENOSPC, "it failed")
    with pytest.raises(OSError, match="it failed"):
        compact(folder.files, folder.job(NOW))
    assert cleaned(disk) == [other.rpartition("/")[2]]


def test_what_is_left_of_the_same_compaction_is_overwritten(disk: FakeDisk, folder: Folder) -> None:
    for suffix in (".log", ".index", ".timeindex"):
        handle = folder.files.open(f"{FOLDER}/{0:020d}{suffix}.{TOKEN}.cleaned", create=True)
        folder.files.write(handle, bytes(10_000), 0)
        folder.files.close(handle)
    folder.compact(NOW)  # checks the files


def test_all_files_are_closed(files: FakeFiles, folder: Folder) -> None:
    compact(files, folder.job(NOW))
    assert files.open_paths == []


def test_a_segment_of_two_gibibytes_is_refused(
    monkeypatch: pytest.MonkeyPatch, disk: FakeDisk, folder: Folder
) -> None:
    monkeypatch.setattr(segment_writer, "MAX_BYTES", 100)
    with pytest.raises(StorageError, match="a segment must be smaller than 2 GiB"):
        compact(folder.files, folder.job(NOW))
    assert cleaned(disk) == []


# -- memory, and the check -------------------------------------------------------------------------


class MeasuredFiles(FakeFiles):
    """Notes how much is read and written at once."""

    def __init__(self, disk: FakeDisk) -> None:
        super().__init__(disk)
        self.reads: list[int] = []
        self.writes: list[int] = []

    def read(self, handle: int, size: int, position: int) -> bytes:
        data = super().read(handle, size, position)
        self.reads.append(len(data))
        return data

    def write(self, handle: int, data: bytes, position: int) -> None:
        self.writes.append(len(data))
        super().write(handle, data, position)


@pytest.fixture
def large() -> Folder:
    """Five MiB, half of which is kept, and one batch larger than a piece."""
    folder = Folder(MeasuredFiles(FakeDisk()))
    keys = [b"%d" % number for number in range(200)]
    folder.add(
        *(encode_batch(at, 0, TIME, [(keys[at % 200], bytes(9_000))]) for at in range(400)),
        encode_batch(400, 0, TIME, [(b"large", bytes(3 * MIB // 2))]),
        encode_batch(401, 0, TIME, [(b"last", b"")]),
    )
    return folder


def test_files_are_read_and_written_in_pieces(large: Folder) -> None:
    files = large.files
    assert isinstance(files, MeasuredFiles)
    files.reads.clear()
    files.writes.clear()
    result = compact(files, large.job(NOW))
    assert result.records_kept == 202
    most = 3 * MIB // 2 + 100
    assert max(files.reads) < most
    assert max(files.writes) < PIECE + most
    assert len(files.writes) < 8
    assert sum(files.reads) < 2.5 * result.bytes_read


def test_the_check_is_called_about_every_mebibyte(large: Folder) -> None:
    calls = []
    result = large.compact(NOW, lambda: calls.append(1))
    assert len(calls) >= 2 * result.bytes_read // (2 * MIB)


def test_what_the_check_raises_ends_the_compaction(disk: FakeDisk, folder: Folder) -> None:
    class ParentDiedError(Exception):
        pass

    for last in range(1, 5):
        calls: list[int] = []
        with pytest.raises(ParentDiedError):
            compact(folder.files, folder.job(NOW), _raising(ParentDiedError(), calls, last))
        assert len(calls) == last
        assert cleaned(disk) == []


def _raising(error: Exception, calls: list[int], last: int) -> Callable[[], None]:
    def check() -> None:
        calls.append(1)
        if len(calls) == last:
            raise error

    return check


def test_a_batch_larger_than_a_piece_is_kept(large: Folder) -> None:
    large.compact(NOW)
    assert [len(each.value or b"") for each in records_of(large.contents())][-2:] == [
        3 * MIB // 2,
        0,
    ]


def test_keys_take_no_more_memory_than_is_counted() -> None:
    """At its worst: the map has just grown, and the one before it is still there.

    What the process takes is more than this: 175 bytes a key.
    """
    keys = KeyMap(0, 1 << 40, 1 << 40)
    batches = [plain(number, (b"%030d" % number, b"")) for number in range(22_000)]
    data = b"".join(batches)
    fields = [FIELDS.unpack_from(batch) for batch in batches]
    piece = Piece(FOLDER, SourceSegment(0, 22_000, len(data), None), 0, data, fields)
    tracemalloc.start()
    keys.take(piece)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.6 * KEY_BYTES < peak / 22_000 - 30 <= KEY_BYTES
