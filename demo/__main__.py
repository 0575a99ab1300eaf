"""The demo's command line: `python -m demo run` and `python -m demo send`."""

from typing import Annotated

import typer

from demo.scenarios.faults import Scenario
from demo.scenarios.faults import demo as run_demo
from demo.traffic import command as traffic
from once.ops.terminal.console import commands

app = commands(help="Try the example shop: sample traffic, faults and an audit.")
app.add_typer(traffic.app)


@app.command()
def run(
    scenario: Annotated[Scenario, typer.Option(envvar="SCENARIO")] = Scenario.FAULTS,
    keep: Annotated[bool, typer.Option(envvar="KEEP")] = False,
) -> None:
    """Deploy, send orders while things go wrong, and audit; --keep leaves it running."""
    raise typer.Exit(run_demo(scenario, keep=keep))


if __name__ == "__main__":
    app(prog_name="python -m demo")
