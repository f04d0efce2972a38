import pytest

from tests.support.fake_files import FakeDisk, FakeFiles


@pytest.fixture
def disk() -> FakeDisk:
    return FakeDisk()


@pytest.fixture
def files(disk: FakeDisk) -> FakeFiles:
    return FakeFiles(disk)
