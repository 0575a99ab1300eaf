"""The project's own service in a world in memory: its handlers, its relay, its operator."""
