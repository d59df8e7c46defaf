"""Page tokens and revision tokens: opaque to callers, signed with the service's secret, bound to whom they were given.

A token is base64url of: version byte, HMAC-SHA256 (32 bytes), payload. What a token is bound to goes into the HMAC, not
into the payload, so a token used elsewhere is indistinguishable from a forged one. Only the revision token says which
tenant it belongs to (as a keyed digest): another tenant's is refused as such, before anything is looked up.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import cast

from graphsvc.domain.errors import ErrorReason, InvalidArgument, PermissionDenied
from graphsvc.domain.tenancy import Principal

TOKEN_VERSION = 1
MIN_SECRET_BYTES = 32
MAX_TOKEN_BYTES = 8192
"""Longer ones are refused unread."""

_MAC_BYTES = 32
_TENANT_BYTES = 16
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class TokenSigner:
    """Makes and reads tokens; every server process on one database has the same secret."""

    def __init__(self, secret: bytes) -> None:
        """Keeps the secret.

        Args:
            secret: at least 32 random bytes.
        """
        if len(secret) < MIN_SECRET_BYTES:
            raise InvalidArgument(
                ErrorReason.SETTING_INVALID, f"the service secret must have at least {MIN_SECRET_BYTES} bytes"
            )
        self._secret = secret

    def page_token(self, principal: Principal, listing: Sequence[str], position: tuple[datetime, str]) -> str:
        """The token of the page that follows a position.

        Args:
            principal: the caller; the token holds for its tenant, agent and session.
            listing: name of the list and all its filters; the token holds for the same ones only.
            position: time and id of the last entry of the page before.
        """
        time, entry_id = position
        payload = json.dumps([(time - _EPOCH) // _MICROSECOND, entry_id], separators=(",", ":")).encode()
        return self._sealed("page", _page_scope(principal, listing), payload)

    def read_page_token(self, principal: Principal, listing: Sequence[str], token: str) -> tuple[datetime, str] | None:
        """The position a token stands for; None for an empty token: the first page.

        Raises:
            InvalidArgument: PAGE_TOKEN_INVALID, malformed or of another list, session, agent or tenant.
        """
        if not token:
            return None
        payload = self._opened("page", _page_scope(principal, listing), token)
        if payload is None:
            raise InvalidArgument(
                ErrorReason.PAGE_TOKEN_INVALID,
                "page_token is not one of this list and caller: send the next_page_token of the page before, "
                "unchanged, with the same filters",
                field="page_token",
            )
        microseconds, entry_id = cast("tuple[int, str]", json.loads(payload))
        return _EPOCH + microseconds * _MICROSECOND, entry_id

    def revision_token(self, tenant_id: str, bookmarks: Sequence[str]) -> str:
        """The token of a revision.

        Args:
            tenant_id: whose it is.
            bookmarks: Neo4j's, opaque.
        """
        payload = self._tenant_digest(tenant_id) + json.dumps(list(bookmarks), separators=(",", ":")).encode()
        return self._sealed("revision", (), payload)

    def read_revision_token(self, tenant_id: str, token: str) -> tuple[str, ...]:
        """The bookmarks a token stands for.

        Raises:
            InvalidArgument: REVISION_TOKEN_INVALID, not a token this service made.
            PermissionDenied: OTHER_TENANT.
        """
        payload = self._opened("revision", (), token)
        if payload is None:
            raise InvalidArgument(
                ErrorReason.REVISION_TOKEN_INVALID,
                "at_least_as_fresh is not a revision token of this service: send one from a write's answer, unchanged",
                field="consistency.at_least_as_fresh",
            )
        if not hmac.compare_digest(payload[:_TENANT_BYTES], self._tenant_digest(tenant_id)):
            raise PermissionDenied(ErrorReason.OTHER_TENANT, "the revision token belongs to another tenant")
        return tuple(cast("list[str]", json.loads(payload[_TENANT_BYTES:])))

    def _tenant_digest(self, tenant_id: str) -> bytes:
        return self._mac("tenant", (tenant_id,), b"")[:_TENANT_BYTES]

    def _sealed(self, kind: str, scope: Sequence[str], payload: bytes) -> str:
        raw = bytes([TOKEN_VERSION]) + self._mac(kind, scope, payload) + payload
        return base64.urlsafe_b64encode(raw).decode().rstrip("=")

    def _opened(self, kind: str, scope: Sequence[str], token: str) -> bytes | None:
        if len(token) > MAX_TOKEN_BYTES:
            return None
        try:
            raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        if len(raw) <= _MAC_BYTES or raw[0] != TOKEN_VERSION:
            return None
        mac, payload = raw[1 : 1 + _MAC_BYTES], raw[1 + _MAC_BYTES :]
        return payload if hmac.compare_digest(mac, self._mac(kind, scope, payload)) else None

    def _mac(self, kind: str, scope: Sequence[str], payload: bytes) -> bytes:
        # lengths go before the parts, so that no two scopes run together to the same bytes
        parts = [kind.encode(), *(part.encode() for part in scope), payload]
        mac = hmac.new(self._secret, bytes([TOKEN_VERSION]), hashlib.sha256)
        for part in parts:
            mac.update(len(part).to_bytes(4, "big"))
            mac.update(part)
        return mac.digest()


def _page_scope(principal: Principal, listing: Sequence[str]) -> tuple[str, ...]:
    return (principal.tenant_id, principal.agent_id, principal.session_id, *listing)
