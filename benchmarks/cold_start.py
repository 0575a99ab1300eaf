"""Cold start: CPU time and modules of each function's imports, compared with boto3 alone."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.rows import ONE_COMMAND, ONE_HANDLER, Row, Sample, middle, ratio, side_by_side
from benchmarks.webhooks import settings_of
from once.cdk import ConsumerProps, DeploymentConfig, functions
from once.cdk.packaging.function_package import package
from once.names import RELAY
from once.settings import CommandSettings, RelaySettings, Settings, TableSettings
from stacks.consumers import CONSUMERS
from stacks.registry import REGISTRY
from stacks.webhooks import WEBHOOKS

BOTO3 = "boto3 and a client"

# The clock starts with the first import: Lambda has already started Python by then.
_CODE = (
    "import sys, time; sys.path.insert(0, {folder!r}); began = time.process_time(); {imports}; "
    "print((time.process_time() - began) * 1000, len(sys.modules))"
)
_BOTO3 = "import boto3; boto3.client('dynamodb')"
_NOWHERE = "https://localhost"
# Lambda sets credentials. Without them the first client asks the instance's metadata service.
_LAMBDA = {
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": "none",
    "AWS_SECRET_ACCESS_KEY": "none",
}
_RELAY = RelaySettings(service="once", topic_arn="topic", dead_letter_url=_NOWHERE, publishes={})
_IMPORTS = Path(__file__).with_name("imports")
_ONE: Any = {
    "dedup_table": "dedup",
    "tables": {"orders": TableSettings("orders", ("order_id",))},
    "dedup_window_seconds": DeploymentConfig().dedup_window_seconds,
}
"""Settings of the function with one command, and of the consumer with one handler."""


Contender = tuple[str, Path, Mapping[str, str]]
"""The imports that are measured, the package they come from, and their environment."""


def measure(repeats: int) -> list[Row]:
    """Measure the import of every function, and of boto3 with one client, in fresh processes.

    Imports come from the packages for the embedded AWS. A row has the median CPU time in
    milliseconds, the number of loaded modules, and the median ratios to the CPU time of boto3, and
    of a consumer with one handler.
    """
    contenders = dict(_contenders())
    samples = side_by_side(contenders, repeats, lambda name, _: _sample(name, *contenders[name]))
    return [
        {
            "contender": name,
            "cpu_ms": middle(own, "cpu_ms", 1),
            "modules": int(own[-1]["modules"]),
            "vs_boto3": ratio(own, samples[BOTO3], "cpu_ms", digits=2),
            "vs_handler": ratio(own, samples[ONE_HANDLER], "cpu_ms", digits=2),
        }
        for name, own in samples.items()
    ]


def _contenders() -> Iterator[tuple[str, Contender]]:
    sources = {
        **{e.name: (REGISTRY.folder_of(e), e.aws_services) for e in (*CONSUMERS, WEBHOOKS)},
        RELAY: (functions.FOLDER / RELAY, ()),
        **{name: (_IMPORTS / name, ()) for name in (ONE_COMMAND, ONE_HANDLER)},
    }
    settings = {
        **{line.name: _settings(line) for line in CONSUMERS},
        WEBHOOKS.name: settings_of(WEBHOOKS),
        RELAY: _RELAY,
        ONE_COMMAND: CommandSettings(consumer=ONE_COMMAND, commands=("place-order",), **_ONE),
        ONE_HANDLER: Settings(
            consumer=ONE_HANDLER,
            event_types=("order.placed",),
            queue_url=_NOWHERE,
            dead_letter_url=_NOWHERE,
            **_ONE,
        ),
    }
    for number, (name, source) in enumerate(sources.items()):
        folder = package(name, *source, DeploymentConfig(local=True))
        if number == 0:
            yield BOTO3, (_BOTO3, folder, {})
        yield name, (f"import functions.{name}.handler", folder, settings[name].to_env())


def _settings(line: ConsumerProps) -> Settings:
    """Return the settings of a deployed consumer, with names of resources that do not exist."""
    return Settings(
        **REGISTRY.settings_of(line.name),
        queue_url=_NOWHERE,
        dead_letter_url=_NOWHERE,
        dedup_table="dedup",
        tables={each.name: TableSettings(each.name, each.keys) for each in line.tables},
        dedup_window_seconds=DeploymentConfig().dedup_window_seconds,
    )


def _sample(name: str, imports: str, folder: Path, environment: Mapping[str, str]) -> Sample:
    """Return the CPU time in milliseconds, and the number of loaded modules."""
    code = _CODE.format(folder=str(folder), imports=imports)
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-I", "-S", "-B", "-c", code],
        env={**environment, **_LAMBDA, "AWS_LAMBDA_FUNCTION_NAME": name},
        cwd=os.sep,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{name} does not load from its package: {done.stderr}")
    return dict(zip(("cpu_ms", "modules"), map(float, done.stdout.split()), strict=True))
