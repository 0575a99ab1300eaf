"""Tests without sockets, on AWS in memory."""

from tests.in_memory import *  # noqa: F403
