"""The example shop under faults: sample traffic, payment sandbox, audit and scenarios."""
