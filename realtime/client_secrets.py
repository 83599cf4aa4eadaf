"""Client secrets: short-lived keys for browsers, which carry the session they may open.

A secret is `ek_`, the base64url of its deflated JSON (expiry and session), a dot, and the base64url
of an HMAC-SHA256 over what comes before. The server keeps none of them: any server with the same
key takes them, and a restart without a key in the configuration ends them all.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PREFIX = "ek_"
MAX_CHARS = 8192
"""A secret travels in one header, and servers limit those."""
MAX_JSON_BYTES = 1024 * 1024


class SecretTooLong(Exception):
    """The session does not fit into a secret."""


@dataclass(frozen=True, slots=True)
class ClientSecret:
    """expires_at: in unix seconds. session: the update that its sessions begin with."""

    expires_at: int
    session: Mapping[str, Any]


class ClientSecrets:
    """Signs and reads secrets. key: as configured; empty makes one for this process."""

    def __init__(self, key: str = "") -> None:
        self._key = key.encode() or secrets.token_bytes(32)

    @staticmethod
    def looks_like_one(key: str | None) -> bool:
        """Whether a key claims to be signed. On a server without keys any other `ek_…` will do."""
        return key is not None and key.startswith(PREFIX) and "." in key

    def issue(self, secret: ClientSecret) -> str:
        """The secret as a client sends it. Raises SecretTooLong."""
        document = {"exp": secret.expires_at, "session": secret.session, "n": secrets.token_hex(4)}
        packed = zlib.compress(json.dumps(document, separators=(",", ":")).encode(), 9)
        body = PREFIX + _encode(packed)
        value = f"{body}.{_encode(self._sign(body))}"
        if len(value) > MAX_CHARS:
            raise SecretTooLong(f"the secret would have {len(value)} of {MAX_CHARS} characters")
        return value

    def read(self, value: str, now_s: float) -> ClientSecret | None:
        """What a secret carries; None if it is not one of ours, or has expired."""
        body, _, signature = value.rpartition(".")
        if not body.startswith(PREFIX) or len(value) > MAX_CHARS:
            return None
        if not hmac.compare_digest(signature.encode(), _encode(self._sign(body)).encode()):
            return None
        # Signed by us: what is inside can be trusted.
        packed = base64.urlsafe_b64decode(_padded(body.removeprefix(PREFIX)))
        document = json.loads(zlib.decompressobj().decompress(packed, MAX_JSON_BYTES))
        if document["exp"] <= now_s:
            return None
        return ClientSecret(document["exp"], document["session"])

    def _sign(self, body: str) -> bytes:
        return hmac.digest(self._key, body.encode(), hashlib.sha256)


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _padded(text: str) -> str:
    return text + "=" * (-len(text) % 4)
