"""Retrievals in Neo4j: what was selected, what was deferred, and what of it was referenced.

Source: gates B2, B3, B8, B13.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from neo4j import Record

from graphsvc.domain.budget import Budget, Ledger
from graphsvc.domain.candidates import Disposition, Outcome
from graphsvc.domain.errors import AlreadyExists, ErrorReason, NotFound
from graphsvc.domain.outcomes import ReferenceMethod, UnitOutcome
from graphsvc.domain.tenancy import Principal
from graphsvc.domain.units import EdgeType
from graphsvc.graph.catalog import Catalog
from graphsvc.graph.driver import GraphDriver
from graphsvc.graph.query_text import phrase_clause
from graphsvc.graph.requests import known_tenant, request_row, write_parameters
from graphsvc.graph.rows import to_caller, to_datetime, to_predictor
from graphsvc.graph.scope_terms import CURRENT_TERM, own_clause, tenant_term
from graphsvc.graph.unit_store import caption_of, to_neo4j_vector
from graphsvc.ports import (
    Clock,
    DeliveredUnit,
    Delivery,
    LoggedSelection,
    PhraseCounts,
    Read,
    ReadOptions,
    RetrievalRecord,
    RetrievalStep,
    SessionHistory,
    WriteRequest,
    Written,
)

RETRIEVALS_LOOKED_AT = 50
"""How far back unreferenced deliveries count: older ones say little about the session's present work."""
DEFERRALS_LOOKED_AT = 8
"""How far back deferrals are read: four earlier steps decide (gate B11), each of which may have had two retrievals."""
SCOPE_LIMIT = 100
"""Scopes in which phrases are counted: a Lucene query takes 1,024 clauses."""


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
        self._read_session = catalog["read_session"]
        self._get_delivery = catalog["get_delivery"]
        self._count_phrases = catalog["count_phrases"]
        self._record_outcome = catalog["record_outcome"]

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
                    "unit_id": one.unit_id,
                    "relationship_type": "SELECTED" if one.disposition is Disposition.SELECTED else "DEFERRED",
                    "disposition": one.disposition.value,
                    "value": float(one.value),
                    "cost": one.cost,
                    "rank": one.rank,
                    "hop_count": one.hop_count,
                    "edge_types": [edge_type.value for edge_type in one.edge_types],
                    "features": list(one.features),
                }
                # Sorted, so that concurrent retrievals of the same units lock them in the same order.
                for one in sorted(record.selections, key=lambda one: one.unit_id)
            ],
            "lowered": sorted(record.lowered_ids),
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
            raise _no_retrieval(retrieval_id)
        selections = tuple(
            LoggedSelection(
                unit_id=unit_id,
                disposition=Disposition(disposition),
                value=value,
                cost=cost,
                rank=rank,
                hop_count=hop_count,
                edge_types=tuple(EdgeType(edge_type) for edge_type in edge_types),
                features=tuple(features),
            )
            for unit_id, disposition, value, cost, rank, hop_count, edge_types, features in sorted(
                rows[0]["selections"], key=lambda s: (s[4], s[0])
            )
        )
        return Read(_record(rows[0]["retrieval"], selections), bookmarks)

    async def read_session(self, principal: Principal, options: ReadOptions) -> Read[SessionHistory]:
        """What the principal's last retrievals of the session say about units, and the tenant's predictor."""
        rows, bookmarks = await self._driver.read(
            self._read_session,
            self._viewer(principal)
            | {"session": {"retrieval_count": RETRIEVALS_LOOKED_AT, "deferral_count": DEFERRALS_LOOKED_AT}},
            bookmarks=options.bookmarks,
            timeout_ms=options.timeout_ms,
        )
        row = rows[0]
        predictor = row["predictor"]
        history = SessionHistory(
            unreferenced=dict(row["counts"]),
            steps=tuple(RetrievalStep(step, frozenset(deferred), frozenset(s)) for step, deferred, s in row["steps"]),
            lowered=frozenset(row["lowered"]),
            predictor=None if predictor is None else to_predictor(predictor),
        )
        return Read(history, bookmarks)

    async def get_delivery(self, principal: Principal, retrieval_id: str, options: ReadOptions) -> Read[Delivery]:
        """What a retrieval of the principal's own agent and session delivered, of units that are still visible.

        Raises:
            NotFound: RETRIEVAL_NOT_FOUND, absent or somebody else's.
        """
        rows, bookmarks = await self._driver.read(
            self._get_delivery,
            self._viewer(principal) | {"delivery": {"retrieval_id": retrieval_id}},
            bookmarks=options.bookmarks,
            timeout_ms=options.timeout_ms,
        )
        if not rows:
            raise _no_retrieval(retrieval_id)
        return Read(_delivery(retrieval_id, rows[0]), bookmarks)

    async def count_phrases(
        self, principal: Principal, phrases: Sequence[str], limit: int, options: ReadOptions
    ) -> Read[PhraseCounts]:
        """How many visible units there are and how many hold each phrase, each counted up to ``limit``."""
        wanted = [{"index": "unit_text_english", "clause": ""}]
        for phrase in phrases:
            index, clause = phrase_clause(phrase)
            wanted.append({"index": index, "clause": clause})
        search = {
            "own_clause": own_clause(principal.tenant_id, principal.agent_id, principal.session_id),
            "tenant_clause": f"+scope_terms:{tenant_term(principal.tenant_id)}^0 +scope_terms:{CURRENT_TERM}^0",
            "phrases": wanted,
            "limit": limit,
            "scope_limit": SCOPE_LIMIT,
        }
        rows, bookmarks = await self._driver.read(
            self._count_phrases,
            self._viewer(principal) | {"search": search},
            bookmarks=options.bookmarks,
            timeout_ms=options.timeout_ms,
        )
        every, *holders = rows[0]["counts"]
        return Read(PhraseCounts(every, dict(zip(phrases, holders, strict=True))), bookmarks)

    async def record_outcome(
        self,
        principal: Principal,
        retrieval_id: str,
        outcomes: Sequence[UnitOutcome],
        report_fingerprint: str,
        request: WriteRequest,
    ) -> Written[tuple[UnitOutcome, ...]]:
        """The verdicts that stand, in payload order; replayed when the same report had given them before.

        Both statements run in one transaction. Units that were deleted meanwhile have no verdict.

        Raises:
            NotFound: RETRIEVAL_NOT_FOUND; TENANT_NOT_FOUND.
            AlreadyExists: OUTCOME_DIFFERS.
            InvalidArgument: REQUEST_ID_REUSED.
        """
        verdicts = {
            one.unit_id: {
                "relationship_type": "REFERENCED" if one.referenced else "IGNORED",
                "methods": [method.value for method in one.methods],
                "evidence": one.evidence,
            }
            for one in outcomes
        }
        params = write_parameters(
            principal,
            request,
            self._clock.now(),
            retrieval_id=retrieval_id,
            report_fingerprint=report_fingerprint,
            verdicts=verdicts,
        )

        def check(position: int, rows: list[Record]) -> None:
            if position:
                return
            row = request_row(rows, principal, request)
            if row["report_fingerprint"] is None:
                raise _no_retrieval(retrieval_id)
            if row["report_fingerprint"] != report_fingerprint:
                raise AlreadyExists(
                    ErrorReason.OUTCOME_DIFFERS,
                    "the retrieval has an outcome from another report: the first one stands",
                    retrieval_id=retrieval_id,
                )

        rows, bookmarks = await self._driver.write_many(
            [
                (self._record_outcome, params),
                (self._get_delivery, self._viewer(principal) | {"delivery": {"retrieval_id": retrieval_id}}),
            ],
            timeout_ms=request.timeout_ms,
            check=check,
        )
        stored = _delivery(retrieval_id, rows[1][0]).outcomes
        return Written(stored, bookmarks, replayed=not rows[0][0]["is_new"])

    def _viewer(self, principal: Principal) -> dict[str, Any]:
        return {
            "tenant_id": principal.tenant_id,
            "caller": to_caller(principal),
            "now": self._clock.now(),
        }


