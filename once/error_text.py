"""Error text for logs: contains no part of a message."""

from traceback import walk_tb
from types import FrameType

_LIBRARIES = ("once", "aws_lambda_powertools")


def summary_of(error: Exception) -> str:
    """Return an error's class, and the error code of AWS if there is one."""
    response = getattr(error, "response", None)  # None for some errors without a response
    code = response.get("Error", {}).get("Code") if isinstance(response, dict) else None
    return f"{type(error).__name__} {code}" if code else type(error).__name__


def place_of(error: Exception) -> str:
    """Return the function and line of the handler's package in which an error was raised.

    If a handler calls another package, such as the SDK, this is the line of that call. An error
    that was raised without a handler has the place where it was raised.
    """
    calls = list(walk_tb(error.__traceback__))
    packages = [_package(frame) for frame, _ in calls]
    own = next((each for each in packages if not _is_in(each, _LIBRARIES)), "")
    places = [call for call, each in zip(calls, packages, strict=True) if _is_in(each, (own,))]
    if not calls:
        return "an unknown place"
    frame, line = (places or calls)[-1]
    return f"{frame.f_code.co_name}:{line}"


def _package(frame: FrameType) -> str:
    name = str(frame.f_globals.get("__name__"))
    return name.rpartition(".")[0] or name


def _is_in(package: str, parents: tuple[str, ...]) -> bool:
    return any(f"{package}.".startswith(f"{parent}.") for parent in parents)
