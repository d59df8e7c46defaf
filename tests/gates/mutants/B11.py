"""Mutant: what is deferred is deleted."""

from __future__ import annotations

from typing import Any

import pytest

from graphsvc.domain.candidates import Disposition
from graphsvc.graph.feedback_store import GraphFeedbackStore

TESTS = "test_B11_"


def apply(patch: pytest.MonkeyPatch) -> None:
    real = GraphFeedbackStore.record_retrieval

    async def record_retrieval(self: GraphFeedbackStore, principal: Any, record: Any, timeout_ms: int) -> Any:
        written = await real(self, principal, record, timeout_ms)
        deferred = [one.unit_id for one in record.selections if one.disposition is not Disposition.SELECTED]
        driver: Any = self._driver._driver
        await driver.execute_query(
            "MATCH (u:ContextUnit {tenant_id: $tenant}) WHERE u.unit_id IN $ids DETACH DELETE u",
            tenant=principal.tenant_id,
            ids=deferred,
        )
        return written

    patch.setattr(GraphFeedbackStore, "record_retrieval", record_retrieval)
