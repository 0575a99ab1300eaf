"""An execution environment of the function: its modules, imported anew for each."""

import contextlib
import importlib
import inspect
import json
import os
import sys
import traceback
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any
from uuid import uuid4

from redelivery.boundary.invocation import Invocation, Killed, wait_for_threads, working_for
from redelivery.subject import Subject, SubjectError
from redelivery.world.resources import ACCOUNT, REGION

FUNCTION = "function-under-test"
MEMORY_MB = 512
_A_MOMENT = 0.01


class LambdaContext:
    """The context of one invocation."""

    function_name = FUNCTION
    function_version = "$LATEST"
    invoked_function_arn = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{FUNCTION}"
    memory_limit_in_mb = MEMORY_MB
    log_group_name = f"/aws/lambda/{FUNCTION}"
    log_stream_name = "stream"
    identity = None
    client_context = None
    tenant_id = None

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation
        self.aws_request_id = str(uuid4())

    def get_remaining_time_in_millis(self) -> int:
        """Return what is left until Lambda ends the function."""
        self._invocation.sleep(_A_MOMENT)  # a loop that waits for its time to end does end
        return max(int(self._invocation.seconds_left * 1000), 0)


def runtime_variables(subject: Subject) -> dict[str, str]:
    """Return the variables that Lambda's runtime sets, and credentials that no service takes."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return {
        "_HANDLER": subject.handler,
        "LAMBDA_TASK_ROOT": str(subject.root.resolve()),
        "LAMBDA_RUNTIME_DIR": "/var/runtime",
        "AWS_EXECUTION_ENV": f"AWS_Lambda_python{version}",
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        **dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "testing"),
        "AWS_SESSION_TOKEN": "testing",
        **dict.fromkeys(("AWS_REGION", "AWS_DEFAULT_REGION"), REGION),
        "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true",
        "AWS_LAMBDA_FUNCTION_NAME": FUNCTION,
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(MEMORY_MB),
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{FUNCTION}",
        "AWS_LAMBDA_LOG_STREAM_NAME": "stream",
        "POWERTOOLS_TRACE_DISABLED": "1",
    }


class Process:
    """One execution environment. It keeps the module's globals from one invocation to the next."""

    def __init__(self, code: "Code", name: str) -> None:
        self.name = name
        self._code = code
        self._handler: Any = None

    def invoke(self, event: dict[str, Any], invocation: Invocation) -> Any:
        """Return the handler's answer. Raises what the handler raises, or Killed."""
        with working_for(invocation):
            try:
                if self._handler is None:
                    invocation.loading = True
                    self._handler = self._code.load()
                    invocation.loading = False
                answer = _marshalled(self._handler(event, LambdaContext(invocation)))
            finally:
                invocation.answered = True
                wait_for_threads(invocation)
                if invocation.refused:
                    raise invocation.refused
        if invocation.dead:  # the handler caught what ended its process
            raise Killed
        return answer


def _marshalled(answer: Any) -> Any:
    """Return an answer. Raises TypeError for one that is no JSON, as Lambda's runtime does.

    The runtime takes decimals and bytes as well; without the answer, SQS delivers the batch again:
    https://github.com/aws/aws-lambda-python-runtime-interface-client (lambda_runtime_marshaller).
    """

    def plain(value: Any) -> Any:
        if isinstance(value, Decimal | bytes):
            return str(value) if isinstance(value, Decimal) else value.decode()
        if inspect.iscoroutine(value):
            value.close()
        raise TypeError(
            f"Unable to marshal response: Object of type {type(value).__name__} is not JSON "
            "serializable"
        )

    json.dumps(answer, default=plain)
    return answer


class Code:
    """The handler's own modules: those of its folder, but for `keep` and what runs now."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        # Also the modules that run now: seen from another thread, they do not, and are imported
        # anew.
        self._below = _modules_below(subject.root, sys.modules)
        self._others = sys.modules.keys() - set(self._below)
        self._was_loaded = False

    @contextlib.contextmanager
    def importable(self) -> Iterator[None]:
        """Put the handler's folder in front of the path; afterwards all modules are as before."""
        root = str(self.subject.root.resolve())
        # Modules of the handler's top-level name, whatever folder they are of.
        top = self.subject.handler.replace("/", ".").partition(".")[0]
        namesakes = {name for name in self._others if name.partition(".")[0] == top}
        before = {name: sys.modules[name] for name in (*self._below, *namesakes)}
        self._others -= namesakes
        for name in namesakes:
            del sys.modules[name]
        paths = [root, *(str(layer.resolve()) for layer in self.subject.layers)]
        sys.path[:0] = paths
        try:
            yield
        finally:
            for path in paths:
                sys.path.remove(path)
            self._forget()
            sys.modules.update(before)

    def load(self) -> Any:
        """Import the handler's modules anew, and return its function.

        Raises:
            SubjectError: there is no such module or function.
            Exception: a later import fails, such as by a fault at a call that it makes. Lambda
                then delivers the messages again.
        """
        subject = self.subject
        module_name, _, function = subject.handler.replace("/", ".").rpartition(".")
        self._forget()
        importlib.invalidate_caches()
        try:
            module = importlib.import_module(module_name)
            loaded = getattr(module, function)
        except Exception as error:
            if self._was_loaded:
                raise
            place = f"{subject.handler} from {subject.root.resolve()}"
            if not isinstance(error, ModuleNotFoundError | AttributeError | ValueError):
                raise SubjectError(
                    f"{module_name} cannot be imported: {error!r}{raised_at(error, subject.root)}"
                ) from error
            remedy = "Name it as Lambda does, module.function, and give the folder with --root"
            if isinstance(error, ModuleNotFoundError) and error.name != module_name:
                remedy = f"Is {error.name} installed in this environment?"
                if (subject.root / str(error.name).partition(".")[0]).is_dir():
                    remedy = "The package is of another platform: give the source with --root"
            raise SubjectError(f"cannot load {place}: {error}. {remedy}") from error
        if not _file(module).startswith(f"{subject.root.resolve()}{os.sep}"):
            raise SubjectError(
                f"{module_name} was found at {_file(module)}, outside of {subject.root.resolve()}. "
                "Give the folder of the handler with --root"
            )
        self._was_loaded = True
        return loaded

    def _forget(self) -> None:
        kept = {"redelivery", "__main__", *self.subject.keep}
        running: set[str] = set()
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            running.add(frame.f_globals.get("__name__", ""))
            frame = frame.f_back
        for name in _modules_below(self.subject.root, sys.modules.keys() - self._others):
            if name.partition(".")[0] not in kept and name not in running:
                del sys.modules[name]


def raised_at(error: BaseException, root: Path) -> str:
    """Return ` at file:line`, the innermost of the handler's own lines; empty without one."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(root.resolve())]
    last = own[-1] if own else None
    return f" at {Path(last.filename).relative_to(root.resolve())}:{last.lineno}" if last else ""


def _modules_below(folder: Path, names: Iterable[str]) -> list[str]:
    below = f"{folder.resolve()}{os.sep}"
    files = {name: _file(sys.modules[name]) for name in list(names)}
    return [n for n, f in files.items() if f.startswith(below) and "site-packages" not in f]


def _file(module: ModuleType) -> str:
    """Return a module's file; of a namespace package, its folder."""
    file = getattr(module, "__file__", None)
    return str(file or next(iter(getattr(module, "__path__", ())), ""))
