"""Mutant: phrases are counted over units that the caller may not see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from graphsvc.graph.feedback_store import GraphFeedbackStore
from graphsvc.ports import PhraseCounts, Read

TESTS = "test_B8_units_that_the_caller"


def apply(patch: pytest.MonkeyPatch) -> None:
    async def count_phrases(
        self: GraphFeedbackStore, principal: Any, phrases: Sequence[str], limit: int, options: Any
    ) -> Read[PhraseCounts]:
        driver: Any = self._driver._driver
        rows, _, _ = await driver.execute_query(
            "MATCH (u:ContextUnit {tenant_id: $tenant}) RETURN u.excerpt AS text", tenant=principal.tenant_id
        )
        texts = [row["text"].lower() for row in rows]
        return Read(PhraseCounts(len(texts), {phrase: sum(phrase in text for text in texts) for phrase in phrases}))

    patch.setattr(GraphFeedbackStore, "count_phrases", count_phrases)
