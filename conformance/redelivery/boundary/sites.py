"""Call sites: the line of the handler's own code that makes a call."""

import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

_KIT = str(Path(__file__).parents[1])
_STANDARD = sysconfig.get_path("stdlib")
_LIBRARIES = ("boto3", "botocore", "httpx", "httpcore", "moto", "requests", "urllib3", "responses")


def call_site(root: Path) -> str:
    """Return the innermost line of the handler's own code, as `file:line`.

    Without one, the innermost line that is not of an SDK: a framework makes the call.
    """
    frame: FrameType | None = sys._getframe(1)
    fallback = ""
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if _is_own(path, root):
            return f"{path.relative_to(root)}:{frame.f_lineno}"
        if not fallback and not _is_plumbing(path):
            fallback = f"{'/'.join(path.parts[-3:])}:{frame.f_lineno}"
        frame = frame.f_back
    return fallback


def _is_own(path: Path, root: Path) -> bool:
    return (
        path.is_relative_to(root)
        and "site-packages" not in path.parts
        and (root.is_relative_to(_KIT) or not path.is_relative_to(_KIT))
    )


def _is_plumbing(path: Path) -> bool:
    if "site-packages" in path.parts:
        package = path.parts[path.parts.index("site-packages") + 1]
        return package.removesuffix(".py") in _LIBRARIES
    return path.is_relative_to(_KIT) or path.is_relative_to(_STANDARD) or path.name.startswith("<")
