"""The embedded AWS: start it, deploy into it, stop it without a trace."""
