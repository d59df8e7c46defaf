"""Mutant: A key may do everything, whatever its roles."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest

from graphsvc.domain.tenancy import Role
from graphsvc.ports import ApiKey
from graphsvc.server.interceptors import CallInterceptor

TESTS = "test_N5_"


def apply(patch: pytest.MonkeyPatch) -> None:
    real = CallInterceptor._identify

    async def identify(self: CallInterceptor, metadata: Mapping[str, str]) -> ApiKey:
        return dataclasses.replace(await real(self, metadata), roles=frozenset(Role))

    patch.setattr(CallInterceptor, "_identify", identify)
