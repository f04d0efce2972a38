"""The bytes of a journal: written, read back, torn and damaged."""

import pytest

from groupkeeper.storage.errors import Corrupt
from groupkeeper.storage.journal.format import batch_entry, claim_entry
from groupkeeper.storage.journal.journal import JournalReader, JournalWriter
from tests.support.batches import batch
from tests.support.fake_files import FakeDisk, FakeFiles
from tests.support.stored import cut_file, salt_positions, write_file


@pytest.fixture
def writer(files: FakeFiles) -> JournalWriter:
    files.make_folder("journals")
    return JournalWriter(files, "journals", 0, 5)


def write(writer: JournalWriter, *values: bytes, base: int = 0, name: bytes = b"t-0") -> None:
    writer.write(batch_entry(name, batch(base, *values)))


def read(files: FakeFiles) -> JournalReader:
    [name] = files.list_folder("journals")
    return JournalReader(files, f"journals/{name}")


def test_entries_are_found_by_log_and_read_back(writer: JournalWriter, files: FakeFiles) -> None:
    write(writer, b"a", b"b")
    write(writer, b"x", base=90, name=b"other-1")
    write(writer, b"c", base=2)
    reader = read(files)
    assert reader.names == {"t-0", "other-1"}
    assert [(base, last) for base, last, _, _ in reader.entries("t-0")] == [(0, 1), (2, 2)]
    [_, (_, _, position, size)] = reader.entries("t-0")
    assert reader.batch(position, size) == batch(2, b"c")


def test_a_flush_holds_entries_of_many_logs_and_claims(
    writer: JournalWriter, files: FakeFiles
) -> None:
    pieces = [*claim_entry(3, 9), *batch_entry(b"t-0", batch(0, b"a")), *claim_entry(3, 8)]
    writer.write(pieces)
    reader = read(files)
    assert (reader.epochs, reader.names, reader.next_flush) == ({3: 9}, {"t-0"}, 6)


def test_a_flush_without_entries_counts(writer: JournalWriter, files: FakeFiles) -> None:
    assert read(files).is_empty
    writer.write(())
    assert not read(files).is_empty


def test_a_flush_larger_than_a_piece_is_read(writer: JournalWriter, files: FakeFiles) -> None:
    write(writer, bytes(3_000_000))
    write(writer, b"b", base=1)
    assert [base for base, *_ in read(files).entries("t-0")] == [0, 1]


@pytest.mark.parametrize("cut", [1, 23, 24, 54])
def test_an_unfinished_flush_is_as_if_never_begun(
    writer: JournalWriter, files: FakeFiles, cut: int
) -> None:
    write(writer, b"a")
    end = writer.size
    write(writer, b"b", base=1)
    cut_file(files.disk, writer.path, end + cut)
    reader = read(files)
    assert [base for base, *_ in reader.entries("t-0")] == [0]
    assert reader.next_flush == 6


@pytest.mark.parametrize("place", [0, 7, 8, 15, 19, 20, 34, 64])
def test_a_damaged_flush_with_a_sound_one_behind_it_is_corrupt(
    writer: JournalWriter, files: FakeFiles, disk: FakeDisk, place: int
) -> None:
    write(writer, b"a")
    first = writer.size
    write(writer, b"b", base=1)
    write(writer, b"c", base=2)
    disk.flip(writer.path, first + place)
    with pytest.raises(Corrupt, match=f"the flush at byte {first} is damaged"):
        read(files)


def test_a_damaged_last_flush_is_as_if_never_begun(
    writer: JournalWriter, files: FakeFiles, disk: FakeDisk
) -> None:
    write(writer, b"a")
    first = writer.size
    write(writer, b"b", base=1)
    disk.flip(writer.path, first + 30)
    assert read(files).next_flush == 6


def test_a_file_that_goes_on_with_an_old_flush_ends_before_it(
    writer: JournalWriter, files: FakeFiles, disk: FakeDisk
) -> None:
    write(writer, b"a")
    old = disk.contents(writer.path)
    write_file(disk, writer.path, old, len(old))
    assert read(files).next_flush == 6


def test_what_a_client_sends_cannot_pass_for_a_round(
    writer: JournalWriter, files: FakeFiles, disk: FakeDisk
) -> None:
    """Or one commit and a power cut would keep the server from starting."""
    files.make_folder("elsewhere")
    like_ours = JournalWriter(files, "elsewhere", 0, 10)
    like_ours.write(())
    write(writer, b"a")
    write(writer, disk.contents(like_ours.path)[: like_ours.size] + b"the end", base=1)
    disk.flip(writer.path, disk.contents(writer.path).index(b"the end"))
    assert read(files).next_flush == 6


class Overtaken(FakeFiles):
    """Reads of a journal come in the middle of its writes: some bytes are not there yet."""

    def __init__(self, disk: FakeDisk) -> None:
        super().__init__(disk)
        self.late: list[int] = []
        """Positions, each of which is seen as zeros once, and one in each read."""

    def read(self, handle: int, size: int, position: int) -> bytes:
        data = bytearray(super().read(handle, size, position))
        for at in self.late:
            if position <= at and at + 16 <= position + len(data):
                data[at - position : at - position + 16] = bytes(16)
                self.late.remove(at)
                break
        return bytes(data)


def middles(writer: JournalWriter, disk: FakeDisk) -> list[int]:
    """A position in each flush of a journal."""
    return [start + 20 for start in salt_positions(disk, writer.path)]


@pytest.mark.parametrize("late", [(0,), (2,), (0, 1), (1, 2, 3)])
def test_a_flush_that_its_living_owner_was_writing_is_read_again(
    writer: JournalWriter, disk: FakeDisk, late: tuple[int, ...]
) -> None:
    for base in range(5):
        write(writer, b"v", base=base)
    files = Overtaken(disk)
    files.late = [middles(writer, disk)[each] for each in late]
    assert [base for base, *_ in read(files).entries("t-0")] == list(range(5))
    assert files.late == []


def test_a_known_journal_is_read_on_while_its_owner_writes(
    writer: JournalWriter, disk: FakeDisk
) -> None:
    write(writer, b"v")
    files = Overtaken(disk)
    reader = read(files)
    for base in range(1, 4):
        write(writer, b"v", base=base)
    files.late = [middles(writer, disk)[1]]
    reader.read_on()
    assert [base for base, *_ in reader.entries("t-0")] == list(range(4))
    assert files.late == []


def test_a_flush_that_stays_bad_is_damage(writer: JournalWriter, files: FakeFiles) -> None:
    for base in range(3):
        write(writer, b"v", base=base)
    files.disk.flip(writer.path, 40)
    with pytest.raises(Corrupt, match="the flush at byte 0 is damaged and a sound one follows at"):
        read(files)
