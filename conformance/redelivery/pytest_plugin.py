"""The pytest plugin: the fixture `redelivery`."""
