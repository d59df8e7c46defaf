"""Mutant: phrases of the query count."""

from __future__ import annotations

from typing import Any

import pytest

from graphsvc.ranking import references

TESTS = "test_B8_phrases_of_the_query"


def apply(patch: pytest.MonkeyPatch) -> None:
    real = references.find_traces

    def find_traces(output: str, query_text: str, units: Any) -> references.Traces:
        return real(output, "", units)

    patch.setattr("graphsvc.services.feedback.find_traces", find_traces)
