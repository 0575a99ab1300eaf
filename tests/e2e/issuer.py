"""An issuer of JWTs with the key pair of this process, whose public key is served on 127.0.0.1."""

import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256

from emulator.connection import HOST

AUDIENCE = "desk"
_KEY_ID = "first"


class Issuer:
    """Attributes: url: the issuer's address, which is the claim `iss` of its tokens."""

    def __init__(self, url: str) -> None:
        self.url, self._key = url, new_key()

    def token(self, subject: str, key: RSAPrivateKey | None = None, **claims: Any) -> str:
        """Return a token for a minute; other claims or another key make it another one."""
        now = int(time.time())
        own = {"iss": self.url, "aud": AUDIENCE, "sub": subject, "iat": now, "exp": now + 60}
        parts = ({"alg": "RS256", "typ": "JWT", "kid": _KEY_ID}, {**own, **claims})
        text = ".".join(_base64url(json.dumps(part).encode()) for part in parts)
        signature = (key or self._key).sign(text.encode(), PKCS1v15(), SHA256())
        return f"{text}.{_base64url(signature)}"

    def document(self, path: str) -> dict[str, Any]:
        """Return what is served at a path: the metadata of OpenID Connect, or the keys."""
        if path.startswith("/.well-known/"):
            return {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        numbers = self._key.public_key().public_numbers()
        e, n = (_base64url(v.to_bytes(256, "big").lstrip(b"\0")) for v in (numbers.e, numbers.n))
        return {"keys": [{"kty": "RSA", "alg": "RS256", "kid": _KEY_ID, "e": e, "n": n}]}


def new_key() -> RSAPrivateKey:
    """Return a new key pair."""
    return generate_private_key(public_exponent=65537, key_size=2048)


@contextmanager
def serving_issuer() -> Iterator[Issuer]:
    """Serve an issuer."""

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(issuer.document(self.path)).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer((HOST, 0), Answering) as server:
        issuer = Issuer(f"http://{HOST}:{server.server_port}")
        thread = Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        try:
            yield issuer
        finally:
            server.shutdown()
            thread.join()


def _base64url(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
