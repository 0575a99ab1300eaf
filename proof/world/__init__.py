"""As much of AWS as the service calls, in memory, in one thread and in virtual time."""
