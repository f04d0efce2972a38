import pytest

from groupkeeper.why.texts import person, setting, settings_in


def test_settings_are_read_from_a_text_as_they_were_written():
    text = (
        f"set {setting('group.max.session.timeout.ms', 2_000_000)} of the coordinator, and then "
        f"{setting('session.timeout.ms', 1_900_000)}; {setting('group.max.size', 7)}."
    )
    assert settings_in(text) == [
        ("group.max.session.timeout.ms", 2_000_000),
        ("session.timeout.ms", 1_900_000),
        ("group.max.size", 7),
    ]


@pytest.mark.parametrize("text", ["", "a=1", "partition.assignment.strategy=range", "a.b = 1"])
def test_other_texts_have_none(text):
    assert settings_in(text) == []


def test_a_person_is_named_with_the_login() -> None:
    who = {"member": "", "client_id": "admin", "host": "/10.0.0.7", "principal": "User:ops"}
    assert person(who) == "admin (on 10.0.0.7, logged in as User:ops)"
