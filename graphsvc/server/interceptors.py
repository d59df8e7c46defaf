"""What every RPC goes through before and after its own code, in one place.

In this order: request id, log line and span around everything; identity; role; message; deadline; the RPC; errors as
google.rpc.Status. Health and reflection pass untouched.
Source: design.md, Errors, config, logs; gate N10.
"""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol, cast

import grpc
import grpc.aio
import structlog
from google.protobuf.message import DecodeError, Message
from opentelemetry import propagate
from opentelemetry.trace import SpanKind

from graphsvc import telemetry
from graphsvc.domain.errors import (
    DeadlineExceeded,
    ErrorReason,
    GraphsvcError,
    Internal,
    InvalidArgument,
    PermissionDenied,
    Unauthenticated,
)
from graphsvc.domain.tenancy import Principal, Role
from graphsvc.ports import ApiKey
from graphsvc.server import status
from graphsvc.server.convert import MAX_REQUEST_BYTES

PACKAGE_PREFIX = "/graphsvc.v1."
"""Methods of the public API; others (health, reflection) need no key."""

ROLES: Mapping[str, Role | None] = MappingProxyType(
    {
        "/graphsvc.v1.RegistryService/GetPrincipal": None,
        "/graphsvc.v1.ContextService/PutUnits": Role.WRITER,
        "/graphsvc.v1.ContextService/GetUnits": Role.READER,
        "/graphsvc.v1.ContextService/ListUnits": Role.READER,
        "/graphsvc.v1.ContextService/DeleteUnits": Role.WRITER,
        "/graphsvc.v1.ContextService/LinkUnits": Role.WRITER,
        "/graphsvc.v1.ContextService/UnlinkUnits": Role.WRITER,
        "/graphsvc.v1.RetrievalService/Retrieve": Role.READER,
        "/graphsvc.v1.RetrievalService/ExplainRetrieval": Role.READER,
        "/graphsvc.v1.RetrievalService/ReportOutcome": Role.WRITER,
        "/graphsvc.v1.RegistryService/CreatePolicy": Role.WRITER,
        "/graphsvc.v1.RegistryService/ListPolicies": Role.READER,
        "/graphsvc.v1.RegistryService/DeletePolicy": Role.WRITER,
        "/graphsvc.v1.PredictorService/RecalibratePredictor": Role.ADMIN,
        "/graphsvc.v1.PredictorService/ListPredictors": Role.ADMIN,
        "/graphsvc.v1.PredictorService/RollBackPredictor": Role.ADMIN,
    }
)
"""The role each RPC needs; None: any. One without an entry refuses to start."""

DEFAULT_DEADLINE_S = 30.0
"""Of a call that brings none."""

AUTHORIZATION = "authorization"
REQUEST_ID = "x-request-id"
STATUS_DETAILS = "grpc-status-details-bin"

_REQUEST_ID_FORM = re.compile(r"[A-Za-z0-9._:#/-]{1,128}")
_log = structlog.get_logger("graphsvc.rpc")


class Authenticator(Protocol):
    """Finds who a key belongs to."""

    async def authenticate(self, api_key: str) -> ApiKey:
        """The key the text stands for.

        Raises:
            Unauthenticated: CREDENTIALS_INVALID, whatever is wrong with it.
        """
        ...


@dataclass(frozen=True, slots=True)
class Call:
    """The RPC under way: who calls, and how long it may take.

    Attributes:
        request_id: of this call, for logs and errors; not the request_id of a write.
        deadline: on the event loop's clock, s.
    """

    request_id: str
    key: ApiKey
    deadline: float

    def principal(self, session_id: str = "", model: str = "") -> Principal:
        """The caller, working in a session of its own."""
        return Principal(
            tenant_id=self.key.tenant_id,
            agent_id=self.key.agent_id,
            session_id=session_id,
            roles=self.key.roles,
            model=model,
            key_id=self.key.key_id,
        )

    def remaining_ms(self) -> int:
        """What is left of the deadline, ms, 1 or more."""
        return max(1, int((self.deadline - asyncio.get_running_loop().time()) * 1000))


_current: ContextVar[Call] = ContextVar("current_call")


def current_call() -> Call:
    """The call this task works for."""
    return _current.get()


