"""The webhook ingress: its properties, its function and URL, its table of captures.

In: `WebhookProps`. Out: CloudFormation resources. Used by CDK apps through `once.cdk`.
"""
