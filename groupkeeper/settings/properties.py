"""Java properties files, such as Kafka's `server.properties`."""

from io import StringIO


def parse(text: str) -> list[tuple[str, str]]:
    """The pairs of a file in their order, repeated keys included.

    Raises ValueError when `\\u` is not followed by four hexadecimal digits.
    """
    from javaproperties import InvalidUEscapeError, KeyValue
    from javaproperties import parse as elements

    try:
        found = [each for each in elements(StringIO(text)) if isinstance(each, KeyValue)]
    except InvalidUEscapeError as error:
        raise ValueError(f"{error}: four hexadecimal digits must follow \\u") from None
    return [(each.key, each.value) for each in found]
