"""Mutant: ranking costs nothing."""

from __future__ import annotations

import pytest

from graphsvc.ranking.selection import _Run


class _Free(_Run):
    """A run that forgets what ranking costs."""

    @property
    def charge(self) -> int:
        return 0

    @charge.setter
    def charge(self, value: int) -> None:
        del value


TESTS = "test_B12_ranking_is_charged"


def apply(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("graphsvc.ranking.selection._Run", _Free)
