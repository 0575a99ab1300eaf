"""The shop's CDK app with the contenders as more consumers: one package under several names.

It also has the plain webhook function, which the shop's webhook ingress is measured beside.
"""

import sys
from dataclasses import replace
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_

from benchmarks.deployed.order import NAMES, PLAIN_FUNCTION, PLAIN_TABLE, POWERTOOLS
from benchmarks.dynamodb import CAPTURES, KEYS
from benchmarks.webhooks import SECRET
from once.cdk import (
    ConsumerProps,
    DeploymentConfig,
    IdempotentConsumer,
    SynthError,
    assemble,
    synthesize,
)
from once.cdk.packaging.bytecode import bytecode_excludes
from once.cdk.packaging.function_package import package
from stacks.consumers import CONSUMERS, ORDERS
from stacks.registry import REGISTRY

SOURCE = Path(__file__).resolve().parent / "deployed"
_PLAIN = "verify_then_put"


def _allow_plain_writes(tree: cdk.App) -> None:
    """Let Powertools write without a transaction, which the role of a consumer does not allow."""
    actions = [f"dynamodb:{name}Item" for name in ("Get", "Put", "Update", "Delete")]
    for part in tree.node.find_all():
        if isinstance(part, IdempotentConsumer) and part.node.id.lower() == POWERTOOLS:
            part.function.add_to_role_policy(iam.PolicyStatement(actions=actions, resources=["*"]))


def _add_plain_webhooks(stack: cdk.Stack) -> None:
    """Add the function that only verifies and puts, with a table and a URL of its own."""
    config = DeploymentConfig.from_context(stack.node)
    key = dynamodb.Attribute(name=KEYS[CAPTURES], type=dynamodb.AttributeType.STRING)
    table = dynamodb.Table(stack, "PlainWebhooks", table_name=PLAIN_TABLE, partition_key=key)
    code = package(_PLAIN, SOURCE, (), config)
    function = lambda_.Function(
        stack,
        "VerifyThenPut",
        function_name=PLAIN_FUNCTION,
        runtime=config.runtime,
        architecture=lambda_.Architecture.ARM_64,
        handler=f"functions.{_PLAIN}.handler.lambda_handler",
        code=lambda_.Code.from_asset(str(code), exclude=bytecode_excludes(config)),
        timeout=cdk.Duration.seconds(15),
        memory_size=512,
        environment={"WEBHOOKS_TABLE": table.table_name, "WEBHOOKS_SECRET": SECRET},
    )
    table.grant_write_data(function)
    function.add_function_url(auth_type=lambda_.FunctionUrlAuthType.NONE)


if __name__ == "__main__":
    app = cdk.App()
    try:
        line = ConsumerProps("", external=("order.placed",), tables=(ORDERS,), folder=SOURCE)
        lines = (*CONSUMERS, *(replace(line, name=name) for name in NAMES))
        for stack in assemble(app, replace(REGISTRY, consumers=lines)):
            _add_plain_webhooks(stack)
        _allow_plain_writes(app)
        synthesize(app)
    except SynthError as error:
        sys.exit(f"\n{error}\n")
