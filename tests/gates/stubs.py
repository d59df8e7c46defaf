"""Raw stubs, for what the client hides: malformed messages, missing credentials, error details."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import grpc
import grpc.aio
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from graphsvc.v1 import (
    context_service_pb2_grpc,
    predictor_service_pb2_grpc,
    registry_service_pb2_grpc,
    retrieval_service_pb2_grpc,
)

DETAIL_TYPES = (
    error_details_pb2.ErrorInfo,
    error_details_pb2.RequestInfo,
    error_details_pb2.BadRequest,
    error_details_pb2.RetryInfo,
    error_details_pb2.QuotaFailure,
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A call that failed: gRPC code, message, and the google.rpc details by name."""

    code: str
    message: str
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def reason(self) -> str:
        info = self.details.get("ErrorInfo")
        return info.reason if info is not None else ""


class Stubs:
    """The services over one channel."""

    def __init__(self, target: str) -> None:
        self.channel = grpc.aio.insecure_channel(target)
        self.context = context_service_pb2_grpc.ContextServiceStub(self.channel)
        self.retrieval = retrieval_service_pb2_grpc.RetrievalServiceStub(self.channel)
        self.registry = registry_service_pb2_grpc.RegistryServiceStub(self.channel)
        self.predictor = predictor_service_pb2_grpc.PredictorServiceStub(self.channel)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.channel.close(None)

    def method(self, name: str) -> Callable[..., Awaitable[Message]]:
        """The callable of an RPC by its name, whichever service it belongs to."""
        for stub in (self.context, self.retrieval, self.registry, self.predictor):
            if hasattr(stub, name):
                return getattr(stub, name)
        raise KeyError(name)

    async def call(
        self, name: str, request: Message, api_key: str | None = None, *, timeout_s: float = 30.0
    ) -> Message | Refusal:
        """The answer of an RPC, or how it was refused."""
        metadata = () if api_key is None else (("authorization", f"Bearer {api_key}"),)
        try:
            return await self.method(name)(request, metadata=metadata, timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            return refusal(error)


def refusal(error: grpc.aio.AioRpcError) -> Refusal:
    """The failure with its details unpacked."""
    trailing = dict(error.trailing_metadata() or ())
    status = status_pb2.Status.FromString(trailing.get("grpc-status-details-bin", b""))
    details: dict[str, Any] = {}
    for packed in status.details:
        for kind in DETAIL_TYPES:
            into = kind()
            if packed.Unpack(into):
                details[kind.DESCRIPTOR.name] = into
    return Refusal(error.code().name, error.details() or "", details)
