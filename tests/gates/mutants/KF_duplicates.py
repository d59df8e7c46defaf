"""Mutant: copies of one content are candidates like any other."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from graphsvc.services import retrievals

TESTS = "test_KF_one_fact"


def apply(patch: pytest.MonkeyPatch) -> None:
    real = retrievals.select

    def select(candidates: Any, costs: Any, budget: Any, **options: Any) -> Any:
        apart = [
            dataclasses.replace(one, entry=dataclasses.replace(one.entry, content_sha256=one.entry.unit_id))
            for one in candidates
        ]
        return _as_they_were(real(apart, costs, budget, **options), candidates)

    patch.setattr(retrievals, "select", select)


def _as_they_were(selection: Any, candidates: Any) -> Any:
    known = {one.entry.unit_id: one for one in candidates}
    ranked = tuple(dataclasses.replace(one, candidate=known[one.candidate.entry.unit_id]) for one in selection.ranked)
    return dataclasses.replace(selection, ranked=ranked)
