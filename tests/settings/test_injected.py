"""Variables of services beside settings, as the loader sees both."""

import pytest

from groupkeeper.settings.table import Settings, SettingsError, load


def of_service(name: str, address: str = "10.0.0.1") -> dict[str, str]:
    """What Kubernetes sets for a service with a named TCP and a nameless UDP port."""
    url = f"[{address}]" if ":" in address else address
    variables = {
        "SERVICE_HOST": address,
        "SERVICE_PORT": "9092",
        "SERVICE_PORT_KAFKA": "9092",
        "PORT": f"tcp://{url}:9092",
    }
    for protocol, port in (("tcp", 9092), ("udp", 53), ("sctp", 54)):
        one = f"PORT_{port}_{protocol.upper()}"
        variables |= {
            one: f"{protocol}://{url}:{port}",
            f"{one}_PROTO": protocol,
            f"{one}_PORT": str(port),
            f"{one}_ADDR": address,
        }
    return {f"{name}_{variable}": value for variable, value in variables.items()}


@pytest.mark.parametrize(
    "service",
    [
        "GROUPKEEPER",
        "GROUPKEEPER_HTTP",
        "GROUPKEEPER_HEADLESS",
        "GROUPKEEPER_0",
        "GROUPKEEPER_SERVICE",
        "GROUPKEEPER_PORT",
        "GROUPKEEPER_SERVICE_PORT",
        "GROUPKEEPER_NUM_PARTITIONS",
    ],
)
@pytest.mark.parametrize("address", ["10.0.0.1", "fd00::17"])
def test_variables_of_every_service_are_left_alone(service: str, address: str) -> None:
    environment = of_service(service, address) | {"GROUPKEEPER_GROUP_MAX_SIZE": "5"}
    assert load(environment=environment) == (Settings(group_max_size=5), ())


@pytest.mark.parametrize(
    ("variable", "value", "advice"),
    [
        ("GROUPKEEPER_MAX_CONECTIONS", "5", "did you mean max.connections?"),
        ("GROUPKEEPER_LISTEN_PORT", "9092", "no such setting"),
        ("GROUPKEEPER_SERVICE_HOSTT", "10.0.0.1", "no such setting"),
        ("GROUPKEEPER_PORT_9092_TCP_ADRR", "10.0.0.1", "no such setting"),
    ],
)
def test_a_misspelt_setting_is_refused_beside_injected_variables(
    variable: str, value: str, advice: str
) -> None:
    environment = of_service("GROUPKEEPER") | {variable: value}
    with pytest.raises(SettingsError, match=rf"variable {variable}\)") as caught:
        load(environment=environment)
    assert advice in str(caught.value)


def test_a_setting_whose_name_ends_like_a_port_is_read() -> None:
    """`port` is a key of Kafka's brokers of old: it is named, not ignored."""
    assert load(environment={"GROUPKEEPER_PORT": "9092"}) == (Settings(), ("port",))
