"""Server of the embedded AWS: MiniStack, with functions that start as Lambda starts them.

The Python of the embedded AWS's own virtual environment runs this file as a script, with the
arguments of hypercorn. Five things differ from MiniStack alone:

- A package is unpacked once, and what two packages have in common is unpacked once for both. By
  itself, MiniStack unpacks a package again for each process of a function. The example's largest
  package has 4,764 files. The processes that the demo kills made that 20 of the 62 CPU seconds of
  the server, which answers no other request meanwhile.
- A function runs on the Python that its package was built for, without any installed package.
- An error while a function is loaded is in the function's log, in the form of Lambda's runtime.
- A file that a function's variable `ONCE_PRELOAD` names runs before the handler is loaded.
- The address of an HTTP API is a path below the one URL. By itself, MiniStack gives it a name under
  an IP address, which no client can resolve.
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
_ERROR = "[ERROR] "
_END_SECONDS = 2.0

PROBE = {"once": "load"}
"""An event that only loads a function: its handler is not called."""

_START = '''
import importlib, os, runpy, sys, traceback

def _run_on_the_packages_python():
    """Replace this process: the working folder is the package, which names its Python."""
    if os.environ.pop("_ONCE_STARTED", None) or not os.path.exists(".python"):
        return
    with open(".python") as file:
        program = file.read()
    os.environ["_ONCE_STARTED"] = "1"
    try:
        os.execv(program, [program, "-S", "-s", "-P", __file__])
    except OSError as error:
        sys.exit(f"[ERROR] Runtime.InvalidEntrypoint: the package is built for {program}, which "
                 f"does not start ({error}): deploy again with --full")

def _import_handler(name, package=None):
    """Import the handler's module, which alone this script imports by name; log its error."""
    if sys._getframe(1).f_globals.get("__name__") != "__main__":
        return _import(name, package)
    importlib.import_module = _import
    if program := os.environ.get("ONCE_PRELOAD"):
        runpy.run_path(program, run_name="preloaded")
    try:
        return _import(name, package)
    except BaseException as error:
        kind, text = type(error).__name__, str(error)
        if isinstance(error, ImportError):
            kind, text = "Runtime.ImportModuleError", f"Unable to import module '{name}': {error}"
        elif isinstance(error, SyntaxError):
            kind, text = "Runtime.UserCodeSyntaxError", f"Syntax error in module '{name}': {error}"
        elif isinstance(error, SystemExit):
            kind, text = "Runtime.ExitError", f"module '{name}' ended the process ({error})"
        place = error.__traceback__.tb_next
        while place and "importlib" in place.tb_frame.f_code.co_filename:
            place = place.tb_next
        print(f"[ERROR] {kind}: {text}", file=sys.stderr)
        traceback.print_exception(type(error), error, place or error.__traceback__)
        sys.stderr.flush()
        raise

_run_on_the_packages_python()
_import, importlib.import_module = importlib.import_module, _import_handler
'''
"""Before MiniStack's script of a function's process, which reads the event from standard input."""


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
                package = Path(tempfile.mkdtemp())
                self._link_folders(package)
                package.rename(shared)
        folder.rmdir()
        folder.symlink_to(shared)

    def _link_folders(self, package: Path) -> None:
        """Unpack into an empty folder, with links to folders that an earlier package had too."""
        folders: dict[str, list[zipfile.ZipInfo]] = {}
        for member in self.infolist():
            name, slash, _ = member.filename.partition("/")
            folders.setdefault(name if slash else "", []).append(member)
        super().extractall(package, folders.pop("", []))
        for name, members in folders.items():
            # The checksums in place of the contents: reading these is most of the work.
            known = sorted(f"{m.filename} {m.CRC} {m.file_size}" for m in members)
            shared = Path(tempfile.gettempdir()) / f"folder-{_digest(known)}"
            if not shared.exists():
                unpacked = Path(tempfile.mkdtemp())
                super().extractall(unpacked, members)
                (unpacked / name).rename(shared)
                unpacked.rmdir()
            (package / name).symlink_to(shared)


def _digest(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def replace_worker(runtime: Any) -> None:
    """Let MiniStack's module of function processes start them as this module describes."""

    class Process(runtime.Worker):  # type: ignore[misc]
        """A process of a function. MiniStack puts into the log what `invoke` returns."""

        def invoke(self, event: Any, *arguments: Any, **options: Any) -> Any:
            """Load the function if it is not; call its handler unless the event is the probe."""
            try:
                if event != PROBE:
                    return super().invoke(event, *arguments, **options)
                runtime.ensure_spawned(self)
            except RuntimeError as error:
                return self._start_error(str(error))
            return {"status": "ok", "result": None, "log": ""}

        def _start_error(self, raised: str) -> dict[str, Any]:
            runtime.kill_workers([self])  # a thread of the module may keep the process alive
            self._stderr_thread.join(_END_SECONDS)
            _, _, rest = raised.partition("stderr: ")  # what MiniStack has read of it
            lines = [*self._drain_stderr().splitlines(), *rest.splitlines()]
            begins = [n for n, line in enumerate(lines) if line.startswith(_ERROR)]
            if not begins:  # it has found the error itself, such as a missing handler
                begins, lines = [len(lines)], [*lines, f"{_ERROR}Runtime.HandlerNotFound: {raised}"]
            told = "\n".join(lines[begins[-1] :]).partition("\nTraceback")[0]
            text = told.removeprefix(_ERROR)
            kind = text.partition(":")[0]
            lines.append(f"INIT_REPORT Phase: init\tStatus: error\tError Type: {kind}")
            return {"status": "error", "error": text, "trace": "\n".join(lines)}

    runtime.Worker = Process
    script = _START + runtime._PYTHON_WORKER_SCRIPT  # noqa: SLF001
    runtime._PYTHON_WORKER_SCRIPT = script  # noqa: SLF001


def address_apis(apigateway: Any) -> None:
    """Let MiniStack's module of HTTP APIs give each an address that clients reach."""

    class Apis(type(apigateway._apis)):  # type: ignore[misc] # noqa: SLF001
        """All HTTP APIs. What is stored is also what CloudFormation returns of an API."""

        def __setitem__(self, api_id: str, api: dict[str, Any]) -> None:
            address = f"{apigateway._HOST}:{apigateway._PORT}"  # noqa: SLF001
            api["apiEndpoint"] = f"https://{address}/_aws/execute-api/{api_id}"
            super().__setitem__(api_id, api)

    apigateway._apis = Apis()  # noqa: SLF001


def main() -> None:
    """Run hypercorn with the arguments of this process."""
    zipfile.ZipFile = PackageFile  # type: ignore[misc]
    replace_worker(import_module("ministack.core.lambda_runtime"))
    address_apis(import_module("ministack.services.apigateway"))
    sys.exit(import_module("hypercorn.__main__").main())


if __name__ == "__main__":
    main()
