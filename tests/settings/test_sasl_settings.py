"""The settings of SASL: what holds for a listener, and what is refused without showing it."""

import pytest

from groupkeeper.settings.listeners import Given, listeners_of
from groupkeeper.settings.options import SecurityProtocol
from groupkeeper.settings.sasl_settings import (
    PLAIN_MODULE,
    ListenerSasl,
    SaslSettingError,
    plain_passwords,
    sasl_of,
    settings_of,
)
from groupkeeper.settings.table import SettingsError, load

OWN = "listener.name.sasl_plaintext"
LISTENER = "SASL_PLAINTEXT"


def sasl(*assignments: str) -> ListenerSasl:
    settings, unused = load(assignments=assignments)
    assert unused == ()
    return sasl_of(settings, LISTENER)


def test_a_listener_has_the_general_settings() -> None:
    found = sasl("sasl.enabled.mechanisms=PLAIN, SCRAM-SHA-512", "connections.max.reauth.ms=7")
    assert found.mechanisms == ("PLAIN", "SCRAM-SHA-512")
    assert found.lifetime_ms == {"PLAIN": 7, "SCRAM-SHA-512": 7}
    assert found.passwords is None


def test_its_own_ones_come_first() -> None:
    found = sasl(
        "sasl.enabled.mechanisms=SCRAM-SHA-512",
        f"{OWN}.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256",
        f"{OWN}.connections.max.reauth.ms=8",
        f"{OWN}.plain.connections.max.reauth.ms=9",
        "connections.max.reauth.ms=7",
        f'{OWN}.plain.sasl.jaas.config={PLAIN_MODULE} required user_a="hunter2";',
        "listener.name.other.sasl.enabled.mechanisms=OAUTHBEARER",
    )
    assert found.lifetime_ms == {"PLAIN": 9, "SCRAM-SHA-256": 8}
    assert found.passwords == {"a": "hunter2"}
    assert "hunter2" not in repr(found)


@pytest.mark.parametrize("of", ["", "plain."])
def test_a_wrong_lifetime_of_a_listener_names_the_whole_key(of: str) -> None:
    key = f"{OWN}.{of}connections.max.reauth.ms"
    with pytest.raises(SettingsError, match=f"^{key} = '1s'"):
        load(assignments=[f"{key}=1s"])


def test_tokens_of_a_listener_may_have_an_issuer_of_its_own() -> None:
    settings, unused = load(assignments=[f"{OWN}.sasl.oauthbearer.expected.issuer=me"])
    assert unused == ()
    assert settings.for_listener(LISTENER).sasl_oauthbearer_expected_issuer == "me"
    assert settings.sasl_oauthbearer_expected_issuer is None


def test_settings_of_the_mechanism_precede_those_of_the_listener() -> None:
    oauth = "sasl.oauthbearer"
    settings, unused = load(
        assignments=[
            f"{OWN}.oauthbearer.{oauth}.expected.issuer=of the mechanism",
            f"{OWN}.oauthbearer.{oauth}.clock.skew.seconds=3",
            f"{OWN}.oauthbearer.sasl.jaas.config=org.example.OAuthBearerLoginModule required;",
            f"{OWN}.{oauth}.expected.issuer=of the listener",
            f"{OWN}.{oauth}.expected.audience=of the listener",
            f"{oauth}.expected.issuer=of all",
            f"{oauth}.expected.audience=of all",
            f"{oauth}.sub.claim.name=of all",
        ]
    )
    assert unused == ()
    found = settings_of(settings, LISTENER, "OAUTHBEARER")
    assert found.sasl_oauthbearer_expected_issuer == "of the mechanism"
    assert found.sasl_oauthbearer_clock_skew_seconds == 3
    assert found.sasl_oauthbearer_expected_audience == "of the listener"
    assert found.sasl_oauthbearer_sub_claim_name == "of all"
    other = settings_of(settings, "OTHER", "OAUTHBEARER")
    assert other.sasl_oauthbearer_expected_issuer == "of all"


def test_the_keys_of_the_issuer_may_be_those_of_the_mechanism_only() -> None:
    url = f"{OWN}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url"
    assert sasl("sasl.enabled.mechanisms=OAUTHBEARER", f"{url}=file:///keys").mechanisms
    with pytest.raises(SaslSettingError, match="OAUTHBEARER needs"):
        sasl("sasl.enabled.mechanisms=OAUTHBEARER", f"{url}=ftp://keys")


