"""The AWS and HTTP services that the service calls, in memory, one thread and virtual time."""
