"""The CDK's command line, run against an embedded AWS."""

import json
import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile, mkdtemp
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from emulator.child_processes import run
from emulator.connection import Connection
from emulator.installed import ROOT, cache, cdk_command

TIMEOUT_SECONDS = 600.0
_KEEP_ZIP_SECONDS = 24 * 60 * 60.0

Outputs = dict[str, dict[str, str]]
"""Stack name → output name → value."""

Report = Callable[[str], object]
"""Takes a text: a few words about what goes on, every second, or a warning."""

_EVENT = re.compile(r"^(?P<stack>[\w-]+) \| +(?P<done>\d+/\d+) \| .*$", re.MULTILINE)
_WARNING = re.compile(r"^(?:WARNING |\[Warning at ).*$", re.MULTILINE)
"""In the form of the CDK's command line of today, and of older ones."""
_ASSET = re.compile(r"^[\w-]+: (?:start|success): \w+ .*$", re.MULTILINE)


def bootstrap(aws: Connection) -> None:
    """Prepare the account and Region for deployments, unless that was done.

    Raises:
        FileNotFoundError: The CDK's command line is not installed.
        ProcessFailed: It failed; the message has its last lines.
    """
    if is_bootstrapped(aws):
        return
    # In a folder without an app the CDK does not synthesize first.
    folder = _folder(aws, "bootstrap")
    _cdk(aws, folder, folder, "bootstrap", f"aws://{aws.account}/{aws.region}")
    _bootstrapped(aws).touch()


def is_bootstrapped(aws: Connection) -> bool:
    """Return whether the account and Region were prepared for deployments."""
    return _bootstrapped(aws).exists()


def _bootstrapped(aws: Connection) -> Path:
    return aws.state_dir / f"bootstrapped-{aws.region}"


def deploy(
    aws: Connection,
    *,
    app: str | Path | None = None,
    cwd: Path = ROOT,
    context: Mapping[str, str] | None = None,
    outputs: Path,
    report: Report | None = None,
    warn: Report | None = None,
) -> Outputs:
    """Deploy every stack of an app, with the context `local=true`.

    Args:
        aws: The target; it must be bootstrapped.
        app: Command that synthesizes, or the folder of an assembly that was synthesized. The
            default is the project's own command.
        cwd: Folder in which that command runs.
        context: Further context values for the command.
        outputs: File to write the stacks' outputs to, as JSON.
        report: Told of the progress.
        warn: Told of each warning of the synthesis.

    Returns:
        The outputs.

    Raises:
        FileNotFoundError: The CDK's command line is not installed.
        ProcessFailed: It failed; the message has its last lines.
    """
    folder = _folder(aws, "deploy")
    outputs.parent.mkdir(parents=True, exist_ok=True)
    assembly = app if isinstance(app, Path) else folder / "cdk.out"
    if assembly is not app:
        values = {"local": "true", **(context or {})}
        given = [word for name, value in values.items() for word in ("-c", f"{name}={value}")]
        given += ["--app", str(app)] if app else []
        # It leaves the packages where they lie, without a copy of their ten thousand files.
        given += ["--quiet", "--no-staging", "--output", str(assembly)]
        _cdk(aws, folder, cwd, "synth", *given, report=report)
    zip_packages(assembly)
    arguments = ["--all", "--require-approval", "never", "--outputs-file", str(outputs.resolve())]
    # Without change sets: the embedded AWS makes one of any template, and the CDK waits for it.
    arguments += ["--progress", "events", "--method", "direct", "--app", str(assembly)]
    _cdk(aws, folder, cwd, "deploy", *arguments, report=report)
    for warning in warnings_of((folder / "cdk.log").read_text(errors="replace")):
        if warn:
            warn(warning)
    mark_fifo_topics(aws)
    stacks: Outputs = json.loads(outputs.read_text())
    return stacks


def mark_fifo_topics(aws: Connection) -> None:
    """Give each topic whose name ends with `.fifo` the attribute that CloudFormation left out.

    Without `FifoTopic`, a topic of the embedded AWS drops the message groups and deduplicates
    nothing. Topics that are made by an API call have it.
    """
    sns = aws.client("sns")
    for page in sns.get_paginator("list_topics").paginate():
        for topic in page["Topics"]:
            if topic["TopicArn"].endswith(".fifo"):
                sns.set_topic_attributes(
                    TopicArn=topic["TopicArn"], AttributeName="FifoTopic", AttributeValue="true"
                )