@pytest.mark.parametrize(
    ("key", "mechanism"),
    [
        ("sasl.oauthbearer.expected.issuer", "plain"),
        ("sasl.enabled.mechanisms", "oauthbearer"),
        ("ssl.client.auth", "oauthbearer"),
    ],
)
def test_other_settings_are_for_no_mechanism(key: str, mechanism: str) -> None:
    """As in Kafka they have no effect: they are read as those of a listener that there is not."""
    value = "none" if key == "ssl.client.auth" else "X"
    settings, _ = load(assignments=[f"{OWN}.{mechanism}.{key}={value}"])
    attribute = key.replace(".", "_")
    found = settings_of(settings, LISTENER, mechanism)
    assert getattr(found, attribute) == getattr(load()[0], attribute)


def test_a_plain_file_of_kafka_is_not_asked_for_mechanisms() -> None:
    load(assignments=["sasl.enabled.mechanisms=GSSAPI", "sasl.kerberos.service.name=kafka"])


@pytest.mark.parametrize(
    ("assignments", "problem"),
    [
        ((), "listener SASL_PLAINTEXT needs sasl.enabled.mechanisms: give some of PLAIN, SCRAM-"),
        (("sasl.enabled.mechanisms=GSSAPI",), "'GSSAPI' is not served: give some of PLAIN, SC"),
        (("sasl.enabled.mechanisms=plain",), "'plain' is not served"),
        ((f"{OWN}.sasl.enabled.mechanisms=X",), f"{OWN}.sasl.enabled.mechanisms: 'X'"),
        (("sasl.enabled.mechanisms=OAUTHBEARER",), "OAUTHBEARER needs sasl.oauthbearer.jwks."),
        (
            (
                "sasl.enabled.mechanisms=OAUTHBEARER",
                "sasl.oauthbearer.jwks.endpoint.url=ftp://keys",
            ),
            "OAUTHBEARER needs sasl.oauthbearer.jwks.endpoint.url: give https://",
        ),
        (
            (
                "sasl.enabled.mechanisms=PLAIN",
                "connection.failed.authentication.delay.ms=1000",
                "connections.max.idle.ms=1000",
            ),
            "must be less than connections.max.idle.ms",
        ),
    ],
)
def test_what_cannot_be_is_one_line(assignments: tuple[str, ...], problem: str) -> None:
    with pytest.raises(SaslSettingError) as error:
        sasl(*assignments)
    assert problem in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "passwords"),
    [
        ('username="x" password="y" user_admin="p w"', {"admin": "p w"}),
        (r'user_a="quote\"d \\ back"', {"a": 'quote"d \\ back'}),
        ("user_a-b.c@d=plain user_e='x'", {"a-b.c@d": "plain", "e": "'x'"}),
        ('\n  user_a="1"\n  user_b="2"\n', {"a": "1", "b": "2"}),
        ("", {}),
    ],
)
def test_passwords_are_those_of_the_login_module(options: str, passwords: dict[str, str]) -> None:
    assert plain_passwords("key", f"{PLAIN_MODULE} required {options};") == passwords


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hunter2",
        f'{PLAIN_MODULE} required user_a="hunter2"',
        f'{PLAIN_MODULE} user_a="hunter2";',
        f'{PLAIN_MODULE} required user_a="hunter2;',
        f'{PLAIN_MODULE} required hunter2 user_a="x";',
        'org.example.Module required user_a="hunter2";',
    ],
)
def test_an_entry_that_cannot_be_read_is_not_shown(text: str) -> None:
    with pytest.raises(SaslSettingError) as error:
        plain_passwords("the.key", text)
    assert str(error.value).startswith("the.key: ") and "hunter2" not in str(error.value)


def test_passwords_are_not_in_the_settings_that_are_shown() -> None:
    key = f"{OWN}.plain.sasl.jaas.config"
    settings, _ = load(assignments=[f'{key}={PLAIN_MODULE} required user_a="hunter2";'])
    assert "hunter2" not in repr(settings)
    assert key not in settings.given


def test_a_listener_is_named_after_its_protocol() -> None:
    settings, _ = load(
        assignments=["listeners=SASL_PLAINTEXT://127.0.0.1:1,PLAINTEXT://127.0.0.1:2,X://h:3"]
    )
    found = listeners_of(settings, Given(None, None), ("127.0.0.1", 0))
    plain = SecurityProtocol.PLAINTEXT
    assert [each.protocol for each in found] == [SecurityProtocol.SASL_PLAINTEXT, plain, plain]
    assert [each.protocol.has_sasl for each in found] == [True, False, False]
