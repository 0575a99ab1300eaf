"""Server of the embedded AWS: MiniStack, which unpacks each package once.

The Python of the embedded AWS's own virtual environment runs this file as a script, with the
arguments of hypercorn. By itself, MiniStack unpacks the package again for each process of a
function. The example's largest package has 4,764 files. The processes that the demo kills made that
20 of the 62 CPU seconds of the server, which answers no other request meanwhile.
"""

import hashlib
import os
import sys
import tempfile
import threading
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

_LOCK = threading.Lock()


class PackageFile(zipfile.ZipFile):
    """A zip file. If it is a function's package, it is unpacked once, and linked from then on."""

    def extractall(self, path: Any = None, members: Any = None, pwd: Any = None) -> None:
        """Unpack into a folder; the empty folder for a function's code becomes a symbolic link."""
        folder = Path(path or os.curdir)
        if not (folder.name == "code" and folder.parent.name.startswith("ministack-lambda-")):
            super().extractall(path, members, pwd)
            return
        with Path(str(self.filename)).open("rb") as file:
            name = hashlib.file_digest(file, "sha256").hexdigest()
        shared = Path(tempfile.gettempdir()) / f"package-{name}"
        with _LOCK:
            if not shared.exists():
                part = Path(tempfile.mkdtemp())
                super().extractall(part, members, pwd)
                part.rename(shared)
        folder.rmdir()
        folder.symlink_to(shared)


def main() -> None:
    """Run hypercorn with the arguments of this process."""
    zipfile.ZipFile = PackageFile  # type: ignore[misc]
    sys.exit(import_module("hypercorn.__main__").main())


if __name__ == "__main__":
    main()
