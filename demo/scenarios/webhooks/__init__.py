"""Scenario `webhooks`: 1,000 webhooks of four providers, sent again over days, forged, killed."""
