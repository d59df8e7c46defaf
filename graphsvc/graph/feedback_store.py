"""Retrievals in Neo4j: what was selected, what was deferred, and what of it was never referenced.

Source: gates B2, B3, B13.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from graphsvc.domain.budget import Budget, Ledger
from graphsvc.domain.candidates import Disposition, Outcome
from graphsvc.domain.errors import ErrorReason, NotFound
from graphsvc.domain.tenancy import Principal
from graphsvc.graph.catalog import Catalog
from graphsvc.graph.driver import GraphDriver
from graphsvc.graph.requests import known_tenant
from graphsvc.graph.rows import to_caller, to_datetime
from graphsvc.graph.unit_store import caption_of, to_neo4j_vector
from graphsvc.ports import Clock, Read, ReadOptions, RetrievalRecord, Written

RETRIEVALS_LOOKED_AT = 50
"""How far back unreferenced deliveries count: older ones say little about the session's present work."""


class GraphFeedbackStore:
    """FeedbackStore on Neo4j; each method is one statement in one transaction.

    Args:
        driver: an open connection.
        catalog: all statements.
        clock: says which policies have expired.
    """

    def __init__(self, driver: GraphDriver, catalog: Catalog, clock: Clock) -> None:
        self._driver = driver
        self._clock = clock
        self._record = catalog["record_retrieval"]
        self._get = catalog["get_retrieval"]
        self._count = catalog["count_unreferenced"]

    async def record_retrieval(self, principal: Principal, record: RetrievalRecord, timeout_ms: int) -> Written[None]:
        """The revision that holds the (:Retrieval) node with its SELECTED and DEFERRED relationships.

        Units that were deleted meanwhile have no relationship.

        Raises:
            NotFound: TENANT_NOT_FOUND.
        """
        write = {
            "retrieval": _properties(principal, record),
            "embedding": None if record.embedding is None else to_neo4j_vector(record.embedding),
            "selections": [
                {
                    "unit_id": unit_id,
                    "relationship_type": "SELECTED" if disposition is Disposition.SELECTED else "DEFERRED",
                    "disposition": disposition.value,
                    "value": float(value),
                    "cost": cost,
                    "rank": rank,
                }
                # Sorted, so that concurrent retrievals of the same units lock them in the same order.
                for unit_id, disposition, value, cost, rank in sorted(record.selections)
            ],
        }
        params = {"tenant_id": principal.tenant_id, "write": write}
        rows, bookmarks = await self._driver.write(self._record, params, timeout_ms=timeout_ms)
        known_tenant(rows, principal.tenant_id)
        return Written(None, bookmarks)

    async def get_retrieval(
        self, principal: Principal, retrieval_id: str, options: ReadOptions
    ) -> Read[RetrievalRecord]:
        """A retrieval of the principal's own agent and session; selections by rank, of units it may still see.

        Raises:
            NotFound: RETRIEVAL_NOT_FOUND, absent or somebody else's.
        """
        rows, bookmarks = await self._driver.read(
            self._get,
            self._viewer(principal) | {"retrieval_id": retrieval_id},
            bookmarks=options.bookmarks,
            timeout_ms=options.timeout_ms,
        )
        if not rows:
            raise NotFound(
                ErrorReason.RETRIEVAL_NOT_FOUND,
                "the retrieval is absent or not of this agent and session",
                retrieval_id=retrieval_id,
            )
        selections = tuple(
            (unit_id, Disposition(disposition), value, cost, rank)
            for unit_id, disposition, value, cost, rank in sorted(rows[0]["selections"], key=lambda s: (s[4], s[0]))
        )
        return Read(_record(rows[0]["retrieval"], selections), bookmarks)

    async def count_unreferenced(self, principal: Principal, options: ReadOptions) -> Read[dict[str, int]]:
        """Times each unit was delivered, unreferenced, in the principal's last 50 retrievals of the session."""
        rows, bookmarks = await self._driver.read(
            self._count,
            self._viewer(principal) | {"retrieval_count": RETRIEVALS_LOOKED_AT},
            bookmarks=options.bookmarks,
            timeout_ms=options.timeout_ms,
        )
        return Read(dict(rows[0]["counts"]), bookmarks)

    def _viewer(self, principal: Principal) -> dict[str, Any]:
        return {
            "tenant_id": principal.tenant_id,
            "caller": to_caller(principal),
            "now": self._clock.now(),
        }


def _properties(principal: Principal, record: RetrievalRecord) -> dict[str, Any]:
    """The properties of a new (:Retrieval) node, tenant_id and embedding aside."""
    ledger, budget = record.ledger, record.ledger.budget
    return {
        "retrieval_id": record.retrieval_id,
        "agent_id": principal.agent_id,
        "session_id": principal.session_id,
        "query_text": record.query_text,
        "fingerprint": record.fingerprint,
        "task_id": record.task_id,
        "task_step": record.task_step,
        "strategy": record.strategy,
        "outcome": record.outcome.value,
        "retrieval_budget": budget.retrieval_budget,
        "total_step_budget": budget.total_step_budget,
        "harness_overhead": budget.harness_overhead,
        "reasoning_reserve": budget.reasoning_reserve,
        "ranking_charge": ledger.ranking_charge,
        "tokens_spent": ledger.tokens_spent,
        "candidates_selected": ledger.candidates_selected,
        "candidates_deferred": ledger.candidates_deferred,
        "budget_remaining": ledger.budget_remaining,
        "partial": record.partial,
        "created_time": record.created_time,
        "duration_ms": float(record.duration_ms),
        "payload_sha256": record.payload_sha256,
        "candidates_json": record.candidates_json,
        "caption": caption_of(record.query_text or record.task_id),
    }


def _record(
    properties: Mapping[str, Any], selections: tuple[tuple[str, Disposition, float, int, int], ...]
) -> RetrievalRecord:
    embedding = properties.get("embedding")
    return RetrievalRecord(
        retrieval_id=properties["retrieval_id"],
        query_text=properties["query_text"],
        fingerprint=properties["fingerprint"],
        embedding=None if embedding is None else np.asarray(embedding, dtype=np.float32),
        task_id=properties["task_id"],
        task_step=properties["task_step"],
        strategy=properties["strategy"],
        outcome=Outcome(properties["outcome"]),
        ledger=Ledger(
            budget=Budget(
                retrieval_budget=properties["retrieval_budget"],
                total_step_budget=properties.get("total_step_budget"),
                harness_overhead=properties["harness_overhead"],
                reasoning_reserve=properties["reasoning_reserve"],
            ),
            tokens_spent=properties["tokens_spent"],
            ranking_charge=properties["ranking_charge"],
            candidates_selected=properties["candidates_selected"],
            candidates_deferred=properties["candidates_deferred"],
        ),
        partial=properties["partial"],
        created_time=to_datetime(properties["created_time"]),
        duration_ms=properties["duration_ms"],
        payload_sha256=properties["payload_sha256"],
        candidates_json=properties["candidates_json"],
        selections=selections,
    )
