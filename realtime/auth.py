"""Who may use the server: API keys, and the origins of web pages.

Keys keep strangers out. Origins keep a web page in the user's own browser from talking to a server
on the same machine: browsers let any page open a WebSocket to localhost.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import urlsplit

from realtime.config import LOOPBACK_HOSTS, Config

KEY_SUBPROTOCOL = "openai-insecure-api-key."
SUBPROTOCOL = "realtime"


def offered_key(headers: Mapping[str, str], subprotocols: Sequence[str] = ()) -> str | None:
    """The key of a request: bearer token, `api-key` header, or the browsers' subprotocol."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    if "api-key" in headers:
        return headers["api-key"]
    for name in subprotocols:
        if name.startswith(KEY_SUBPROTOCOL):
            return name.removeprefix(KEY_SUBPROTOCOL)
    return None


def admits(config: Config, key: str | None) -> bool:
    """Whether this key opens the server. Without configured keys everyone who reaches it may in."""
    if config.allow_anonymous or not config.api_keys:
        return True
    given = (key or "").encode()
    # Every key is compared, and each in constant time, so that timing tells nothing.
    return sum(hmac.compare_digest(given, known.encode()) for known in config.api_keys) > 0


def answered_subprotocol(offered: Iterable[str]) -> str | None:
    """What to answer in the handshake: `realtime` or nothing, and never the entry with the key."""
    return SUBPROTOCOL if SUBPROTOCOL in offered else None


def origin_may_connect(config: Config, origin: str | None, host: str | None) -> bool:
    """Whether a page from `origin` may talk to the server it knows as `host`.

    Requests without Origin are not from a web page. A page the server itself gave out may; so may
    configured ones. A name that merely resolves to loopback is not enough for a server without
    keys there, because anyone's domain can be made to (DNS rebinding).
    """
    if origin is None:
        return True
    if "*" in config.allowed_origins or origin.rstrip("/") in _normal(config.allowed_origins):
        return True
    page = _netloc(origin)
    if host is None or page is None or page[1] is None:
        return False
    scheme, page_host = page
    if page_host != _with_port(host, scheme):
        return False
    name = urlsplit(f"//{page_host}").hostname or ""
    any_name = bool(config.api_keys) or not config.is_loopback()
    return any_name or name in LOOPBACK_HOSTS or name.startswith("127.")


def _normal(origins: Iterable[str]) -> set[str]:
    return {origin.rstrip("/") for origin in origins}


def _netloc(origin: str) -> tuple[str, str | None] | None:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return None
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        return None
    return parts.scheme, _with_port(parts.netloc, parts.scheme)


def _with_port(netloc: str, scheme: str) -> str | None:
    """`host:port` with the scheme's default port filled in; None if it cannot be read."""
    try:
        parts = urlsplit(f"//{netloc}")
        port = parts.port or (443 if scheme == "https" else 80)
    except ValueError:
        return None
    host = parts.hostname or ""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
