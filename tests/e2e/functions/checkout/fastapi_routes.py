"""Routes of FastAPI, behind Mangum. The client's name stands for that of a verified token."""

from typing import Annotated, Any

from fastapi import FastAPI, Header, Request, Response
from mangum import Mangum

from once.errors import KeyConflict

from .commands import api

app = FastAPI()


@app.post("/orders")
def place(
    order: dict[str, Any],
    idempotency_key: Annotated[str, Header()],
    x_client: Annotated[str, Header()],
) -> Response:
    reply = api.run("place-order", order, key=idempotency_key, scope=x_client)
    headers = {**reply.headers, "x-repeated": str(reply.repeated)}
    return Response(reply.body, reply.status, headers)


@app.exception_handler(KeyConflict)
def conflict(_: Request, __: Exception) -> Response:
    return Response(status_code=422)


lambda_handler = Mangum(app, lifespan="off")
