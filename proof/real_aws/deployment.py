"""Deployment of the check's app by the CDK's command line, with the caller's own credentials."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulator.cdk_cli import progress_of
from emulator.child_processes import run
from proof.report import ROOT

_APP = f"{sys.executable} -m proof.real_aws.app"
_SECONDS = 3600.0

Show = Callable[[str], object]


@dataclass(frozen=True)
class Cdk:
    """Synthesis and deployment under one prefix.

    Attributes:
        prefix: the name of the service.
        folder: where templates, outputs and logs are written.
        context: further values of the CDK context.
    """

    prefix: str
    folder: Path
    context: Mapping[str, str]

    def synthesize(self, show: Show) -> list[Any]:
        """Return the templates of both stacks.

        Raises:
            ProcessFailed: it failed; the message has the last lines of its output.
        """
        self._cdk("synth", "--quiet", *self._app({}), "--output", str(self._assembly), show=show)
        files = sorted(self._assembly.glob("*.template.json"))
        return [json.loads(file.read_text()) for file in files]

    def deploy(self, show: Show, **change: str) -> dict[str, str]:
        """Deploy both stacks, with a further change of the context; return their outputs.

        Raises:
            ProcessFailed: it failed; the message has the last lines of its output.
        """
        outputs = self.folder / "outputs.json"
        app = self._app(change) if change else ["--app", str(self._assembly)]
        self._cdk(
            *("deploy", "--all", "--require-approval", "never", "--progress", "events"),
            *("--outputs-file", str(outputs), *app),
            *(["--output", str(self.folder / "changed")] if change else []),
            show=show,
        )
        stacks: dict[str, dict[str, str]] = json.loads(outputs.read_text())
        return {name: value for stack in stacks.values() for name, value in stack.items()}

    @property
    def _assembly(self) -> Path:
        return self.folder / "cdk.out"

    def _app(self, change: Mapping[str, str]) -> list[str]:
        fixed = {"create_email_identity": "false", "webhook_concurrency": "0"}
        values = {"service": self.prefix, **fixed, **self.context, **change}
        context = [word for name, value in values.items() for word in ("-c", f"{name}={value}")]
        return ["--app", _APP, *context]

    def _cdk(self, *arguments: str, show: Show) -> None:
        log = self.folder / f"cdk-{arguments[0]}.log"
        program = shutil.which("cdk", path=_path()) or "cdk"
        run(
            f"cdk {arguments[0]}",
            [program, "--no-notices", "--no-color", *arguments],
            env={**os.environ, "PATH": _path(), "CDK_DISABLE_VERSION_CHECK": "true"},
            log=log,
            cwd=ROOT,
            timeout=_SECONDS,
            watch=lambda: show(progress_of(log.read_text(errors="replace"))),
        )


def _path() -> str:
    bins = [str(ROOT / "node_modules" / ".bin"), str(Path(sys.executable).parent)]
    return os.pathsep.join([*bins, os.environ.get("PATH", os.defpath)])
