"""Neo4j's errors as domain errors: one table. Driver text stays in the cause, for the log; it never reaches a caller.

Source: design.md, Errors, config, logs.
"""

from __future__ import annotations

from neo4j import exceptions as neo

from graphsvc.domain.errors import (
    Aborted,
    DeadlineExceeded,
    ErrorReason,
    FailedPrecondition,
    GraphsvcError,
    Internal,
    InvalidArgument,
    Unavailable,
)

RETRY_DELAY_MS = 1000
"""What callers are told to wait while the graph is away: Neo4j restarts in 5 to 20 s, a leader changes in 1 to 5 s."""

_TIMED_OUT = (
    "Neo.ClientError.Transaction.TransactionTimedOut",
    "Neo.ClientError.Transaction.TransactionTimedOutClientConfiguration",
    "Neo.TransientError.Transaction.LockAcquisitionTimeout",
    "Neo.ClientError.Transaction.Terminated",
    "Neo.TransientError.Transaction.Terminated",
)
_DELETED_MEANWHILE = ("Neo.ClientError.Statement.EntityNotFound",)
_STALE = ("Neo.TransientError.Transaction.BookmarkTimeout",)
_BOOKMARK_INVALID = (
    "Neo.ClientError.Transaction.InvalidBookmark",
    "Neo.ClientError.Transaction.InvalidBookmarkMixture",
)
_OVERLOADED = ("Neo.TransientError.General.", "Neo.TransientError.Database.", "Neo.TransientError.Cluster.")
_DATABASE_AWAY = ("Neo.ClientError.Database.DatabaseNotFound", "Neo.DatabaseError.Database.")


def is_passing(error: neo.DriverError | neo.Neo4jError) -> bool:
    """Whether the same transaction may succeed when it is run again.

    Besides what the driver calls retryable: another transaction deleted a node between this one's look-up and its use
    of it. Our statements name nodes by properties only, so the next look-up does not find it.
    """
    return error.is_retryable() or (isinstance(error, neo.Neo4jError) and error.code in _DELETED_MEANWHILE)


def unavailable(message: str = "the graph database does not answer: try again") -> Unavailable:
    """The error for a graph that is away."""
    return Unavailable(ErrorReason.GRAPH_UNAVAILABLE, message, retry_delay_ms=RETRY_DELAY_MS)


def deadline_passed() -> DeadlineExceeded:
    """The error for a statement that took longer than its limit and was ended."""
    return DeadlineExceeded(
        ErrorReason.DEADLINE_PASSED, "the graph statement took longer than its limit and was ended: allow more time"
    )


def revision_stale() -> Aborted:
    """The error for a revision that the server has not reached in time."""
    return Aborted(
        ErrorReason.REVISION_STALE,
        "the graph database has not reached the revision asked for: try again",
        retry_delay_ms=100,
    )


def to_domain(error: BaseException) -> GraphsvcError:
    """The domain error for whatever the driver raised.

    Args:
        error: an exception of the driver, of the network under it, or a domain error (returned as it is).

    Returns:
        Unavailable: no connection, a database that starts, stops or changes its leader, no memory, no free connection,
            credentials refused.
        Aborted: GRAPH_CONTENTION, deadlocks outlasted the retries; REVISION_STALE, a bookmark was not reached.
        DeadlineExceeded: the transaction's time ran out.
        InvalidArgument: REVISION_TOKEN_INVALID, a bookmark is no bookmark of this database.
        FailedPrecondition: SCHEMA_MISMATCH, the server is no Neo4j.
        Internal: anything else is a bug.
    """
    match error:
        case GraphsvcError():
            return error
        case neo.AuthError() | neo.Forbidden():
            return unavailable(
                "the graph database refuses the server's credentials: check GRAPHSVC_NEO4J_USER and _PASSWORD"
            )
        case neo.ServiceUnavailable() | neo.SessionExpired() | neo.DatabaseUnavailable() | neo.NotALeader():
            return unavailable()
        case neo.ForbiddenOnReadOnlyDatabase():
            return unavailable("the graph database takes no writes now: try again")
        case neo.ConnectionPoolError():
            return unavailable(
                "all connections to the graph database are busy: try again, or raise GRAPHSVC_NEO4J_POOL_SIZE"
            )
        case neo.UnsupportedServerProduct():
            return FailedPrecondition(
                ErrorReason.SCHEMA_MISMATCH,
                "the server at GRAPHSVC_NEO4J_URI is no Neo4j: graphsvc needs Neo4j 2026 or later",
            )
        case neo.Neo4jError():
            return _of_code(error)
        case neo.BrokenRecordError() | neo.SessionError() | neo.TransactionError() | neo.ResultError():
            return _internal()
        case TimeoutError():
            return deadline_passed()
        case OSError():
            return unavailable()
        case _:
            return _internal()


def _internal() -> Internal:
    return Internal(ErrorReason.INTERNAL_FAULT, "the graph statement failed")


def _of_code(error: neo.Neo4jError) -> GraphsvcError:
    code = error.code or ""
    if code in _TIMED_OUT:
        return deadline_passed()
    if code in _STALE:
        return revision_stale()
    if code in _BOOKMARK_INVALID:
        return InvalidArgument(
            ErrorReason.REVISION_TOKEN_INVALID,
            "the revision is none of this database's",
            field="consistency.at_least_as_fresh",
        )
    if code.startswith((*_OVERLOADED, *_DATABASE_AWAY)):
        return unavailable()
    if isinstance(error, neo.TransientError) or code in _DELETED_MEANWHILE:
        return Aborted(
            ErrorReason.GRAPH_CONTENTION, "lost against concurrent writes more often than there was time for: try again"
        )
    return _internal()
