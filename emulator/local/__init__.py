"""The commands `once local …`: an embedded AWS in the background, for one's own consumers.

In: the folder of a CDK app. Out: an embedded AWS below it, deployments and logs. Registered with
the command line `once` by this distribution's entry point.
"""

from pathlib import Path

HOME = Path(".cache", "local")
"""Folder of the state, below the working directory, which is the app's."""
STATE = "state.json"
