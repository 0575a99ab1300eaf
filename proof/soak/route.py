"""The way of functions to AWS, for a while by another address."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from emulator.embedded_aws import EmbeddedAws
from proof.soak.proxy import Proxy


@contextmanager
def rerouted(aws: EmbeddedAws, functions: Sequence[str], proxy: Proxy) -> Iterator[None]:
    """Let functions, and nobody else, reach an embedded AWS by a proxy alone.

    Their processes are replaced by new ones, before and after.

    Args:
        aws: where the functions run.
        functions: their names.
        proxy: what they are to call.
    """
    client = aws.client("lambda")
    before = {name: _environment(client, name) for name in functions}
    there = {"AWS_ENDPOINT_URL": proxy.url, "AWS_CA_BUNDLE": str(proxy.certificate)}
    _change(client, {name: {**variables, **there} for name, variables in before.items()})
    yield
    # Not after an error or Ctrl-C: that AWS is about to end, and replacing processes takes long.
    _change(client, before)


def _environment(client: Any, name: str) -> dict[str, str]:
    found = client.get_function_configuration(FunctionName=name)
    return dict(found["Environment"]["Variables"])


def _change(client: Any, environments: Mapping[str, Mapping[str, str]]) -> None:
    for name, variables in environments.items():
        environment = {"Variables": variables}
        client.update_function_configuration(FunctionName=name, Environment=environment)
    changed = client.get_waiter("function_updated_v2")
    for name in environments:
        changed.wait(FunctionName=name, WaiterConfig={"Delay": 1})
