"""AWS CDK constructs: what a stack needs for consumers, relay, alarms and dashboard.

In: `ConsumerProps` and `Config`. Out: CloudFormation resources. Used by the stacks of an app.
"""
