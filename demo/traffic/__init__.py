"""Sample orders: planned from a seed, and sent with the faults that deliveries have."""
