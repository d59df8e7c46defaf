"""Mutant: what belongs together is selected apart."""

from __future__ import annotations

from typing import Any

import pytest

from graphsvc.ranking import selection

TESTS = "test_B7_what_answers_one_tool_call or test_B7_a_chunk_goes_in"


def apply(patch: pytest.MonkeyPatch) -> None:
    def item(_: Any, unit_id: str) -> list[str]:
        return [unit_id]

    patch.setattr(selection._Run, "item", item)