def _no_retrieval(retrieval_id: str) -> NotFound:
    return NotFound(
        ErrorReason.RETRIEVAL_NOT_FOUND,
        "the retrieval is absent or not of this agent and session",
        retrieval_id=retrieval_id,
    )


def _delivery(retrieval_id: str, row: Record) -> Delivery:
    """A row of get_delivery, in payload order."""
    rows = sorted(row["units"], key=lambda values: (-values[2], values[0]))
    return Delivery(
        retrieval_id=retrieval_id,
        query_text=row["query_text"],
        units=tuple(DeliveredUnit(unit_id, digest) for unit_id, digest, *_ in rows),
        report_fingerprint=row["report_fingerprint"] or "",
        outcomes=tuple(
            UnitOutcome(unit_id, tuple(ReferenceMethod(method) for method in methods), evidence)
            for unit_id, _, _, methods, evidence in rows
            if methods is not None
        ),
    )


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
        "threshold_factor": budget.threshold_factor,
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
        "deferred_ids": sorted(record.deferred_ids),
        "feature_names": list(record.feature_names),
        "predictor_version": record.predictor_version,
        "caption": caption_of(record.query_text or record.task_id),
    }


def _record(properties: Mapping[str, Any], selections: tuple[LoggedSelection, ...]) -> RetrievalRecord:
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
                threshold_factor=properties["threshold_factor"],
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
        deferred_ids=tuple(properties["deferred_ids"]),
        feature_names=tuple(properties["feature_names"]),
        predictor_version=properties["predictor_version"],
    )
