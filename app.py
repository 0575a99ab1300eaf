"""The CDK's entry: one stack for the data, one for the consumers. It makes no AWS calls."""

import sys

import aws_cdk as cdk

from once.cdk import SynthError
from stacks.assembly import assemble, synthesize
from stacks.consumers import CONSUMERS

app = cdk.App()
try:
    assemble(app, CONSUMERS)
    synthesize(app)
except SynthError as error:
    sys.exit(f"\n{error}\n")
