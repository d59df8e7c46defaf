"""The first line of every write: is the tenant known, and was this request carried out before?

The write statements begin with MERGE of (:Request), so concurrent duplicates wait for each other at its unique index,
and put the result beside it in the same transaction. Source: product.md, 5 (twice means once).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from neo4j import Record

from graphsvc.domain.errors import ErrorReason, InvalidArgument, NotFound
from graphsvc.domain.tenancy import Principal
from graphsvc.graph.rows import to_caller
from graphsvc.ports import WriteRequest


def write_parameters(principal: Principal, request: WriteRequest, now: datetime, **write: object) -> dict[str, Any]:
    """The parameters of an idempotent write statement.

    What differs in size from call to call goes into maps: Neo4j plans a statement again for every magnitude of a list
    or string parameter (0.2 to 2 s each), but not for what is inside a map.

    Args:
        principal: who writes.
        request: identity of the write.
        now: time of the write.
        write: what is written, by name.
    """
    return {
        "tenant_id": principal.tenant_id,
        "caller": to_caller(principal),
        "now": now,
        "write": {"request_id": request.request_id, "fingerprint": request.fingerprint, **write},
    }


def known_tenant(rows: Sequence[Record], tenant_id: str) -> Record:
    """The one row of a write statement, which begins with a MATCH of the tenant.

    Raises:
        NotFound: TENANT_NOT_FOUND, there is none.
    """
    if not rows:
        raise NotFound(
            ErrorReason.TENANT_NOT_FOUND,
            "the tenant is not known: make it with `graphsvc key create`",
            tenant_id=tenant_id,
        )
    return rows[0]


def request_row(rows: Sequence[Record], principal: Principal, request: WriteRequest) -> Record:
    """The one row of an idempotent write; its ``replayed_json`` is set when the request had been carried out before.

    Raises:
        NotFound: TENANT_NOT_FOUND.
        InvalidArgument: REQUEST_ID_REUSED, the request_id stands for another request.
    """
    row = known_tenant(rows, principal.tenant_id)
    if row["stored_fingerprint"] != request.fingerprint:
        raise InvalidArgument(
            ErrorReason.REQUEST_ID_REUSED,
            "the request_id was used for another request: choose a new one",
            field="request_id",
            request_id=request.request_id,
        )
    return row
