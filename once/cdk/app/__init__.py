"""A whole service from its registry: its stacks, checks, outputs, and the record of its names.

In: a `Registry` of consumers. Out: the stacks `<service>-state` and `<service>-service`, with
every output that the command line `once` reads. An app of one's own is one file, beside a module
with the registry's lines, a folder `functions` with a `handler.py` for each line, and a file
`deployed.json` that begins as `{}`:

    from pathlib import Path

    import consumers

    from once.cdk import Registry, run_app

    HERE = Path(__file__).resolve().parent
    REGISTRY = Registry(
        consumers.CONSUMERS,
        file=Path(consumers.__file__),
        functions=HERE / "functions",
        deployed=HERE / "deployed.json",
    )

    if __name__ == "__main__":
        run_app(REGISTRY)
"""
