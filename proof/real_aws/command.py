"""Commands of `make verify`: a run with its clean-up, and a clean-up alone."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import boto3
import typer
from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console

from emulator.child_processes import ProcessFailed
from emulator.local.steps import step
from once.ops.aws.clients import client
from once.ops.aws.deployment import Deployment
from once.ops.errors import OpsError
from proof.real_aws.account import Account, ClientOf, check_concurrency, checked_account
from proof.real_aws.checks import CHECKS
from proof.real_aws.checks.check import (
    POLL_SECONDS,
    Check,
    Checked,
    Result,
    left_out,
    run_check,
)
from proof.real_aws.cleanup import Cleanup, refuse_unknown_retained
from proof.real_aws.deployment import Cdk
from proof.real_aws.estimate import HOURS, MESSAGES_SENT, estimate, total
from proof.real_aws.prefix import new_prefix
from proof.real_aws.report import Report, print_checks
from proof.real_aws.target import Target

FAILED, STOPPED = 1, 130


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
    context: Mapping[str, str] | None = None
    client: ClientOf = client


DEFAULT = Options()
console = Console()
_PLAIN: Any = {"markup": False, "highlight": False, "soft_wrap": True}


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
        _account(number, options)
        return 0 if clean_up(prefix, number or "", options) else FAILED

    return _with_errors(run)


def _with_errors(run: Callable[[], int]) -> int:
    try:
        return run()
    except KeyboardInterrupt:
        return STOPPED
    except (OpsError, BotoCoreError, ClientError, ProcessFailed, FileNotFoundError) as error:
        console.print(f"error: {error}", **_PLAIN)
        return FAILED


def _verify(number: str | None, yes: bool, options: Options) -> int:
    account, prefix = _account(number, options), new_prefix()
    with TemporaryDirectory(prefix=f"{prefix}-") as folder:
        cdk = Cdk(prefix, Path(folder), options.context or {})
        with step("cdk synth", console=console) as shown:
            templates = cdk.synthesize(shown.show)
        refuse_unknown_retained(templates)
        check_concurrency(templates, options.client)
        usd = _confirmed(account, prefix, templates, yes=yes)
        report = Report(account, prefix, datetime.now(UTC), usd)
        is_clean = False
        try:
            _deploy_and_check(cdk, report, options)
        finally:
            is_clean = clean_up(prefix, account.number, options)
            print_checks(console, report.checks)
            console.print(f"{report.write()}", style="dim", highlight=False)
    return 0 if report.passed and is_clean else FAILED


def _account(number: str | None, options: Options) -> Account:
    region = boto3.Session().region_name
    return checked_account(number, os.environ, region, options.client)


def _confirmed(account: Account, prefix: str, templates: Sequence[Any], *, yes: bool) -> float:
    """Print the estimate, and ask; return the estimate in USD.

    Raises:
        OpsError: the person does not confirm.
    """
    lines = estimate(templates)
    usd = total(lines)
    for line in lines:
        console.print(f"  {line.cost:8.4f} USD  {line.name}", style="dim", highlight=False)
    console.print(
        f"account {account.number}, {account.region}: stacks and names begin with {prefix}; about "
        f"{MESSAGES_SENT} messages and {HOURS} hours at list prices of us-east-1: {usd:.2f} USD",
        highlight=False,
        soft_wrap=True,
    )
    if not yes and not typer.confirm("Deploy, check, and delete it again?"):
        raise OpsError("not confirmed: nothing was deployed")
    return usd


def _deploy_and_check(cdk: Cdk, report: Report, options: Options) -> None:
    started = time.monotonic()
    with step("cdk deploy", console=console) as shown:
        outputs = cdk.deploy(shown.show)
    changes: dict[str, str] = {}

    def redeploy(**change: str) -> None:
        changes.update(change)
        cdk.deploy(lambda _: None, **changes)

    target = Target(
        parts=Deployment.of(cdk.prefix, outputs),
        client=options.client,
        account=report.account.number,
        redeploy=redeploy,
        local=cdk.context.get("local") == "true",
    )
    decisive: Checked | None = None
    for check in options.checks:
        if decisive is not None:
            report.checks.append(left_out(check, decisive))
            continue
        with step(check.name, console=console) as shown:
            pace = {"patience": options.patience, "poll_seconds": options.poll_seconds}
            report.checks.append(run_check(check, target, shown.show, **pace))
        report.seconds = round(time.monotonic() - started, 1)
        console.print(f"{check.name}: {report.checks[-1].result}", highlight=False)
        if check.is_decisive and report.checks[-1].result is Result.FAILED:
            decisive = report.checks[-1]


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
    for each in left:
        reason = cleanup.reason(each)
        console.print(f"left: {each.kind} {each.id} {reason}".rstrip(), **_PLAIN)
        console.print(f"  {each.command}", **_PLAIN)
    console.print(later if left else f"nothing of {prefix} is left", **_PLAIN)
    return not left
