"""Mutant: every query is taken for one about a topic."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from graphsvc.services import retrievals

TESTS = "test_N6_"


def apply(patch: pytest.MonkeyPatch) -> None:
    real = retrievals.identify

    async def identify(graph: Any, feedback: Any, principal: Any, query: Any, **options: Any) -> Any:
        return await real(graph, feedback, principal, dataclasses.replace(query, task_id=""), **options)

    patch.setattr(retrievals, "identify", identify)
