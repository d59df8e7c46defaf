"""Mutant: deleting a unit leaves its content behind."""

from __future__ import annotations

import pytest

from graphsvc.tiers.store import ContentTiers

TESTS = "test_KF_a_deleted_unit"


def apply(patch: pytest.MonkeyPatch) -> None:
    async def delete(self: ContentTiers, keys: object) -> None:
        return None

    patch.setattr(ContentTiers, "delete", delete)
