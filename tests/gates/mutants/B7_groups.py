"""Mutant: what belongs together is selected apart."""

from __future__ import annotations

from typing import Any

import pytest

from graphsvc.ranking import selection

TESTS = "test_B7_what_answers"


def apply(patch: pytest.MonkeyPatch) -> None:
    def item(_: Any, unit_id: str) -> list[str]:
        return [unit_id]

    patch.setattr(selection._Run, "item", item)
