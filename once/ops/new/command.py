"""The commands `new consumer` and `new service`."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from once.ops.terminal.console import command_group, console

app = command_group(help="Begin: write a consumer, or a service of your own.")


@app.command()
def consumer(
    name: Annotated[str, Argument(help="The consumer's name, such as refunds.")],
    takes: Annotated[
        list[str] | None,
        Option(
            metavar="TYPE",
            help="A type of event that it takes, of this service or a new one; may be repeated. "
            "By default the name's singular and `.requested`: refunds takes refund.requested.",
        ),
    ] = None,
) -> None:
    """Write a consumer into the project of this folder: handler, tests, sample event, line.

    The section [tool.once] of its pyproject.toml says where the files belong. No file is
    replaced; after an error, everything is as it was.
    """
    # The other commands start without the modules that only this one needs.
    from once.ops.new.consumer_files import consumer_files
    from once.ops.new.project import load_project
    from once.ops.new.writing import run_after, written

    project = load_project(Path.cwd())
    made = consumer_files(project, name, takes or [], project.registry_file.read_text())
    with written(made.files, {project.registry_file: made.registry}):
        said = run_after(project)
    for path in made.files:
        console.print(f"wrote {path.relative_to(project.root)}", soft_wrap=True)
    registry = project.registry_file.relative_to(project.root)
    console.print(f"added the line of {name} to {registry}", soft_wrap=True)
    for line in [*said, "\nnext:", *(f"  {step}" for step in [*project.next, *made.next])]:
        console.print(line, soft_wrap=True)


@app.command()
def service(
    name: Annotated[str, Argument(help="The service's name, with which its stacks' names begin.")],
    consumer: Annotated[str, Option(help="The name of its first consumer.")] = "tickets",
) -> None:
    """Write a service of your own into this empty folder: a CDK app, a consumer, tests, CI."""
    from once.ops.new.service_files import service_files
    from once.ops.new.writing import written

    files, steps = service_files(Path.cwd(), name, consumer)
    with written(files):
        pass
    for path in files:
        console.print(f"wrote {path.relative_to(Path.cwd())}", soft_wrap=True)
    for line in ["\nnext:", *(f"  {step}" for step in steps)]:
        console.print(line, soft_wrap=True)
