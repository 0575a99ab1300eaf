"""Checks of the properties of commands. Each fault states its remedy."""

from collections.abc import Iterator

from once.cdk.checks import faults_where
from once.cdk.checks.aws_clients_in_code import aws_service_faults
from once.cdk.checks.consumer_props import (
    event_type_faults,
    name_faults,
    snap_start_faults,
    table_faults,
)
from once.cdk.checks.handlers_in_code import command_handler_faults
from once.cdk.checks.property_types import property_type_faults, range_faults
from once.cdk.checks.webhook_props import http_timeout_faults
from once.cdk.deployment_options import DeploymentConfig
from once.cdk.props import Auth, CommandProps
from once.commands.routes import route_faults


def command_props_faults(props: CommandProps, config: DeploymentConfig) -> Iterator[str]:
    """Yield every fault of commands, without their name."""
    if types := list(property_type_faults(props)):
        yield from types
        return
    yield from name_faults(props.name)
    yield from event_type_faults("publishes", props.publishes)  # and those of publishes_later
    yield from table_faults(props.tables)
    for route in props.routes:
        yield from route_faults(route)
    yield from _auth_faults(props.auth, config)
    yield from faults_where(
        {
            "it has no command; give routes= such as {'POST /orders': 'place-order'}, or commands= "
            "without an API": not props.settings["commands"],
            "routes= without auth=, so that anybody could send commands; give Auth.jwt(…) or "
            "Auth.iam(), or say Auth.public()": props.routes and props.auth is None,
            "auth= without routes=, which it would be for; give routes=, or leave auth= "
            "out": props.auth and not props.routes,
        }
    )
    yield from command_handler_faults(props)
    yield from aws_service_faults(props)
    yield from range_faults(props)
    if props.routes:
        yield from http_timeout_faults(props.timeout_seconds, "routes=")
    yield from snap_start_faults(props.snap_start, config)


def _auth_faults(auth: Auth | None, config: DeploymentConfig) -> Iterator[str]:
    if auth is None:
        return
    secure = "http" if config.local else "https://"
    yield from faults_where(
        {
            f"auth= is of the kind {auth.kind!r}; give Auth.jwt(…), Auth.iam() or "
            "Auth.public()": not auth.scopes,
            f"the issuer {auth.issuer!r} of auth= is no address; give that of the claim `iss`, "
            "which begins with https://": auth.kind == "jwt" and not auth.issuer.startswith(secure),
            "Auth.jwt() has no audience, so that it would take the tokens of every client of the "
            "issuer; give the client ids": auth.kind == "jwt" and not all(auth.audience or [""]),
        }
    )
