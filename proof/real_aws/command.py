"""Commands of `make verify`: a run with its estimate, report and clean-up, and a clean-up alone."""

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import boto3
import typer
from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console
from rich.table import Table

from docs.tools.costs import MILLION, custom_metrics, for_a_million, mapping_metrics
from emulator.cdk_cli import progress_of, zip_packages
from emulator.child_processes import ProcessFailed, run
from emulator.local.steps import step
from once.cdk.resting_cost import CUSTOM_METRIC, Line, at_rest
from once.ops.aws.clients import client
from once.ops.aws.deployment import Deployment
from once.ops.errors import OpsError
from proof.real_aws.check import POLL_SECONDS, Check, Checked, Result, Target, run_check
from proof.real_aws.checks import CHECKS
from proof.real_aws.checks.deployments import EVENTS as ROLLOUT_EVENTS
from proof.real_aws.checks.queues import EVENTS, MESSAGES
from proof.real_aws.checks.tables import HOT_EVENTS
from proof.real_aws.cleanup import Cleanup, ClientOf, new_prefix, refuse_unknown_retained
from proof.report import ROOT, write

HOURS = 2
"""Charged for what has a price by the month: longer than a run takes."""
MONTH_HOURS = 730
MESSAGES_SENT = MESSAGES + EVENTS + HOT_EVENTS + 2 * ROLLOUT_EVENTS + 20
"""With those that the consumers publish, and some of the smaller checks."""
FAILED, STOPPED = 1, 130
_SECONDS = 3600.0
_COLOURS = {Result.PASSED: "green", Result.FAILED: "red", Result.NOT_OBSERVED: "yellow"}
_PLAIN: Any = {"markup": False, "highlight": False, "soft_wrap": True}

Show = Callable[[str], object]
console = Console()


def checked_account(
    number: str | None, environment: Mapping[str, str], region: str | None, client: ClientOf
) -> tuple[str, str]:
    """Return the account number and the region, after all checks that need no deployment.

    Args:
        number: the account that the caller named.
        environment: the process's variables; AWS_REGION and AWS_DEFAULT_REGION count first.
        region: the region of the profile, if there is one.
        client: makes clients with the caller's credentials.

    Raises:
        OpsError: account or region is missing, the credentials belong to another account, or the
            account is not prepared for the CDK.
    """
    if not number or not re.fullmatch(r"[0-9]{12}", number):
        given = f"{number!r} is no account" if number else "no account is named"
        raise OpsError(f"{given}: `make verify ACCOUNT=` and the 12 digits of your own account")
    found = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or region
    if not found:
        raise OpsError("no region is named: set AWS_REGION, such as AWS_REGION=eu-west-1")
    own = client("sts").get_caller_identity()["Account"]
    if own != number:
        raise OpsError(
            f"the credentials belong to account {own}, and not to {number}: choose the profile "
            "with AWS_PROFILE, or name the other account"
        )
    try:
        client("cloudformation").describe_stacks(StackName="CDKToolkit")
    except ClientError as error:
        if "does not exist" not in str(error):
            raise
        raise OpsError(
            f"the account has no stack CDKToolkit in {found}: run `make bootstrap` first"
        ) from None
    return number, found


def check_concurrency(templates: Sequence[Any], client: ClientOf) -> None:
    """Check that the account may run the functions of the service at once.

    Raises:
        OpsError: it may not. A throttled message counts as received, and is dead-lettered after
            five receives: checks would fail for a reason that is not theirs.
    """
    resources = [each for one in templates for each in one["Resources"].values()]
    mappings = [r for r in resources if r["Type"] == "AWS::Lambda::EventSourceMapping"]
    scaling = (each["Properties"].get("ScalingConfig", {}) for each in mappings)
    needed = sum(r["Type"] == "AWS::Lambda::Url" for r in resources)
    needed += sum(int(each.get("MaximumConcurrency", 1)) for each in scaling)
    if not needed:
        return
    limit = client("lambda").get_account_settings()["AccountLimit"]
    free = int(limit["UnreservedConcurrentExecutions"])
    if free < needed:
        raise OpsError(
            f"the account may run {free} functions at once, and the checks need {needed}: "
            "throttles would use up receives. Ask for more, which is free: aws service-quotas "
            "request-service-quota-increase --service-code lambda --quota-code L-B99A9384 "
            "--desired-value 1000"
        )


