"""Quick deployment: only functions' code, if nothing else changed since `cdk deploy`."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent

from emulator.connection import Connection
from emulator.local.code_update import DeployedCode, deployed_code, load_functions, update_code
from emulator.local.source_changes import CodeChanges, Sources, code_changes
from once.ops.errors import OpsError
from once.ops.new.project import Project, load_project


@dataclass(frozen=True, slots=True)
class QuickDeployment:
    """Deployment of code alone, into the embedded AWS of an app in the folder `root`.

    Attributes:
        context: the values of the CDK context.
        project: the app's [tool.once], which tells handlers from the rest; None without one.
        sources: its sources when the command began.
    """

    aws: Connection
    root: Path
    context: Mapping[str, str]
    project: Project | None
    sources: Sources

    @classmethod
    def of(cls, aws: Connection, root: Path, context: Mapping[str, str]) -> "QuickDeployment":
        """Return the quick deployment of an app's folder, with its present sources."""
        try:
            project = load_project(root)
        except OpsError:
            return cls(aws, root, context, None, Sources({}))
        ignored = {each.relative_to(root).parts[0] for each in (project.tests, project.events)}
        return cls(aws, root, context, project, Sources.of(root, frozenset(ignored)))

    def deploy(self) -> list[str] | str:
        """Deploy the code that has changed.

        Returns:
            The names of the updated functions; or as a text the reason for a whole deployment.
        """
        before = Sources.read(self._file("deployed-sources"))
        if self.project is None:
            return "no [tool.once] in a pyproject.toml here tells handlers from the rest"
        if before is None:
            return "nothing is deployed yet"
        if json.loads(self._file("deployed-context").read_text()) != dict(self.context):
            return "the context has changed"
        if gone := self._stacks() - self._existing_stacks():
            return f"the stack {min(gone)} is not deployed"
        folders = {
            name: folder.relative_to(self.root).as_posix()
            for name, folder in self.project.folders.items()
        }
        changes = code_changes(before, self.sources, folders)
        return f"{changes.other} has changed" if changes.other else self._update(changes)

    def load(self) -> None:
        """Load every function.

        Raises:
            OpsError: functions cannot start; the message has the error of each.
        """
        if errors := load_functions(self.aws, self._deployed()):
            told = indent("\n".join(f"{name}: {error}" for name, error in errors.items()), "  ")
            raise OpsError(
                f"deployed, but functions cannot start:\n{told}\n"
                "`once local logs` has the tracebacks; correct the errors, and deploy again"
            )

    def restore(self) -> None:
        """Give every function the code of the last whole deployment, as CloudFormation knows it.

        Without this, CloudFormation would not replace code that it takes for unchanged.
        """
        if self._file("updated-code").exists():
            self._update(CodeChanges())

    def remember(self) -> None:
        """Remember the sources as deployed as a whole; later ones are compared with them."""
        if self.project is not None:
            self.sources.write(self._file("deployed-sources"))
            self._file("deployed-context").write_text(json.dumps(dict(self.context)))
            self._file("updated-code").unlink(missing_ok=True)

    def _update(self, changes: CodeChanges) -> list[str]:
        kept = self._file("updated-code")
        updated: dict[str, str] = json.loads(kept.read_text()) if kept.exists() else {}
        packages: dict[DeployedCode, dict[str, Path]] = {}
        digests: dict[str, str] = {}
        for code in self._deployed():
            files = self._files(changes, code)
            digests[code.function] = _digest(files)
            if updated.get(code.function, _digest({})) != _digest(files):
                packages[code] = files
        names = update_code(self.aws, packages)
        kept.write_text(json.dumps(digests))
        return names

    def _deployed(self) -> list[DeployedCode]:
        return deployed_code(self.aws, sorted(self._stacks() & self._existing_stacks()))

    def _stacks(self) -> set[str]:
        return set(json.loads(self._file("outputs").read_text()))

    def _existing_stacks(self) -> set[str]:
        pages = self.aws.client("cloudformation").get_paginator("describe_stacks").paginate()
        stacks = (stack for page in pages for stack in page["Stacks"])
        return {each["StackName"] for each in stacks if each["StackStatus"] != "DELETE_COMPLETE"}

    def _files(self, changes: CodeChanges, code: DeployedCode) -> dict[str, Path]:
        """Return the changed files of a function's package; no consumer's name has a hyphen."""
        own = changes.consumers.get(code.function.rpartition("-")[2], {})
        return {name: self.root / path for name, path in {**changes.library, **own}.items()}

    def _file(self, name: str) -> Path:
        return self.aws.state_dir / f"{name}.json"


def _digest(files: Mapping[str, Path]) -> str:
    total = hashlib.sha256()
    for name, path in sorted(files.items()):
        total.update(name.encode() + hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()
