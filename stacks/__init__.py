"""The stacks of the example shop: one of state, and one of the consumers in its registry."""
