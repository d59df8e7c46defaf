"""Mutant: phrases count that another delivered unit holds too."""

from __future__ import annotations

from typing import Any

import pytest

from graphsvc.ranking import references

TESTS = "test_B8_phrases_of_another"


def apply(patch: pytest.MonkeyPatch) -> None:
    real = references._candidate_phrases

    def candidate_phrases(output: str, query_text: str, units: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for unit in units:
            found |= real(output, query_text, [unit])
        return found

    patch.setattr(references, "_candidate_phrases", candidate_phrases)
