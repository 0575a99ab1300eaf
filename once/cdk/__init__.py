"""AWS CDK constructs: queues, functions, roles, relay and alarms of idempotent consumers.

In: `ConsumerProps` and `DeploymentConfig`. Out: CloudFormation resources. Used by CDK apps:
`run_app` makes a whole service from a `Registry`, and each construct can be used alone. The names
in `_public_declarations` and `_public_constructs` are the whole public interface. Of each
construct, `scope` is the stack, and of each stack the app; `config` is the deployment, by default
that of the CDK context. `SynthError` says why something cannot be built.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from once.cdk import _public_declarations
from once.cdk._public_declarations import *  # noqa: F403
from once.errors import extra

if TYPE_CHECKING:
    from once.cdk._public_constructs import *  # noqa: F403


def __getattr__(name: str) -> object:
    # On first use: tests read a registry of consumers too, and the CDK takes seconds to load.
    with extra("cdk"):
        constructs = vars(import_module("once.cdk._public_constructs"))
    if name == "__all__":
        return sorted(n for n in constructs | vars(_public_declarations) if n[0].isalpha())
    if name not in constructs:
        raise AttributeError(f"module 'once.cdk' has no attribute {name!r}")
    return constructs[name]
