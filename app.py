"""The CDK's entry: one stack for the data, one for the consumers. It makes no AWS calls."""

from once.cdk import run_app
from stacks.registry import REGISTRY

if __name__ == "__main__":
    run_app(REGISTRY)
