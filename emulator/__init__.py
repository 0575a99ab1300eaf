"""The embedded AWS: start it, deploy into it, stop it without leaving a process or a file."""
