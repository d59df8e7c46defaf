"""Mutant: phrases count however many units hold them."""

from __future__ import annotations

from typing import Any

import pytest

from graphsvc.ports import PhraseCounts
from graphsvc.ranking import references

TESTS = "test_B8_phrases_that_many"


def apply(patch: pytest.MonkeyPatch) -> None:
    real = references.phrases_found

    def phrases_found(candidates: Any, counts: PhraseCounts) -> tuple[str, ...]:
        return real(candidates, PhraseCounts(counts.unit_count, {}))

    patch.setattr("graphsvc.services.feedback.phrases_found", phrases_found)