def check_roles(methods: Iterable[str], roles: Mapping[str, Role | None] = ROLES) -> None:
    """Returns when every method has a role and every role a method.

    Args:
        methods: full names of all methods served, "/graphsvc.v1.Service/Method".
        roles: the table.

    Raises:
        Internal: a method could be called by anybody, or an entry names none.
    """
    odd = sorted(set(methods) ^ set(roles))
    if odd:
        raise Internal(ErrorReason.INTERNAL_FAULT, f"the table of roles and the RPCs served differ: {', '.join(odd)}")


Handler = Callable[[Any, Any], Awaitable[Message]]

# the stubs know synchronous handlers only
_unary_handler = cast(
    "Callable[..., grpc.RpcMethodHandler[Any, Any]]", cast("Any", grpc).unary_unary_rpc_method_handler
)


class CallInterceptor(grpc.aio.ServerInterceptor):  # pyright: ignore[reportMissingTypeArgument]  # generic in the stubs only
    """Wraps every unary RPC of the public API."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any]]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any]:
        """The handler of a method, wrapped; None (unimplemented) and foreign services as they are."""
        handler = await continuation(handler_call_details)
        method = handler_call_details.method
        unary = cast("Handler | None", handler.unary_unary) if handler else None
        if unary is None or not method.startswith(PACKAGE_PREFIX):
            return handler
        raw = cast("Any", handler)
        decode: Callable[[bytes], Message] = raw.request_deserializer

        async def call(data: bytes, context: grpc.aio.ServicerContext[Any, Any]) -> Message:
            return await self._call(method, decode, unary, data, context)

        # no deserializer: nothing a caller sends is parsed before it is known who sent it
        return _unary_handler(call, request_deserializer=None, response_serializer=raw.response_serializer)

    async def _call(
        self,
        method: str,
        decode: Callable[[bytes], Message],
        handler: Handler,
        data: bytes,
        context: grpc.aio.ServicerContext[Any, Any],
    ) -> Message:
        started = time.perf_counter()
        metadata = _metadata(context)
        request_id = _request_id(metadata)
        facts = telemetry.RpcFacts()
        telemetry.rpc_facts.set(facts)
        line: dict[str, object] = {"rpc": method.removeprefix(PACKAGE_PREFIX), "request_id": request_id}
        failure: GraphsvcError | None = None
        service, _, name = method.removeprefix("/").partition("/")
        with telemetry.tracer.start_as_current_span(
            telemetry.SPAN_RPC,
            context=propagate.extract(metadata),
            kind=SpanKind.SERVER,
            attributes={
                telemetry.ATTRIBUTE_RPC_SYSTEM: "grpc",
                telemetry.ATTRIBUTE_RPC_SERVICE: service,
                telemetry.ATTRIBUTE_RPC_METHOD: name,
                telemetry.ATTRIBUTE_REQUEST_ID: request_id,
            },
        ) as span:
            response: Message | None = None
            code = grpc.StatusCode.OK
            try:
                response = await self._answer(method, decode, handler, data, context, metadata, request_id, line)
            except asyncio.CancelledError:
                # the caller went away or its deadline passed: nobody is left to answer, the work below was cancelled
                code = grpc.StatusCode.CANCELLED
                raise
            except Exception as error:
                failure = status.presentable(error, request_id)
                code = status.CODES[type(failure)]
                if failure is not error or isinstance(error, Internal):
                    line["fault"] = telemetry.describe_fault(error)
            finally:
                duration_ms = (time.perf_counter() - started) * 1000
                span.set_attribute(telemetry.ATTRIBUTE_RPC_CODE, cast("int", code.value[0]))
                telemetry.rpc_duration.record(
                    duration_ms, {telemetry.ATTRIBUTE_RPC_METHOD: name, telemetry.ATTRIBUTE_CODE: code.name}
                )
                _write_line(line, code, failure, duration_ms, facts)
        trailing = ((REQUEST_ID, request_id),)
        if response is not None:
            context.set_trailing_metadata(trailing)
            return response
        assert failure is not None
        details = status.to_status(failure, request_id).SerializeToString()
        await context.abort(code, failure.message, (*trailing, (STATUS_DETAILS, details)))
        raise AssertionError("abort always raises")

    async def _answer(
        self,
        method: str,
        decode: Callable[[bytes], Message],
        handler: Handler,
        data: bytes,
        context: grpc.aio.ServicerContext[Any, Any],
        metadata: Mapping[str, str],
        request_id: str,
        line: dict[str, object],
    ) -> Message:
        given = cast("float | None", context.time_remaining())
        seconds = DEFAULT_DEADLINE_S if given is None else given
        deadline = asyncio.get_running_loop().time() + seconds
        limit = asyncio.timeout_at(deadline)
        try:
            async with limit:
                key = await self._identify(metadata)
                line["tenant_id"], line["agent_id"], line["key_id"] = key.tenant_id, key.agent_id, key.key_id
                role = ROLES[method]
                if role is not None and role not in key.roles:
                    raise PermissionDenied(
                        ErrorReason.ROLE_MISSING, f"the key lacks the role {role.value}", required_role=role.value
                    )
                _current.set(Call(request_id=request_id, key=key, deadline=deadline))
                return await handler(_decoded(decode, data), context)
        except TimeoutError:
            if not limit.expired():
                raise
            raise DeadlineExceeded(
                ErrorReason.DEADLINE_PASSED,
                f"no answer within {seconds:.3f} s; the work was ended, and a write with the same request_id may be "
                "sent again",
            ) from None

    async def _identify(self, metadata: Mapping[str, str]) -> ApiKey:
        """Who calls. Whatever is wrong with a key, it goes the same way and gets the same answer."""
        header = metadata.get(AUTHORIZATION)
        if header is None:
            raise Unauthenticated(
                ErrorReason.CREDENTIALS_MISSING, "send an API key as metadata `authorization: Bearer gsk_...`"
            )
        scheme, _, api_key = header.partition(" ")
        try:
            return await self._authenticator.authenticate(api_key.strip() if scheme.lower() == "bearer" else "")
        except Unauthenticated:
            raise Unauthenticated(
                ErrorReason.CREDENTIALS_INVALID,
                "the API key is not valid here: make one with `graphsvc key create` and send it as metadata "
                "`authorization: Bearer gsk_...`",
            ) from None


def _decoded(decode: Callable[[bytes], Message], data: bytes) -> Message:
    if len(data) > MAX_REQUEST_BYTES:
        raise InvalidArgument(
            ErrorReason.FIELD_TOO_LARGE,
            f"the request has {len(data)} bytes; send at most {MAX_REQUEST_BYTES} in a call",
            limit=MAX_REQUEST_BYTES,
        )
    try:
        return decode(data)
    except (DecodeError, UnicodeDecodeError):
        raise InvalidArgument(ErrorReason.FIELD_INVALID, "the request is not a valid message of this method") from None


def _metadata(context: grpc.aio.ServicerContext[Any, Any]) -> dict[str, str]:
    """Text entries of the call's metadata; of a key sent twice the first."""
    found: dict[str, str] = {}
    for key, value in cast("Iterable[tuple[str, str | bytes]]", context.invocation_metadata() or ()):
        if isinstance(value, str):
            found.setdefault(key, value)
    return found


def _request_id(metadata: Mapping[str, str]) -> str:
    given = metadata.get(REQUEST_ID, "")
    return given if _REQUEST_ID_FORM.fullmatch(given) else uuid.uuid4().hex


def _write_line(
    line: dict[str, object],
    code: grpc.StatusCode,
    failure: GraphsvcError | None,
    duration_ms: float,
    facts: telemetry.RpcFacts,
) -> None:
    line["code"] = code.name
    line["reason"] = failure.reason.value if failure else None
    line["duration_ms"] = round(duration_ms, 3)
    for name in ("strategy", "outcome", "tokens_spent", "candidates_deferred", "budget_remaining"):
        value = getattr(facts, name)
        if value is not None:
            line[name] = value
    line["queries"] = {name: round(ms, 3) for name, ms in facts.queries.items()}
    broken = code in (grpc.StatusCode.INTERNAL, grpc.StatusCode.DATA_LOSS)
    (_log.error if broken else _log.info)(telemetry.LOG_EVENT_RPC, **line)
