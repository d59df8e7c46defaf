"""Fixtures of the gates: services with a clock that the test sets, a second server process, raw stubs, a tokenizer.

With ``GATES_MUTANT=<id>`` in the environment the behaviour of that gate is switched off before anything starts; the
gate's tests must then fail (``python -m tests.gates.mutants``).
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import datetime

import pytest

from graphsvc.local.endpoints import StackEndpoints
from graphsvc.settings import WriteAcknowledgement
from tests.gates.independent_tokens import IndependentTokens
from tests.gates.mutants import apply_from_environment
from tests.gates.stubs import Stubs
from tests.support.server_process import running_server
from tests.support.service import Service, running_service, service_settings

apply_from_environment()


@dataclass(slots=True)
class SettableClock:
    """A clock that stands still until the test moves it."""

    moment: datetime

    def now(self) -> datetime:
        return self.moment


@dataclass(frozen=True, slots=True)
class FrozenService:
    """A service whose clock the test sets."""

    service: Service
    clock: SettableClock


@dataclass(frozen=True, slots=True)
class Twin:
    """A second server, in a process of its own, on the same database and bucket."""

    target: str
    pid: int


@pytest.fixture
def session_id() -> str:
    """A session that no other test uses."""
    return f"s-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IndependentTokens]:
    """Counts tokens without any code of the service."""
    with pytest.MonkeyPatch.context() as patch:
        yield IndependentTokens(tmp_path_factory.mktemp("vocabularies"), patch)


@pytest.fixture
async def stubs(service: Service) -> AsyncIterator[Stubs]:
    """Raw stubs on the shared service."""
    async with Stubs(service.target) as opened:
        yield opened


@pytest.fixture(scope="session")
async def frozen(
    store_endpoints: StackEndpoints, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[FrozenService]:
    """A service in this process whose clock the test sets, with its own state directory and bucket."""
    clock = SettableClock(datetime.fromisoformat("2026-03-01T12:00:00+00:00"))
    settings = service_settings(tmp_path_factory.mktemp("frozen"), query_timeout_ms=3_000)
    async with contextlib.AsyncExitStack() as exits:
        with pytest.MonkeyPatch.context() as patch:  # for the start of this service only: others keep the real clock
            patch.setattr("graphsvc.app.SystemClock", lambda: clock)
            running = await exits.enter_async_context(running_service(settings, store_endpoints))
        yield FrozenService(running, clock)


@pytest.fixture(scope="session")
async def twin(
    service: Service, store_endpoints: StackEndpoints, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Twin]:
    """A second server process on the database and the bucket of ``service``; it acknowledges after S3."""
    settings = service_settings(
        tmp_path_factory.mktemp("twin"),
        s3_bucket=service.serving.settings.s3_bucket,
        write_acknowledgement=WriteAcknowledgement.COLD,
    )
    async with running_server(settings, store_endpoints) as server:
        yield Twin(server.target, server.pid)
