"""Mutant: edges and turns of the best hits are not followed."""

from __future__ import annotations

from typing import Any

import pytest

from graphsvc.ports import Neighbours
from graphsvc.services import strategies

TESTS = "test_B2_candidates_come_from"


def apply(patch: pytest.MonkeyPatch) -> None:
    async def neighbours(*_: Any) -> Neighbours:
        return Neighbours(units=(), neighbourhoods={})

    patch.setattr(strategies, "_neighbours", neighbours)
