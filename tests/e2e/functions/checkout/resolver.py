"""Routes of Powertools' event handler. The client's name stands for that of a verified token."""

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response

from once.errors import KeyConflict

from .commands import api

app = APIGatewayHttpResolver()


@app.post("/orders")
def place() -> Response[str]:
    request = app.current_event
    key, scope = request.headers["idempotency-key"], request.headers["x-client"]
    reply = api.run("place-order", request.json_body, key=key, scope=scope)
    headers = {**reply.headers, "x-repeated": str(reply.repeated)}
    return Response(reply.status, headers=headers, body=reply.body.decode())


@app.exception_handler(KeyConflict)  # type: ignore[untyped-decorator]
def conflict(_: KeyConflict) -> Response[str]:
    return Response(422)


lambda_handler = app.resolve
