"""Environment variables that Kubernetes sets for a service named `groupkeeper...`.

It describes every service of the namespace to every container, in variables that begin with its
name. They look like settings of this server.

A variable is recognised by its name and the form of its value, or by another one that always comes
with it; by the name alone, misspelt settings would be ignored, too. Source: Kubernetes, "Accessing
the Service".
"""

import re
from collections.abc import Mapping

_URL = re.compile(r"(tcp|udp|sctp)://\S+:\d+", re.ASCII)
_ADDRESS = re.compile(r"(?=.*[.:])[0-9A-Fa-f.:]+")
_PORT_NUMBER = re.compile(r"\d{1,5}", re.ASCII)
_OF_ONE_PORT = re.compile(r".+_PORT_\d+_(TCP|UDP|SCTP)(_PROTO|_ADDR|_PORT)?", re.ASCII)


def injected(environment: Mapping[str, str], prefix: str) -> set[str]:
    """The variables with this prefix that describe services, by name."""
    ours = {name: value for name, value in environment.items() if name.startswith(prefix)}
    return {name for name, value in ours.items() if _is_injected(name, value, ours)}


def _is_injected(name: str, value: str, ours: Mapping[str, str]) -> bool:
    if name.endswith("_SERVICE_HOST"):
        return _ADDRESS.fullmatch(value) is not None
    if name.endswith("_PORT") and _URL.fullmatch(value):
        return True
    return _OF_ONE_PORT.fullmatch(name) is not None or _is_service_port(name, value, ours)


def _is_service_port(name: str, value: str, ours: Mapping[str, str]) -> bool:
    """`<SERVICE>_SERVICE_PORT` and `<SERVICE>_SERVICE_PORT_<PORT NAME>`; a service may itself be
    named `groupkeeper-service-port`.
    """
    return _PORT_NUMBER.fullmatch(value) is not None and any(
        _ADDRESS.fullmatch(ours.get(f"{name[: found.start()]}_SERVICE_HOST", ""))
        for found in re.finditer("_SERVICE_PORT(?=_|$)", name)
    )
