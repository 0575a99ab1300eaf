"""The webhook ingress beside a function that only verifies a webhook and puts the item."""
