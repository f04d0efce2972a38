import pytest

from tests.support.fake_files import FakeDisk, FakeFiles


@pytest.fixture
def disk() -> FakeDisk:
    return FakeDisk()


@pytest.fixture
def files(disk: FakeDisk) -> FakeFiles:
    return FakeFiles(disk)


@pytest.fixture
def fewer_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mebibyte ahead in each of many tiny journals would be most of the work."""
    monkeypatch.setattr("groupkeeper.storage.journal.journal.AHEAD_BYTES", 2048)
