"""Server of the embedded AWS: MiniStack, with functions that start as Lambda starts them.

The Python of the embedded AWS's own virtual environment runs this file as a script, with the
arguments of hypercorn. Seven things differ from MiniStack alone:

- A package is unpacked once, and what two packages have in common is unpacked once for both. By
  itself, MiniStack unpacks a package again for each process of a function. The example's largest
  package has 4,764 files. The processes that the demo kills made that 20 of the 62 CPU seconds of
  the server, which answers no other request meanwhile.
- A function runs on the Python that its package was built for, without any installed package.
- An error while a function is loaded is in the function's log, in the form of Lambda's runtime.
- A file that a function's variable `ONCE_PRELOAD` names runs before the handler is loaded.
- The state of an event source mapping that a template disables is `Disabled`. By itself, MiniStack
  does not poll for such a mapping, and calls it enabled.
- The address of an HTTP API is a path below the one URL. By itself, MiniStack gives it a name under
  an IP address, which no client can resolve.
- EventBridge Scheduler publishes to SNS by its universal target, with the rights of the schedule's
  role, within a second of the due time. By itself, MiniStack knows no universal target, looks for
  due schedules every ten seconds, and authorizes calls as if all were in the default group.
"""

import hashlib
import json
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
    # Lambda has it; the library checks the function when its entry is taken from this module.
    entry = sys._getframe(1).f_locals.get("handler_name", "")
    os.environ["_HANDLER"] = f"{name}.{entry}"
    try:
        module = _import(name, package)
        getattr(module, entry, None)
        return module
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


def tell_disabled_mappings(lambda_: Any) -> None:
    """Let MiniStack's module of Lambda return the state of a mapping by whether it polls."""
    response = lambda_._esm_response  # noqa: SLF001

    def told(mapping: dict[str, Any]) -> dict[str, Any]:
        state = "Enabled" if mapping.get("Enabled", True) else "Disabled"
        return {**response(mapping), "State": state}

    lambda_._esm_response = told  # noqa: SLF001


def address_apis(apigateway: Any) -> None:
    """Let MiniStack's module of HTTP APIs give each an address that clients reach."""

    class Apis(type(apigateway._apis)):  # type: ignore[misc] # noqa: SLF001
        """All HTTP APIs. What is stored is also what CloudFormation returns of an API."""

        def __setitem__(self, api_id: str, api: dict[str, Any]) -> None:
            address = f"{apigateway._HOST}:{apigateway._PORT}"  # noqa: SLF001
            api["apiEndpoint"] = f"https://{address}/_aws/execute-api/{api_id}"
            super().__setitem__(api_id, api)

    apigateway._apis = Apis()  # noqa: SLF001


SCHEDULED_PUBLISH = "arn:aws:scheduler:::aws-sdk:sns:publish"
_SWEEP_SECONDS = 0.25


def publish_schedules(scheduler: Any, events: Any, sns: Any, sqs: Any, iam: Any) -> None:
    """Let MiniStack's modules call the universal target for SNS when a schedule is due.

    Scheduler retries a failed call; here the first failure already goes to the dead-letter queue.

    Args:
        scheduler: the module of EventBridge Scheduler.
        events: the module of EventBridge, which calls the targets of schedules too.
        sns: the module of SNS.
        sqs: the module of SQS.
        iam: the module that evaluates policies.
    """
    invoke = events._invoke_target  # noqa: SLF001

    def publish(target: dict[str, Any]) -> None:
        given, account = json.loads(target["Input"]), scheduler.get_account_id()
        role, topic = target["RoleArn"].rpartition("/")[2], given["TopicArn"]
        asked = iam.EvalContext(
            principal_arn=f"arn:aws:sts::{account}:assumed-role/{role}/scheduler",
            principal_type="AssumedRole",
            principal_account=account,
            action="sns:Publish",
            resource_arn=topic,
            region=scheduler.get_region(),
        )
        own = iam.evaluate(asked, iam._gather_role_policies(role, account))  # noqa: SLF001
        found = sns.topic_policy_for_arn(topic)
        if found is None:
            raise LookupError(f"there is no topic {topic}")
        if iam.combine_resource_policy(own, asked, *found).decision != "Allow":
            raise PermissionError(f"{role} may not publish to {topic}")
        sns.publish_internal(
            topic,
            given["Message"],
            message_attributes=given.get("MessageAttributes"),
            message_group_id=given.get("MessageGroupId", ""),
        )

    def invoke_target(target: dict[str, Any], event: Any, *more: Any) -> None:
        if target["Arn"] != SCHEDULED_PUBLISH:
            invoke(target, event, *more)
            return
        iam.pin_request_origin("127.0.0.1", secure_transport=True)
        try:
            publish(target)
        except Exception as error:
            queue = target.get("DeadLetterConfig", {}).get("Arn", "").rpartition(":")[2]
            if not queue:
                raise  # MiniStack logs it
            told = {"ERROR_MESSAGE": str(error), "SCHEDULE_ARN": event["Resources"][0]}
            attributes = {n: {"DataType": "String", "StringValue": v} for n, v in told.items()}
            message = {"MessageBody": target["Input"], "MessageAttributes": attributes}
            sqs._act_send_message(message, sqs._queue_url(queue))  # noqa: SLF001

    events._invoke_target = invoke_target  # noqa: SLF001
    scheduler._SCHEDULE_TICK_INTERVAL = _SWEEP_SECONDS  # noqa: SLF001


def authorize_schedules(actions: Any) -> None:
    """Let MiniStack's module of IAM actions name a schedule with its group."""
    resource_of = actions.extract_resource_arn

    def extract(service: str, method: str, path: str, headers: Any, body: bytes, *more: Any) -> str:
        arn: str = resource_of(service, method, path, headers, body, *more)
        if service != "scheduler" or ":schedule/default/" not in arn:
            return arn
        query = more[0].get("groupName", ["default"])
        asked = query[0] if isinstance(query, list) else query
        group = json.loads(body or b"{}").get("GroupName", asked)
        return arn.replace(":schedule/default/", f":schedule/{group}/")

    actions.extract_resource_arn = extract


def main() -> None:
    """Run hypercorn with the arguments of this process."""
    zipfile.ZipFile = PackageFile  # type: ignore[misc]
    replace_worker(import_module("ministack.core.lambda_runtime"))
    tell_disabled_mappings(import_module("ministack.services.lambda_svc"))
    address_apis(import_module("ministack.services.apigateway"))
    publish_schedules(
        import_module("ministack.services.scheduler"),
        import_module("ministack.services.eventbridge"),
        import_module("ministack.services.sns"),
        import_module("ministack.services.sqs"),
        import_module("ministack.core.iam_evaluator"),
    )
    authorize_schedules(import_module("ministack.core.iam_actions"))
    sys.exit(import_module("hypercorn.__main__").main())


if __name__ == "__main__":
    main()
