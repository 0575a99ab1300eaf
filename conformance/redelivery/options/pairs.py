"""Options of the form `NAME=VALUE`."""


def parse_pair(text: str) -> tuple[str, str]:
    """Return name and value.

    Raises:
        ValueError: the text has no name or no equals sign.
    """
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ValueError("write NAME=VALUE")
    return name, value
