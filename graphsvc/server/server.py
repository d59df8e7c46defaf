"""The gRPC server: built, bound, made SERVING, drained.

Source: design.md, Errors, config, logs; gate N10.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any, Protocol, cast

import grpc
import grpc.aio
from google.protobuf.descriptor import ServiceDescriptor
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from graphsvc.domain.errors import ErrorReason, InvalidArgument, LocalFault
from graphsvc.server.context_service import ContextService
from graphsvc.server.convert import MAX_REQUEST_BYTES
from graphsvc.server.interceptors import CallInterceptor, check_roles
from graphsvc.server.predictor_service import PredictorService
from graphsvc.server.registry_service import RegistryService
from graphsvc.server.requests import RequestReader
from graphsvc.server.retrieval_service import RetrievalService
from graphsvc.server.tokens import TokenSigner
from graphsvc.settings import Settings
from graphsvc.v1 import (
    context_service_pb2,
    context_service_pb2_grpc,
    predictor_service_pb2,
    predictor_service_pb2_grpc,
    registry_service_pb2,
    registry_service_pb2_grpc,
    retrieval_service_pb2,
    retrieval_service_pb2_grpc,
)

if TYPE_CHECKING:
    from graphsvc.services.calibration import CalibrationUseCases
    from graphsvc.services.contexts import ContextUseCases
    from graphsvc.services.feedback import FeedbackUseCases
    from graphsvc.services.registry import RegistryUseCases
    from graphsvc.services.retrievals import RetrievalUseCases

MAX_CONCURRENT_RPCS = 1000
"""More are refused with RESOURCE_EXHAUSTED before they cost anything."""

_SLACK_BYTES = 2**20
"""Above the limit of a request, so that one slightly larger gets our answer, with its reason, not the transport's."""

_OPTIONS: tuple[tuple[str, Any], ...] = (
    ("grpc.max_receive_message_length", MAX_REQUEST_BYTES + _SLACK_BYTES),
    ("grpc.max_send_message_length", -1),  # answers have limits of their own
    ("grpc.so_reuseport", 0),  # two servers on one port would share its calls, silently
    # a client that is gone without a word is noticed, and its calls cancelled, within 40 s
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
)

SERVICES: tuple[ServiceDescriptor, ...] = (
    context_service_pb2.DESCRIPTOR.services_by_name["ContextService"],
    retrieval_service_pb2.DESCRIPTOR.services_by_name["RetrievalService"],
    registry_service_pb2.DESCRIPTOR.services_by_name["RegistryService"],
    predictor_service_pb2.DESCRIPTOR.services_by_name["PredictorService"],
)
"""The public API."""


class _Health(Protocol):
    async def set(self, service: str, status: int) -> None: ...
    async def enter_graceful_shutdown(self) -> None: ...


class RunningServer:
    """A bound, started server.

    Attributes:
        port: the port it listens on.
    """

    def __init__(self, server: grpc.aio.Server, health_servicer: _Health, port: int) -> None:
        self._server = server
        self._health = health_servicer
        self.port = port

    async def set_serving(self) -> None:
        """Tells health checks that calls will be answered: the schema is online and the statements are warmed."""
        for name in _health_names():
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    async def stop(self, grace: float) -> None:
        """Returns when no call is left: health says NOT_SERVING, new calls are refused, those under way may finish.

        Args:
            grace: s until calls that are still under way are cancelled.
        """
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace)


