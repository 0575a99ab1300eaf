"""The example shop: its registry of consumers, and its webhooks."""
