"""The command `console`."""

from typing import Annotated

from typer import Option

from once.ops.aws.deployment import Deployment
from once.ops.terminal import JsonOption, ServiceOption, command_group, console, print_json

app = command_group()


@app.command("console")
def console_command(
    service: ServiceOption = "once",
    port: Annotated[
        int, Option(min=0, max=65535, help="Port on 127.0.0.1; 0 takes a free one.")
    ] = 0,
    read_only: Annotated[
        bool, Option("--read-only", help="Show only: offer and accept no change.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Serve pages that show the deployment and repair its failures, until Ctrl-C.

    They are served on 127.0.0.1 only, at a URL with a secret token, and use your AWS
    credentials. Each change shows a dry run first, and leaves entries in the operator log.
    """
    # The other commands start without a web server's modules.
    from once.ops.console.server import console_server
    from once.ops.console.state import ConsoleState

    state = ConsoleState(Deployment.find(service), read_only)
    with console_server(state, port) as server:
        url = server.address.url
        if as_json:
            print_json({"service": service, "url": url, "read_only": read_only})
        else:
            console.print(f"the console of {service}: {url}", soft_wrap=True)
            console.print("Ctrl-C ends it; keep the URL to yourself", soft_wrap=True)
        server.serve_until_stopped()
