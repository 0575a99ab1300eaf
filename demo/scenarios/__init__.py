"""The scenarios of `make demo`: faults, an outage of the provider, hostile messages."""