def estimate(templates: Sequence[Any]) -> float:
    """Return the cost of a run in USD: its share of the month at rest, and its messages."""
    metrics = custom_metrics(*templates) + mapping_metrics(*templates)
    month = [*at_rest(*templates), Line("custom and mapping metrics", metrics, CUSTOM_METRIC)]
    million = for_a_million(batch=1, effect_seconds=0)
    at_rest_usd = sum(line.cost for line in month) * HOURS / MONTH_HOURS
    return at_rest_usd + sum(line.cost for line in million) * MESSAGES_SENT / MILLION


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
        if self.context.get("local") == "true":
            zip_packages(self._assembly)
        files = sorted(self._assembly.glob("*.template.json"))
        return [json.loads(file.read_text()) for file in files]

    def deploy(self, show: Show, **change: str) -> dict[str, str]:
        """Deploy both stacks, with a further change of the context; return their outputs.

        Raises:
            ProcessFailed: it failed; the message has the last lines of its output.
        """
        outputs = self.folder / "outputs.json"
        changed = [*self._app(change), "--output", str(self.folder / "changed")]
        self._cdk(
            *("deploy", "--all", "--require-approval", "never", "--progress", "events"),
            *("--outputs-file", str(outputs)),
            *(changed if change else ("--app", str(self._assembly))),
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
        return ["--app", f"{sys.executable} -m proof.real_aws.app", *context]

    def _cdk(self, *arguments: str, show: Show) -> None:
        log = self.folder / f"cdk-{arguments[0]}.log"
        bins = [str(ROOT / "node_modules" / ".bin"), str(Path(sys.executable).parent)]
        path = os.pathsep.join([*bins, os.environ.get("PATH", os.defpath)])
        run(
            f"cdk {arguments[0]}",
            [shutil.which("cdk", path=path) or "cdk", "--no-notices", "--no-color", *arguments],
            env={**os.environ, "PATH": path, "CDK_DISABLE_VERSION_CHECK": "true"},
            log=log,
            cwd=ROOT,
            timeout=_SECONDS,
            watch=lambda: show(progress_of(log.read_text(errors="replace"))),
        )


@dataclass
class Report:
    """A run, as far as it has come: `reports/verify.json`."""

    account: str
    region: str
    prefix: str
    cost_estimate_usd: float
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    seconds: float = 0.0
    checks: list[Checked] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether there are checks and every one passed: what was not observed is no pass."""
        return bool(self.checks) and all(each.result is Result.PASSED for each in self.checks)

    def show(self) -> None:
        """Print the checks as a table, and write the report in place of an earlier one."""
        table = Table("check", "result", "seen", title_justify="left")
        table.add_column("seconds", justify="right")
        for each in self.checks:
            result = f"[{_COLOURS[each.result]}]{each.result}"
            table.add_row(each.name, result, each.seen.replace("[", "\\["), f"{each.seconds:.0f}")
        console.print(table)
        for each in self.checks:
            if each.result is Result.FAILED:
                console.print(f"{each.name}: {each.if_not}", **_PLAIN)
        console.print(f"{write('verify', asdict(self))}", style="dim", highlight=False)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Settings of a run that only its tests change.

    Attributes:
        checks: the checks.
        patience: multiplies every deadline of a check.
        poll_seconds: time between two looks.
        context: further values of the CDK context.
        client: makes clients.
    """

    checks: Sequence[Check] = CHECKS
    patience: float = 1.0
    poll_seconds: float = POLL_SECONDS
    context: Mapping[str, str] = field(default_factory=dict)
    client: ClientOf = client


DEFAULT = Options()


def verify(number: str | None, *, yes: bool, options: Options = DEFAULT) -> int:
    """Deploy under a new prefix, run the checks, report, and delete everything again.

    Args:
        number: the account that the caller named.
        yes: whether to start without a confirmation.
        options: settings of tests.

    Returns:
        The exit status: 0 if every check passed and nothing is left.
    """
    return _with_errors(lambda: _verify(number, yes, options))


def clean(number: str | None, prefix: str, *, options: Options = DEFAULT) -> int:
    """Delete everything of an earlier run's prefix.

    Returns:
        The exit status: 0 if nothing is left.
    """

    def run() -> int:
        account, _ = _account(number, options)
        return 0 if clean_up(prefix, account, options) else FAILED

    return _with_errors(run)


def _with_errors(run: Callable[[], int]) -> int:
    try:
        return run()
    except KeyboardInterrupt:
        return STOPPED
    except (OpsError, BotoCoreError, ClientError, ProcessFailed, FileNotFoundError) as error:
        console.print(f"error: {error}", **_PLAIN)
        return FAILED


def _account(number: str | None, options: Options) -> tuple[str, str]:
    return checked_account(number, os.environ, boto3.Session().region_name, options.client)


def _verify(number: str | None, yes: bool, options: Options) -> int:
    (account, region), prefix = _account(number, options), new_prefix()
    with TemporaryDirectory(prefix=f"{prefix}-") as folder:
        cdk = Cdk(prefix, Path(folder), options.context)
        with step("cdk synth", console=console) as shown:
            templates = cdk.synthesize(shown.show)
        refuse_unknown_retained(templates)
        check_concurrency(templates, options.client)
        usd = round(estimate(templates) + 0.005, 2)
        console.print(
            f"account {account}, {region}: stacks and names begin with {prefix}; about "
            f"{MESSAGES_SENT} messages and {HOURS} hours at list prices of us-east-1: {usd} USD",
            **_PLAIN,
        )
        if not yes and not typer.confirm("Deploy, check, and delete it again?"):
            raise OpsError("not confirmed: nothing was deployed")
        report = Report(account, region, prefix, usd)
        is_clean = False
        try:
            _deploy_and_check(cdk, report, options)
        finally:
            is_clean = clean_up(prefix, account, options)
            report.show()
    return 0 if report.passed and is_clean else FAILED


def _deploy_and_check(cdk: Cdk, report: Report, options: Options) -> None:
    started = time.monotonic()
    with step("cdk deploy", console=console) as shown:
        outputs = cdk.deploy(shown.show)
    target = Target(
        parts=Deployment.of(cdk.prefix, outputs),
        client=options.client,
        account=report.account,
        redeploy=partial(cdk.deploy, lambda _: None),
        local=cdk.context.get("local") == "true",
    )
    decisive = ""
    for check in options.checks:
        if decisive:
            text = f"not run, because {decisive} failed"
            report.checks.append(check.result(Result.NOT_OBSERVED, text))
            continue
        with step(check.name, console=console) as shown:
            pace = {"patience": options.patience, "poll_seconds": options.poll_seconds}
            found = run_check(check, target, shown.show, **pace)
        report.checks.append(found)
        report.seconds = round(time.monotonic() - started, 1)
        console.print(f"{check.name}: {found.result}", highlight=False)
        decisive = check.name if check.is_decisive and found.result is Result.FAILED else ""


def clean_up(prefix: str, number: str, options: Options = DEFAULT) -> bool:
    """Delete everything of a prefix, and print what is left; return whether nothing is."""
    cleanup = Cleanup(prefix, options.client, poll_seconds=options.poll_seconds)
    later = f"later: python -m proof verify --account {number} --clean {prefix}"
    try:
        with step(f"deleting {prefix}", console=console) as shown:
            left = cleanup.run(shown.show)
    except (KeyboardInterrupt, ClientError, BotoCoreError) as error:
        console.print(f"the clean-up ended early ({type(error).__name__}); {later}", **_PLAIN)
        left = cleanup.remaining()
    for kind, each in left:
        console.print(f"left: {kind} {each} {cleanup.faults.get(each, '')}".rstrip(), **_PLAIN)
    console.print(later if left else f"nothing of {prefix} is left", **_PLAIN)
    return not left
