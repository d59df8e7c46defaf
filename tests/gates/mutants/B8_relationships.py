"""Mutant: verdicts are answered and not kept."""

from __future__ import annotations

from typing import Any

import pytest

from graphsvc.graph.feedback_store import GraphFeedbackStore
from graphsvc.ports import Written

TESTS = "test_B8_verdicts_are"


def apply(patch: pytest.MonkeyPatch) -> None:
    async def record_outcome(
        self: GraphFeedbackStore, principal: Any, retrieval_id: str, outcomes: Any, fingerprint: str, request: Any
    ) -> Written[Any]:
        return Written(tuple(outcomes), ())

    patch.setattr(GraphFeedbackStore, "record_outcome", record_outcome)
