"""Values as JSON that a terminal shows as it is."""

import json
from typing import Any


def json_text(value: Any, **more: Any) -> str:  # Any: JSON, and options of json.dumps
    """Return one line of JSON. Letters of all languages stay readable; characters that move the
    cursor, change the direction of the text or are not seen are escaped.
    """
    text = json.dumps(value, ensure_ascii=False, **more)
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)
