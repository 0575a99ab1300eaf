"""What is deployed: a stack of state, and a stack of consumers built from a registry."""
