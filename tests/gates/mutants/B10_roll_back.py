"""Mutant: a roll-back is answered and not carried out."""

from __future__ import annotations

from typing import Any

import pytest

from graphsvc.graph.predictor_store import GraphPredictorStore
from graphsvc.ports import ReadOptions, Written

TESTS = "test_B10_any_version"


def apply(patch: pytest.MonkeyPatch) -> None:
    async def use_predictor(self: GraphPredictorStore, principal: Any, version: int, request: Any) -> Written[int]:
        history = await self.list_predictors(principal.tenant_id, ReadOptions(timeout_ms=10_000))
        return Written(history.result.in_use, history.bookmarks)

    patch.setattr(GraphPredictorStore, "use_predictor", use_predictor)
