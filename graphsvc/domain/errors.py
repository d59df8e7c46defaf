"""Domain errors: a reason from a closed set, a message that says what to do, and metadata.

Every class maps to one gRPC code (``server/status.py``); every reason is raised somewhere (a reflection test).
Source: design.md, Errors, config, logs.
"""

from __future__ import annotations

from enum import StrEnum


class ErrorReason(StrEnum):
    """Why a call failed. The names are the enum ErrorReason of ``proto/graphsvc/v1/error_reason.proto``."""

    # malformed input
    FIELD_REQUIRED = "FIELD_REQUIRED"
    FIELD_INVALID = "FIELD_INVALID"
    FIELD_TOO_LARGE = "FIELD_TOO_LARGE"
    CONTENT_INVALID = "CONTENT_INVALID"
    EMBEDDING_INVALID = "EMBEDDING_INVALID"
    SELF_LOOP = "SELF_LOOP"
    PAGE_TOKEN_INVALID = "PAGE_TOKEN_INVALID"
    REVISION_TOKEN_INVALID = "REVISION_TOKEN_INVALID"
    SETTING_INVALID = "SETTING_INVALID"
    MODEL_UNKNOWN = "MODEL_UNKNOWN"
    # who and what may
    CREDENTIALS_MISSING = "CREDENTIALS_MISSING"
    CREDENTIALS_INVALID = "CREDENTIALS_INVALID"
    ROLE_MISSING = "ROLE_MISSING"
    OTHER_TENANT = "OTHER_TENANT"
    # what is there
    UNIT_NOT_FOUND = "UNIT_NOT_FOUND"
    RETRIEVAL_NOT_FOUND = "RETRIEVAL_NOT_FOUND"
    POLICY_NOT_FOUND = "POLICY_NOT_FOUND"
    KEY_NOT_FOUND = "KEY_NOT_FOUND"
    TENANT_NOT_FOUND = "TENANT_NOT_FOUND"
    UNIT_DIFFERS = "UNIT_DIFFERS"
    REQUEST_ID_REUSED = "REQUEST_ID_REUSED"
    SUPERSESSION_ORDER = "SUPERSESSION_ORDER"
    # limits
    LIMIT_EXCEEDED = "LIMIT_EXCEEDED"
    STORAGE_FULL = "STORAGE_FULL"
    # passing faults
    GRAPH_UNAVAILABLE = "GRAPH_UNAVAILABLE"
    GRAPH_CONTENTION = "GRAPH_CONTENTION"
    REVISION_STALE = "REVISION_STALE"
    CONTENT_PENDING = "CONTENT_PENDING"
    COLD_STORE_UNAVAILABLE = "COLD_STORE_UNAVAILABLE"
    EMBEDDER_UNAVAILABLE = "EMBEDDER_UNAVAILABLE"
    DEADLINE_PASSED = "DEADLINE_PASSED"
    # broken set-up or data
    SCHEMA_MISMATCH = "SCHEMA_MISMATCH"
    CONTENT_CORRUPT = "CONTENT_CORRUPT"
    INTERNAL_FAULT = "INTERNAL_FAULT"
    # the local stack and the command line
    LOCAL_STACK_FAILED = "LOCAL_STACK_FAILED"
    STATE_DIR_IN_USE = "STATE_DIR_IN_USE"
    ARTIFACT_HASH_MISMATCH = "ARTIFACT_HASH_MISMATCH"
    ARTIFACT_UNAVAILABLE = "ARTIFACT_UNAVAILABLE"
    INGEST_FAILED = "INGEST_FAILED"
    # feedback
    OUTCOME_DIFFERS = "OUTCOME_DIFFERS"
    PREDICTOR_NOT_FOUND = "PREDICTOR_NOT_FOUND"


class GraphsvcError(Exception):
    """A fault the caller can be told about.

    Attributes:
        reason: why, from the closed set.
        message: one sentence that says what is wrong and what to do; no content of units, no driver text.
        metadata: short facts (field, limit, unit_id ...) sent as ErrorInfo metadata.
    """

    def __init__(self, reason: ErrorReason, message: str, **metadata: object) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.metadata: dict[str, str] = {key: str(value) for key, value in metadata.items() if value is not None}


class InvalidArgument(GraphsvcError):
    """Malformed input. ``field`` in the metadata names the offending field's path."""


class Unauthenticated(GraphsvcError):
    """No credentials, or none that hold."""


class PermissionDenied(GraphsvcError):
    """The principal may not do this, decided before anything is looked up."""


class NotFound(GraphsvcError):
    """Absent, or not visible to this principal: the two are never told apart."""


class AlreadyExists(GraphsvcError):
    """The same name with other content."""


class FailedPrecondition(GraphsvcError):
    """The state of the graph forbids it until something else changes."""


class ResourceExhausted(GraphsvcError):
    """A quota or a limit. ``limit`` in the metadata is the number."""


class Aborted(GraphsvcError):
    """Lost against a concurrent transaction, or a stale revision; the same call may succeed."""


class DeadlineExceeded(GraphsvcError):
    """The deadline passed; the work was ended in the database too."""


class Unavailable(GraphsvcError):
    """A store is away; ``retry_delay_ms`` in the metadata says when to try again."""


class DataLoss(GraphsvcError):
    """Stored content does not match its digest."""


class Internal(GraphsvcError):
    """A bug. The caller sees an id only."""


class LocalFault(GraphsvcError):
    """A fault of the local stack or the command line; never crosses gRPC."""
