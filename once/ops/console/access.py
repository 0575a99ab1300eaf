"""Access: which requests the console answers, and the headers of every response.

The console acts with the operator's AWS credentials, and any page of the web can make a browser
send requests to 127.0.0.1. So each path begins with a secret token, which no page knows; the Host
header must be the console's own, since a name of an attacker may resolve to 127.0.0.1 (DNS
rebinding); and requests that another site caused are refused, whatever they carry.
"""

from dataclasses import dataclass
from hmac import compare_digest
from http import HTTPStatus

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SECURITY_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    # The address has the token, and is told to no other site. With `no-referrer`, browsers send
    # the console's own forms with `Origin: null`.
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}
_SAFE_METHODS = frozenset({"GET", "HEAD"})
_OWN_SITE = frozenset({"same-origin", "none"})
"""Values of Sec-Fetch-Site: `none` is an address that the operator opened."""


@dataclass(frozen=True, slots=True)
class Address:
    """The console's own address.

    Attributes:
        port: its port on 127.0.0.1.
        token: the first segment of each path.
    """

    port: int
    token: str

    @property
    def url(self) -> str:
        """The URL of the first page; who knows it can use the console."""
        return f"http://127.0.0.1:{self.port}/{self.token}/"

    @property
    def hosts(self) -> frozenset[str]:
        """Host headers that are the console's own."""
        return frozenset({f"127.0.0.1:{self.port}", f"localhost:{self.port}"})

    @property
    def origins(self) -> frozenset[str]:
        """Origin headers of its own pages."""
        return frozenset(f"http://{host}" for host in self.hosts)


class Access:
    """ASGI middleware that refuses what is not the operator's own request.

    Args:
        app: the application; its root path is the token's.
        address: the console's address.
        read_only: whether every request that could change something is refused.
    """

    def __init__(self, app: ASGIApp, address: Address, *, read_only: bool) -> None:
        self._app = app
        self._address = address
        self._read_only = read_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; start-up and end of the application pass."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(SECURITY_HEADERS)
            await send(message)

        if refused := self._refusal(scope):
            status, text = refused
            response = PlainTextResponse(text, status_code=status)
            await response(scope, receive, send_with_headers)
        else:
            await self._app(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = Headers(scope=scope)
        if headers.getlist("host") not in [[host] for host in self._address.hosts]:
            return HTTPStatus.MISDIRECTED_REQUEST, "unknown host: open the URL that was printed\n"
        if not self._has_token(scope["path"]):
            return HTTPStatus.FORBIDDEN, "open the URL that `once console` has printed\n"
        if self._is_of_another_site(headers, scope["method"]):
            return HTTPStatus.FORBIDDEN, "refused: another site caused this request\n"
        if self._read_only and scope["method"] not in _SAFE_METHODS:
            return HTTPStatus.FORBIDDEN, "refused: this console is read-only\n"
        return None

    def _has_token(self, path: str) -> bool:
        given = path.split("/", 2)[1] if path.startswith("/") else ""
        return compare_digest(given.encode(), self._address.token.encode())

    def _is_of_another_site(self, headers: Headers, method: str) -> bool:
        site = headers.get("sec-fetch-site")
        if site is not None and site not in _OWN_SITE:
            return True
        origin = headers.get("origin")
        if origin is None:  # browsers send it with each POST
            return method not in _SAFE_METHODS
        return origin not in self._address.origins
