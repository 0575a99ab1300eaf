"""The demo's command line: `python -m demo run` and `python -m demo send`."""

from demo import command
from demo.traffic import command as traffic
from once.ops.terminal import command_group

app = command_group(help="Try the example shop: sample traffic, faults and an audit.")
app.add_typer(traffic.app)
app.add_typer(command.app)


if __name__ == "__main__":
    app(prog_name="python -m demo")
