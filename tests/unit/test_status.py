"""Domain errors as google.rpc.Status."""

from __future__ import annotations

import grpc
import pytest
from google.rpc import error_details_pb2

from graphsvc.domain import errors
from graphsvc.domain.errors import ErrorReason, GraphsvcError
from graphsvc.server import status


def details_of(packed, kind):
    found = kind()
    return [type(found).FromString(one.value) for one in packed.details if one.Is(kind.DESCRIPTOR)]


def test_every_error_class_has_a_code_of_its_own():
    crossing = {
        cls
        for cls in vars(errors).values()
        if isinstance(cls, type) and issubclass(cls, GraphsvcError) and cls not in (GraphsvcError, errors.LocalFault)
    }
    assert set(status.CODES) == crossing
    assert len(set(status.CODES.values())) == len(crossing)
    assert grpc.StatusCode.OK not in status.CODES.values()


@pytest.mark.parametrize("cls", list(status.CODES))
def test_every_status_carries_reason_and_request_id(cls):
    packed = status.to_status(cls(ErrorReason.FIELD_INVALID, "text", field="a.b"), "rq-1")
    assert packed.code == status.CODES[cls].value[0]
    assert packed.message == "text"
    (info,) = details_of(packed, error_details_pb2.ErrorInfo)
    assert (info.domain, info.reason, dict(info.metadata)) == ("graphsvc", "FIELD_INVALID", {"field": "a.b"})
    (request,) = details_of(packed, error_details_pb2.RequestInfo)
    assert request.request_id == "rq-1"


def test_only_invalid_argument_with_a_field_has_violations():
    error = errors.InvalidArgument(ErrorReason.FIELD_INVALID, "bad", field="units[3].content")
    (bad,) = details_of(status.to_status(error, "r"), error_details_pb2.BadRequest)
    (violation,) = bad.field_violations
    assert (violation.field, violation.description, violation.reason) == ("units[3].content", "bad", "FIELD_INVALID")
    without = status.to_status(errors.InvalidArgument(ErrorReason.FIELD_INVALID, "bad"), "r")
    assert not details_of(without, error_details_pb2.BadRequest)
    other = status.to_status(errors.NotFound(ErrorReason.UNIT_NOT_FOUND, "none", field="x"), "r")
    assert not details_of(other, error_details_pb2.BadRequest)


@pytest.mark.parametrize(("metadata", "milliseconds"), [({}, 1000), ({"retry_delay_ms": 250}, 250)])
def test_unavailable_says_when_to_try_again(metadata, milliseconds):
    error = errors.Unavailable(ErrorReason.GRAPH_UNAVAILABLE, "away", **metadata)
    (retry,) = details_of(status.to_status(error, "r"), error_details_pb2.RetryInfo)
    assert retry.retry_delay.ToMilliseconds() == milliseconds


def test_resource_exhausted_names_the_quota():
    error = errors.ResourceExhausted(ErrorReason.STORAGE_FULL, "full")
    (quota,) = details_of(status.to_status(error, "r"), error_details_pb2.QuotaFailure)
    assert [(one.subject, one.description) for one in quota.violations] == [("STORAGE_FULL", "full")]


@pytest.mark.parametrize(
    "error",
    [
        ValueError("the content of a unit"),
        errors.Internal(ErrorReason.INTERNAL_FAULT, "driver text"),
        errors.LocalFault(ErrorReason.LOCAL_STACK_FAILED, "/a/path"),
    ],
)
def test_a_fault_shows_the_request_id_only(error):
    shown = status.presentable(error, "rq-7")
    assert isinstance(shown, errors.Internal)
    assert str(error) not in shown.message
    assert "rq-7" in shown.message
    assert not shown.metadata


def test_a_domain_error_is_shown_as_it_is():
    error = errors.NotFound(ErrorReason.UNIT_NOT_FOUND, "none")
    assert status.presentable(error, "r") is error
