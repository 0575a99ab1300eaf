"""The commands `new consumer`, `new command` and `new service`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from once.ops.new.command_files import command_files
from once.ops.new.consumer_files import ProjectFiles, consumer_files
from once.ops.new.project import Project, load_project, written
from once.ops.new.service_files import Tool, service_files
from once.ops.terminal import JsonOption, command_group, console, print_json

app = command_group()


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
    model: Annotated[
        str,
        Option(help="The kind of its models: struct (msgspec), dataclass or pydantic."),
    ] = "struct",
    as_json: JsonOption = False,
) -> None:
    """Write a consumer into the project of this folder: handler, tests, sample event, line.

    The section [tool.once] of its pyproject.toml says where the files belong. No file is
    replaced; after an error, everything is as it was.
    """
    project = load_project(Path.cwd())
    registry = project.registry_file.read_text()
    _write(project, consumer_files(project, name, takes or [], registry, model), as_json=as_json)


@app.command()
def command(
    name: Annotated[str, Argument(help="The name of the function, such as bookings.")],
    as_json: JsonOption = False,
) -> None:
    """Write a function with a command into the project of this folder: handler, tests, line.

    Its command stores an item once for each key of a client, and answers requests of its
    HTTP API that are signed for IAM. Files belong where those of a consumer do. No file is
    replaced; after an error, everything is as it was.
    """
    project = load_project(Path.cwd())
    _write(
        project, command_files(project, name, project.registry_file.read_text()), as_json=as_json
    )


@app.command()
def service(
    name: Annotated[str, Argument(help="The service's name, with which its stacks' names begin.")],
    consumer: Annotated[str, Option(help="The name of its first consumer.")] = "tickets",
    wheels: Annotated[
        Path | None,
        Option(
            metavar="FOLDER",
            help="The folder with the library's wheel, which `make wheels` makes; by default the "
            "wheel that the library was installed from.",
        ),
    ] = None,
    tool: Annotated[
        Tool,
        Option(
            metavar="TOOL",
            help="What deploys it: cdk, sam, serverless, terraform or cloudformation.",
        ),
    ] = Tool.CDK,
    as_json: JsonOption = False,
) -> None:
    """Write a service of your own into this empty folder: a CDK app, a consumer, tests, CI.

    With another --tool than the CDK, a file of this tool has the function in place of the app.

    If the library was installed from a wheel and not from a package index, the wheel is
    copied into the folder `vendor`: `make install` and the service's CI install that one.
    """
    files, steps = service_files(Path.cwd(), name, consumer, wheels, tool)
    with written(files):
        pass
    _tell(list(files), steps, (), as_json=as_json)


def _write(project: Project, made: ProjectFiles, *, as_json: bool) -> None:
    with written(made.files, {project.registry_file: made.registry}):
        said = project.run_after()
    _tell([*made.files, project.registry_file], [*project.next, *made.next], said, as_json=as_json)


def _tell(
    paths: Sequence[Path], steps: Sequence[str], said: Sequence[str], *, as_json: bool
) -> None:
    """Print what was written, the output of the project's own commands, and what comes next."""
    names = [path.relative_to(Path.cwd()).as_posix() for path in paths]
    if as_json:
        print_json({"written": names, "next": list(steps)})
        return
    lines = [*(f"wrote {each}" for each in names), *said, "\nnext:", *(f"  {s}" for s in steps)]
    for line in lines:
        console.print(line, soft_wrap=True)
