"""Mutant: the log forgets the contributions."""

from __future__ import annotations

import pytest

from graphsvc.services import retrieval_log

TESTS = "test_B3_ranking_and_contributions"


def apply(patch: pytest.MonkeyPatch) -> None:
    real = retrieval_log._row

    def row(one: retrieval_log.RankedCandidate) -> list[object]:
        values = real(one)
        return [[] if index == 10 else value for index, value in enumerate(values)]

    patch.setattr(retrieval_log, "_row", row)
