"""Reads what settings come from: Java's properties files, and variables that are no settings."""

import re
from io import StringIO


def parse_properties(text: str) -> list[tuple[str, str]]:
    """Return the pairs of a Java properties file in order, including repeated keys.

    Raises ValueError when `\\u` is not followed by four hexadecimal digits.
    """
    from javaproperties import InvalidUEscapeError, KeyValue
    from javaproperties import parse as elements

    try:
        found = [each for each in elements(StringIO(text)) if isinstance(each, KeyValue)]
    except InvalidUEscapeError as error:
        raise ValueError(f"{error}: four hexadecimal digits must follow \\u") from None
    return [(each.key, each.value) for each in found]


_OF_A_SERVICE = re.compile(
    r".+_SERVICE_HOST|.+_SERVICE_PORT(_.+)?|.+_PORT_\d+_(TCP|UDP|SCTP)(_PROTO|_ADDR|_PORT)?",
    re.ASCII,
)


def injected(name: str, value: str) -> bool:
    """Return whether Kubernetes sets this variable to describe a service.

    Every container of the namespace gets the variables of all services (documentation of
    Kubernetes: "Accessing the Service"). No setting has a name of such a form.
    """
    is_url = name.endswith("_PORT") and "://" in value
    return is_url or _OF_A_SERVICE.fullmatch(name) is not None
