"""Mutant: queries have no vector."""

from __future__ import annotations

import pytest

from graphsvc.services.retrievals import RetrievalUseCases

TESTS = "test_B2_topic_match_by_vector"


def apply(patch: pytest.MonkeyPatch) -> None:
    async def no_embedding(self: object, query: object) -> None:
        return None

    patch.setattr(RetrievalUseCases, "_query_embedding", no_embedding)
