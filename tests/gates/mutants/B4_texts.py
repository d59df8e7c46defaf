"""Mutant: the harness's texts are not counted."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from graphsvc.services.retrievals import RetrievalUseCases

TESTS = "test_B4_texts_of_the_harness"


def apply(patch: pytest.MonkeyPatch) -> None:
    real = RetrievalUseCases._budget

    async def budget(self: RetrievalUseCases, query: Any, encoding: str) -> Any:
        without = dataclasses.replace(query, budget=dataclasses.replace(query.budget, harness_texts=()))
        return await real(self, without, encoding)

    patch.setattr(RetrievalUseCases, "_budget", budget)