async def build_server(
    settings: Settings,
    *,
    contexts: ContextUseCases,
    retrievals: RetrievalUseCases,
    feedback: FeedbackUseCases,
    calibration: CalibrationUseCases,
    registry: RegistryUseCases,
    service_secret: bytes,
) -> RunningServer:
    """A server that listens; health says NOT_SERVING until told otherwise.

    Args:
        settings: address, TLS, time limits.
        contexts: behind ContextService.
        retrievals: behind RetrievalService.
        feedback: behind RetrievalService too.
        calibration: behind PredictorService.
        registry: behind RegistryService, and who calls.
        service_secret: signs tokens; the same in every process on one database; 32 bytes or more.

    Raises:
        InvalidArgument: SETTING_INVALID, a non-loopback address without TLS, or a certificate that cannot be read.
        LocalFault: LOCAL_STACK_FAILED, the port is taken.
        Internal: an RPC has no entry in the table of roles.
    """
    check_roles(f"/{service.full_name}/{method.name}" for service in SERVICES for method in service.methods)
    credentials = _credentials(settings)
    reader = RequestReader(TokenSigner(service_secret), write_timeout_ms=settings.write_timeout_ms)
    server: grpc.aio.Server = cast("Any", grpc.aio).server(
        interceptors=(CallInterceptor(registry),), options=_OPTIONS, maximum_concurrent_rpcs=MAX_CONCURRENT_RPCS
    )
    cast("Any", context_service_pb2_grpc).add_ContextServiceServicer_to_server(ContextService(contexts, reader), server)
    cast("Any", retrieval_service_pb2_grpc).add_RetrievalServiceServicer_to_server(
        RetrievalService(retrievals, feedback, reader), server
    )
    cast("Any", registry_service_pb2_grpc).add_RegistryServiceServicer_to_server(
        RegistryService(registry, reader), server
    )
    cast("Any", predictor_service_pb2_grpc).add_PredictorServiceServicer_to_server(
        PredictorService(calibration, reader), server
    )
    health_servicer = cast("_Health", cast("Any", health).aio.HealthServicer())  # unknown to the stubs
    health_pb2_grpc.add_HealthServicer_to_server(health_servicer, server)
    for name in _health_names():
        await health_servicer.set(name, health_pb2.HealthCheckResponse.NOT_SERVING)
    reflection.enable_server_reflection(
        [*(service.full_name for service in SERVICES), health.SERVICE_NAME, reflection.SERVICE_NAME], server
    )
    port = _bound_port(server, settings, credentials)
    await server.start()
    return RunningServer(server, health_servicer, port)


def _health_names() -> tuple[str, ...]:
    return ("", *(service.full_name for service in SERVICES))


def _credentials(settings: Settings) -> grpc.ServerCredentials | None:
    if settings.tls_certificate is None or settings.tls_key is None:
        if not _is_loopback(settings.grpc_host) and not settings.allow_insecure_bind:
            raise InvalidArgument(
                ErrorReason.SETTING_INVALID,
                f"GRAPHSVC_GRPC_HOST={settings.grpc_host} is reachable from other machines: set "
                "GRAPHSVC_TLS_CERTIFICATE and GRAPHSVC_TLS_KEY, or, behind a proxy that ends TLS, "
                "GRAPHSVC_ALLOW_INSECURE_BIND=true",
            )
        return None
    try:
        pair = (settings.tls_key.read_bytes(), settings.tls_certificate.read_bytes())
    except OSError as error:
        raise InvalidArgument(
            ErrorReason.SETTING_INVALID,
            f"{error.filename} cannot be read ({error.strerror}): see GRAPHSVC_TLS_CERTIFICATE and GRAPHSVC_TLS_KEY",
        ) from error
    return grpc.ssl_server_credentials([pair])


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # a name may resolve to anything


def _bound_port(server: grpc.aio.Server, settings: Settings, credentials: grpc.ServerCredentials | None) -> int:
    host = f"[{settings.grpc_host}]" if ":" in settings.grpc_host else settings.grpc_host
    address = f"{host}:{settings.grpc_port}"
    try:
        if credentials is None:
            return server.add_insecure_port(address)
        return server.add_secure_port(address, credentials)
    except RuntimeError as error:
        raise LocalFault(
            ErrorReason.LOCAL_STACK_FAILED,
            f"cannot listen on {address}: another process may have the port (set GRAPHSVC_GRPC_PORT, 0: a free one), "
            "or the TLS certificate and key do not fit",
        ) from error
