"""Mutant: A call that is given up goes on in the database."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from graphsvc.graph.catalog import Statement
from graphsvc.graph.driver import GraphDriver

TESTS = "test_consistency_a_deadline_ends_the_reading"


def apply(patch: pytest.MonkeyPatch) -> None:
    real = GraphDriver.read

    async def read(self: GraphDriver, statement: Statement, params: Any, **options: Any) -> Any:
        options["timeout_ms"] = 60_000
        return await asyncio.shield(real(self, statement, params, **options))

    patch.setattr(GraphDriver, "read", read)
