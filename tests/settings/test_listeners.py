"""Security protocols of listeners, and keys that have no effect."""

import pytest

from groupkeeper.settings.listeners import Given, listeners_of, without_effect
from groupkeeper.settings.options import Listen, SecurityProtocol
from groupkeeper.settings.table import SettingsError, load

DEFAULT = ("127.0.0.1", 9092)
NOT_GIVEN = Given(None, None)


def listeners(*assignments: str, given: Given = NOT_GIVEN) -> tuple[Listen, ...]:
    return listeners_of(load(assignments=assignments)[0], given, DEFAULT)


def protocols(*assignments: str) -> dict[str, str]:
    return {each.name: each.protocol.name for each in listeners(*assignments)}


def test_names_of_protocols_stand_for_them_and_others_are_plain() -> None:
    found = protocols("listeners=PLAINTEXT://h:1,ssl://h:2,INSIDE://h:3")
    assert found == {"PLAINTEXT": "PLAINTEXT", "SSL": "SSL", "INSIDE": "PLAINTEXT"}


def test_a_map_says_which_protocol_a_name_has() -> None:
    found = protocols(
        "listeners=INSIDE://h:1,OUTSIDE://[::1]:2",
        "listener.security.protocol.map= inside:PLAINTEXT , OUTSIDE:ssl,CONTROLLER:SASL_SSL",
    )
    assert found == {"INSIDE": "PLAINTEXT", "OUTSIDE": "SSL"}


def test_a_map_may_give_the_default_listener_another_protocol() -> None:
    assert protocols("listener.security.protocol.map=PLAINTEXT:SSL") == {"PLAINTEXT": "SSL"}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("A", "'A' is not NAME:PROTOCOL with one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ("A:TLS", "'A:TLS' is not NAME:PROTOCOL"),
        (":SSL", "':SSL' is not NAME:PROTOCOL"),
        ("A:SSL,a:PLAINTEXT", "A is given twice"),
        ("B:SSL", "no protocol for the listener A: add A:PLAINTEXT"),
        ("", "no protocol for the listener A"),
    ],
)
def test_a_wrong_map_is_one_line(given: str, problem: str) -> None:
    with pytest.raises(SettingsError, match=f"^listener.security.protocol.map: {problem}"):
        listeners("listeners=A://h:1", f"listener.security.protocol.map={given}")


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_logins_are_asked_for_by_name_and_by_map(protocol: str) -> None:
    assert protocols(f"listeners={protocol}://h:1") == {protocol: protocol}
    mapped = protocols("listeners=A://h:1", f"listener.security.protocol.map=A:{protocol}")
    assert mapped == {"A": protocol}


def test_the_only_listener_of_the_command_line_is_named_like_its_protocol() -> None:
    [only] = listeners(given=Given(("::1", 0), None, SecurityProtocol.SSL))
    assert only == Listen("SSL", ("::1", 0), None, SecurityProtocol.SSL)


def test_settings_of_listeners_that_there_are_not_are_named() -> None:
    settings, _ = load(
        assignments=[
            "listeners=A://h:1",
            "listener.name.a.ssl.client.auth=none",
            "listener.name.b.ssl.client.auth=none",
        ]
    )
    found = listeners_of(settings, NOT_GIVEN, DEFAULT)
    assert without_effect(settings, NOT_GIVEN, found) == ("listener.name.b.ssl.client.auth",)


def test_protocols_say_what_they_have() -> None:
    assert [each.name for each in SecurityProtocol if each.is_tls] == ["SSL", "SASL_SSL"]
    assert [each.name for each in SecurityProtocol if each.has_sasl] == [
        "SASL_PLAINTEXT",
        "SASL_SSL",
    ]