def progress_of(log: str) -> str:
    """Return what a deployment does, from the output of `cdk deploy --progress events`."""
    if events := _EVENT.findall(log):
        stack, done = events[-1]
        return f"{stack} {done} resources"
    return "publishing assets" if _ASSET.search(log) else "synthesizing"


def warnings_of(log: str) -> list[str]:
    """Return the warnings of the synthesis, each once, from the output of the CDK."""
    return [*dict.fromkeys(_WARNING.findall(log))]


def _cdk(
    aws: Connection,
    folder: Path,
    cwd: Path,
    verb: str,
    *arguments: str,
    report: Report | None = None,
) -> None:
    log = folder / "cdk.log"
    run(
        f"cdk {verb}",
        [*cdk_command(), verb, "--no-notices", "--no-color", *arguments],
        env=_environment(aws),
        log=log,
        cwd=cwd,
        timeout=TIMEOUT_SECONDS,
        watch=report and (lambda: report(progress_of(log.read_text(errors="replace")))),
    )


def zip_packages(assembly: Path) -> None:
    """Put the zip files of an assembly's packages where the CDK looks for them by their hash.

    The CDK takes three times as long to make them, and would make each anew in every assembly.
    """
    shared = cache() / "assets"
    shared.mkdir(parents=True, exist_ok=True)
    for file in shared.iterdir():
        if file.stat().st_mtime < time.time() - _KEEP_ZIP_SECONDS:
            file.unlink(missing_ok=True)
    (assembly / ".cache").symlink_to(shared)
    for manifest in assembly.glob("*.assets.json"):
        for asset, described in json.loads(manifest.read_text())["files"].items():
            source = described["source"]
            if source["packaging"] == "zip" and not (shared / f"{asset}.zip").exists():
                _zip(assembly / source["path"], shared / f"{asset}.zip")


def _zip(folder: Path, file: Path) -> None:
    # A file of its own first: another deployment may zip the package as well.
    with NamedTemporaryFile(dir=file.parent, delete=False) as part, ZipFile(part, "w") as package:
        for path in sorted(each for each in folder.rglob("*") if each.is_file()):
            # A ZipInfo has a fixed date: packages of equal files are equal at any time.
            name = ZipInfo(path.relative_to(folder).as_posix())
            package.writestr(name, path.read_bytes(), ZIP_DEFLATED, compresslevel=1)
    Path(part.name).rename(file)


def _folder(aws: Connection, verb: str) -> Path:
    """A folder of its own for each run, so that runs side by side do not share an assembly."""
    return Path(mkdtemp(prefix=f"cdk-{verb}-", dir=aws.state_dir))


def _environment(aws: Connection) -> dict[str, str]:
    # The rest of the user's environment stays: proxies and package indexes are needed to bundle.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    # The app's own Python first: the one that runs this, with what the app imports.
    bins = [str(Path(sys.executable).parent), str(ROOT / "node_modules" / ".bin")]
    defaults = {
        # pip and uv find the user's settings by these, independent of HOME.
        "XDG_CONFIG_HOME": str(Path.home() / ".config"),
        "XDG_CACHE_HOME": str(Path.home() / ".cache"),
        # Unpacked libraries and compiled code, kept between runs.
        "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(cache() / "jsii"),
        "NODE_COMPILE_CACHE": str(cache() / "node"),
        # The CDK's own validation of templates takes ten seconds; for AWS it stays.
        "CDK_VALIDATION": "false",
    }
    settings = {
        "PATH": os.pathsep.join([*bins, os.environ.get("PATH", os.defpath)]),
        # The CDK's command line does not read HOME, its library does.
        "CDK_HOME": str(aws.state_dir / "home" / ".cdk"),
        "HOME": str(aws.state_dir / "home"),
        "TMPDIR": str(aws.state_dir / "tmp"),
        "CDK_DISABLE_CLI_TELEMETRY": "true",
        "CDK_DISABLE_VERSION_CHECK": "true",
        "JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION": "1",
    }
    return defaults | kept | aws.environment() | settings
