"""The example shop in a world in memory: its functions, its relay and its operator."""
