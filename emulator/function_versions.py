"""Versions of deployed functions, changed as a deployment does it: publish, then move the alias."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import psutil

from emulator.embedded_aws import EmbeddedAws


@contextmanager
def reconfigured(
    aws: EmbeddedAws, alias: str, changes: Mapping[str, Mapping[str, Any]]
) -> Iterator[None]:
    """Let an alias of functions point to versions with another configuration.

    The functions' processes are replaced at the beginning and at the end. After an error they stay
    as they are: the embedded AWS is about to end.

    Args:
        aws: where the functions are deployed.
        alias: the name of the alias.
        changes: arguments of `update_function_configuration`, by the functions' names.
    """
    client = aws.client("lambda")
    before, settings, changed = {}, {}, {}
    for name, arguments in changes.items():
        before[name] = client.get_alias(FunctionName=name, Name=alias)["FunctionVersion"]
        found = client.get_function_configuration(FunctionName=f"{name}:{before[name]}")
        settings[name] = {argument: found[argument] for argument in arguments}
        client.update_function_configuration(FunctionName=name, **arguments)
        client.get_waiter("function_updated_v2").wait(FunctionName=name, WaiterConfig={"Delay": 1})
        changed[name] = client.publish_version(FunctionName=name)["Version"]
    _move(aws, alias, changed)
    yield
    _move(aws, alias, before)
    for name, arguments in settings.items():
        client.update_function_configuration(FunctionName=name, **arguments)


def _move(aws: EmbeddedAws, alias: str, versions: Mapping[str, str]) -> None:
    processes = [process for name in versions for process in aws.function_processes(name)]
    client = aws.client("lambda")
    for name, version in versions.items():
        client.update_alias(FunctionName=name, Name=alias, FunctionVersion=version)
    for process in processes:  # an idle process of another version would stay
        with suppress(psutil.NoSuchProcess):
            process.kill()
