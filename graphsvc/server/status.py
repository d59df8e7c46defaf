"""Domain errors as google.rpc.Status: one table from error class to gRPC code.

Source: design.md, Errors, config, logs.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import grpc
from google.protobuf import any_pb2, duration_pb2, message
from google.rpc import error_details_pb2, status_pb2  # pyright: ignore[reportMissingTypeStubs]

from graphsvc.domain import errors
from graphsvc.domain.errors import ErrorReason, GraphsvcError

ERROR_DOMAIN = "graphsvc"

DEFAULT_RETRY_DELAY_MS = 1000
"""RetryInfo of an Unavailable that names no delay of its own."""

CODES: Mapping[type[GraphsvcError], grpc.StatusCode] = MappingProxyType(
    {
        errors.InvalidArgument: grpc.StatusCode.INVALID_ARGUMENT,
        errors.Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
        errors.PermissionDenied: grpc.StatusCode.PERMISSION_DENIED,
        errors.NotFound: grpc.StatusCode.NOT_FOUND,
        errors.AlreadyExists: grpc.StatusCode.ALREADY_EXISTS,
        errors.FailedPrecondition: grpc.StatusCode.FAILED_PRECONDITION,
        errors.ResourceExhausted: grpc.StatusCode.RESOURCE_EXHAUSTED,
        errors.Aborted: grpc.StatusCode.ABORTED,
        errors.DeadlineExceeded: grpc.StatusCode.DEADLINE_EXCEEDED,
        errors.Unavailable: grpc.StatusCode.UNAVAILABLE,
        errors.DataLoss: grpc.StatusCode.DATA_LOSS,
        errors.Internal: grpc.StatusCode.INTERNAL,
    }
)
"""Every class of domain error that crosses gRPC; LocalFault does not."""


def presentable(error: BaseException, request_id: str) -> GraphsvcError:
    """The error as the caller may see it: itself, or an Internal that carries the request id only.

    Args:
        error: what a handler raised.
        request_id: of the call.
    """
    if isinstance(error, GraphsvcError) and type(error) in CODES and not isinstance(error, errors.Internal):
        return error
    return errors.Internal(
        ErrorReason.INTERNAL_FAULT, f"the service failed; report request id {request_id} to its operator"
    )


def to_status(error: GraphsvcError, request_id: str) -> status_pb2.Status:
    """The google.rpc.Status of a presentable error, with ErrorInfo and RequestInfo and what else its class calls for.

    InvalidArgument with a field adds BadRequest, Unavailable RetryInfo, ResourceExhausted QuotaFailure.
    """
    details: list[message.Message] = [
        error_details_pb2.ErrorInfo(reason=error.reason.value, domain=ERROR_DOMAIN, metadata=error.metadata),
        error_details_pb2.RequestInfo(request_id=request_id),
    ]
    if isinstance(error, errors.InvalidArgument) and (field := error.metadata.get("field")):
        violation = error_details_pb2.BadRequest.FieldViolation(
            field=field, description=error.message, reason=error.reason.value
        )
        details.append(error_details_pb2.BadRequest(field_violations=[violation]))
    if isinstance(error, errors.Unavailable):
        delay_ms = float(error.metadata.get("retry_delay_ms", DEFAULT_RETRY_DELAY_MS))
        delay = duration_pb2.Duration()
        delay.FromMicroseconds(round(delay_ms * 1000))
        details.append(error_details_pb2.RetryInfo(retry_delay=delay))
    if isinstance(error, errors.ResourceExhausted):
        quota = error_details_pb2.QuotaFailure.Violation(subject=error.reason.value, description=error.message)
        details.append(error_details_pb2.QuotaFailure(violations=[quota]))
    return status_pb2.Status(
        code=_number(CODES[type(error)]), message=error.message, details=[_packed(detail) for detail in details]
    )


def _number(code: grpc.StatusCode) -> int:
    return code.value[0]


def _packed(detail: message.Message) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(detail)
    return packed
