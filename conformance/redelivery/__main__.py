"""The command `redelivery`, as `python -m redelivery`."""

from redelivery.command import main

if __name__ == "__main__":
    main()
