from tests.in_memory import *  # noqa: F403
