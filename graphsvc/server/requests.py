"""What all RPCs read from a request alike: whose it is, how fresh, how long; and the revision their answers carry."""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import Message

from graphsvc.domain.errors import ErrorReason, InvalidArgument
from graphsvc.domain.tenancy import Principal
from graphsvc.ports import ReadOptions, WriteRequest, Written
from graphsvc.server import convert
from graphsvc.server.interceptors import current_call
from graphsvc.server.tokens import TokenSigner
from graphsvc.v1 import core_pb2

READ_TIMEOUT_MS = 5000
"""Server-side limit of a read statement; retrievals have a tighter one of their own (query_timeout_ms)."""

T = TypeVar("T")


class RequestReader:
    """Reads the common fields of requests of the call under way."""

    def __init__(self, tokens: TokenSigner, *, write_timeout_ms: int) -> None:
        self.tokens = tokens
        self._write_timeout_ms = write_timeout_ms

    def principal(self, session_id: str, model: str = "") -> Principal:
        """The caller in its session.

        Raises:
            InvalidArgument: session_id is unset or malformed.
        """
        return current_call().principal(convert.required_name(session_id, "session_id"), model)

    def registrar(self) -> Principal:
        """The caller outside of any session, for calls about policies."""
        return current_call().principal()

    def write(self, request: Message, request_id: str) -> WriteRequest:
        """The identity of a write.

        Raises:
            InvalidArgument: request_id is unset or malformed.
        """
        return WriteRequest(
            request_id=convert.request_id(request_id),
            fingerprint=convert.fingerprint(request),
            timeout_ms=min(current_call().remaining_ms(), self._write_timeout_ms),
        )

    def read_options(self, consistency: core_pb2.Consistency) -> ReadOptions:
        """How to read.

        Raises:
            InvalidArgument: REVISION_TOKEN_INVALID, or FIELD_INVALID when minimize_latency is set to false.
            PermissionDenied: OTHER_TENANT.
        """
        bookmarks: tuple[str, ...] = ()
        requirement = consistency.WhichOneof("requirement")
        if requirement == "at_least_as_fresh":
            bookmarks = self.tokens.read_revision_token(
                current_call().key.tenant_id, consistency.at_least_as_fresh.token
            )
        elif requirement == "minimize_latency" and not consistency.minimize_latency:
            field = "consistency.minimize_latency"
            raise InvalidArgument(ErrorReason.FIELD_INVALID, f"{field} must be true if set", field=field)
        return ReadOptions(bookmarks=bookmarks, timeout_ms=min(current_call().remaining_ms(), READ_TIMEOUT_MS))

    def revision(self, written: Written[T]) -> core_pb2.RevisionToken:
        """The token of the revision that contains a write."""
        token = self.tokens.revision_token(current_call().key.tenant_id, written.bookmarks)
        return core_pb2.RevisionToken(token=token)
