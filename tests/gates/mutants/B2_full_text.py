"""Mutant: full-text search finds nothing."""

from __future__ import annotations

import pytest

TESTS = "test_B2_topic_match_by_full_text"


def apply(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("graphsvc.graph.context_graph.text_clause", lambda text: None)
