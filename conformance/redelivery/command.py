"""The command `redelivery`."""


def main() -> None:
    """Run the command line."""
    raise NotImplementedError
