"""Mutant: pages begin at a place counted in entries."""

from __future__ import annotations

import pytest

TESTS = "test_consistency_pages_are_whole"


def apply(patch: pytest.MonkeyPatch) -> None:
    from graphsvc.services.contexts import ContextUseCases

    real = ContextUseCases.list

    async def listing(
        self: ContextUseCases, principal: object, where: object, after: object, limit: int, **options: object
    ):  # type: ignore[no-untyped-def]
        found = await real(self, principal, where, after, limit, **options)  # type: ignore[arg-type]
        return found[1:] if after else found

    patch.setattr(ContextUseCases, "list", listing)
