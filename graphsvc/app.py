"""The composition root: settings in, running server out. The only module that knows all the others.

Source: design.md, Layout.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import entry_points
from pathlib import Path
from typing import cast

import numpy as np
import structlog

from graphsvc.domain.budget import Budget, Ledger
from graphsvc.domain.candidates import NO_TERMS, Disposition, Outcome
from graphsvc.domain.errors import ErrorReason, FailedPrecondition, GraphsvcError, InvalidArgument, NotFound
from graphsvc.domain.outcomes import UnitOutcome
from graphsvc.domain.tenancy import Principal, Role
from graphsvc.domain.units import ContextUnit, ContextUnitKind
from graphsvc.graph.catalog import Catalog, load_catalog
from graphsvc.graph.context_graph import Neo4jContextGraph
from graphsvc.graph.driver import GraphDriver
from graphsvc.graph.feedback_store import GraphFeedbackStore
from graphsvc.graph.predictor_store import GraphPredictorStore
from graphsvc.graph.schema import apply as apply_schema
from graphsvc.graph.tenant_store import GraphTenantStore, load_service_secret
from graphsvc.graph.unit_store import GraphUnitStore
from graphsvc.local.endpoints import StackEndpoints
from graphsvc.local.files import write_private
from graphsvc.local.service_file import local_key_path
from graphsvc.ports import (
    DescriptionQuery,
    EntailmentScorer,
    LoggedSelection,
    NeighbourQuery,
    NewUnit,
    ReadOptions,
    RecentQuery,
    RetrievalRecord,
    TopicQuery,
    Traversal,
    UnitFilter,
    VendorAdapter,
    WriteRequest,
)
from graphsvc.ranking.embedding import make_embedder
from graphsvc.ranking.selection import Thresholds
from graphsvc.ranking.tokens import TiktokenCounter
from graphsvc.server.server import RunningServer, build_server
from graphsvc.services.calibration import CalibrationSettings, CalibrationUseCases
from graphsvc.services.contexts import ContextUseCases
from graphsvc.services.feedback import FeedbackUseCases
from graphsvc.services.reconciler import Reconciler
from graphsvc.services.registry import RegistryUseCases
from graphsvc.services.retrievals import RetrievalSettings, RetrievalUseCases
from graphsvc.services.strategies import Limits
from graphsvc.settings import Settings
from graphsvc.telemetry import describe_fault
from graphsvc.tiers.store import ContentTiers, open_tier_store

LOCAL_TENANT = "local"
LOCAL_AGENT = "me"
ADAPTER_GROUP = "graphsvc.adapters"
ENTAILMENT_GROUP = "graphsvc.entailment"
DEFAULT_ADAPTER = "plain_text"
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
"""From malloc.h."""
_LARGE_BLOCK_BYTES = 256 * 2**10
GIVE_BACK_INTERVAL_S = 30.0
"""How often memory that is free goes back to the system."""
WARM_ROUNDS = 3
"""Runs of each statement before SERVING: the first plans, the second still compiles (cypher_perf, pitfall 10)."""
WARM_TENANTS = ("graphsvc-warm-up", "warm-up", "w")
"""Neo4j plans a statement once for each class of a text parameter's length: 11 characters and more, 2 to 10, and 1."""

_log = structlog.get_logger("graphsvc.app")


class SystemClock:
    """The machine's time, never going back within a process."""

    def __init__(self) -> None:
        self._last = datetime.min.replace(tzinfo=UTC)

    def now(self) -> datetime:
        """The current time, aware, in UTC."""
        self._last = max(self._last, datetime.now(UTC))
        return self._last


@dataclass(frozen=True, slots=True)
class GraphStores:
    """The stores that live in Neo4j, schema applied."""

    driver: GraphDriver
    catalog: Catalog
    units: GraphUnitStore
    graph: Neo4jContextGraph
    feedback: GraphFeedbackStore
    predictors: GraphPredictorStore
    tenants: GraphTenantStore
    registry: RegistryUseCases


@dataclass(frozen=True, slots=True)
class Serving:
    """A server that answers.

    Attributes:
        target: address for a client, host:port.
    """

    target: str
    settings: Settings
    server: RunningServer
    stores: GraphStores


@contextlib.asynccontextmanager
async def open_stores(settings: Settings, endpoints: StackEndpoints | None = None) -> AsyncGenerator[GraphStores]:
    """The graph stores, connected, with every constraint and index online.

    Args:
        settings: neo4j_uri and its user and password are used when there are no endpoints.
        endpoints: the local stack's, if it runs.

    Raises:
        FailedPrecondition: SCHEMA_MISMATCH.
        Unavailable: GRAPH_UNAVAILABLE.
    """
    if endpoints is not None and settings.neo4j_uri is None:
        uri, user, password = endpoints.neo4j_uri, endpoints.neo4j_user, endpoints.neo4j_password
    elif settings.neo4j_uri is not None:
        secret = settings.neo4j_password
        uri, user, password = settings.neo4j_uri, settings.neo4j_user, secret.get_secret_value() if secret else None
    else:
        raise FailedPrecondition(
            ErrorReason.GRAPH_UNAVAILABLE,
            "no Neo4j: run `graphsvc up`, which starts one, or set GRAPHSVC_NEO4J_URI",
        )
    catalog = load_catalog()
    async with GraphDriver(
        uri, user, password, database=settings.neo4j_database, pool_size=settings.neo4j_pool_size
    ) as driver:
        await apply_schema(driver, catalog, dimensions=settings.embedding_dimensions)
        clock = SystemClock()
        tenants = GraphTenantStore(driver, catalog, clock)
        yield GraphStores(
            driver=driver,
            catalog=catalog,
            units=GraphUnitStore(driver, catalog, clock),
            graph=Neo4jContextGraph(driver, catalog, clock),
            feedback=GraphFeedbackStore(driver, catalog, clock),
            predictors=GraphPredictorStore(driver, catalog, clock),
            tenants=tenants,
            registry=RegistryUseCases(tenants, clock),
        )


@contextlib.asynccontextmanager
async def open_tiers(settings: Settings, endpoints: StackEndpoints | None = None) -> AsyncGenerator[ContentTiers]:
    """The content tiers, with the outbox draining.

    Raises:
        FailedPrecondition: COLD_STORE_UNAVAILABLE, no S3 endpoint is known.
    """
    if settings.s3_endpoint is not None:
        secret = settings.s3_secret_key
        if settings.s3_access_key is None or secret is None:
            raise InvalidArgument(
                ErrorReason.SETTING_INVALID,
                "GRAPHSVC_S3_ENDPOINT needs GRAPHSVC_S3_ACCESS_KEY and GRAPHSVC_S3_SECRET_KEY",
            )
        where = (settings.s3_endpoint, settings.s3_access_key, secret.get_secret_value())
    elif endpoints is not None:
        where = (endpoints.s3_endpoint, endpoints.s3_access_key, endpoints.s3_secret_key)
    else:
        raise FailedPrecondition(
            ErrorReason.COLD_STORE_UNAVAILABLE,
            "no S3: run `graphsvc up`, which starts one, or set GRAPHSVC_S3_ENDPOINT, _ACCESS_KEY and _SECRET_KEY",
        )
    tiers = open_tier_store(
        settings, s3_endpoint=where[0], s3_access_key=where[1], s3_secret_key=where[2], clock=SystemClock()
    )
    await tiers.start()
    try:
        yield tiers
    finally:
        await tiers.aclose()


@contextlib.asynccontextmanager
async def serving(settings: Settings, endpoints: StackEndpoints | None = None) -> AsyncGenerator[Serving]:
    """A server that answers, until the block is left; it then drains and stops.

    Raises:
        GraphsvcError: a store cannot be reached or does not fit the settings.
    """
    _configure_heap()
    clock = SystemClock()
    counter = TiktokenCounter(settings.cache_dir)
    embedder = make_embedder(settings)
    async with open_stores(settings, endpoints) as stores, open_tiers(settings, endpoints) as tiers:
        contexts = ContextUseCases(stores.units, tiers, embedder, counter, clock)
        retrievals = RetrievalUseCases(
            graph=stores.graph,
            feedback=stores.feedback,
            tiers=tiers,
            embedder=embedder,
            counter=counter,
            adapter=load_adapters()[DEFAULT_ADAPTER],
            clock=clock,
            settings=retrieval_settings(settings),
        )
        calibration = CalibrationUseCases(
            stores.predictors,
            clock,
            CalibrationSettings(settings.recalibration_retrievals, settings.recalibration_interval_s),
        )
        server = await build_server(
            settings,
            contexts=contexts,
            retrievals=retrievals,
            feedback=FeedbackUseCases(stores.feedback, tiers, load_entailment(settings.entailment)),
            calibration=calibration,
            registry=stores.registry,
            service_secret=await load_service_secret(stores.driver, stores.catalog),
        )
        reconciler = Reconciler(stores.units, tiers, clock, grace_s=settings.reconcile_grace_s)
        upkeep = asyncio.gather(
            _reconcile_forever(reconciler, settings.reconcile_interval_s),
            _give_back_forever(),
            _recalibrate_forever(calibration, settings.recalibration_check_s),
        )
        try:
            await warm_statements(stores, embedder_dimensions=embedder.dimensions)
            # What start-up has made stays: looking through it at every full collection would stop the process for long.
            gc.collect()
            gc.freeze()
            _trim_heap()
            await server.set_serving()
            host = settings.grpc_host if ":" not in settings.grpc_host else f"[{settings.grpc_host}]"
            yield Serving(f"{host}:{server.port}", settings, server, stores)
        finally:
            gc.unfreeze()
            upkeep.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await upkeep
            await server.stop(grace=5.0)


async def serve(
    settings: Settings, endpoints: StackEndpoints | None = None, ready: Callable[[Serving], None] | None = None
) -> None:
    """Returns after SIGINT, SIGTERM or cancellation, everything drained and closed.

    Args:
        settings: what to serve and where.
        endpoints: the local stack's, if it runs.
        ready: called once the server answers.
    """
    async with stop_signal() as stopped, serving(settings, endpoints) as running:
        if ready is not None:
            ready(running)
        await stopped.wait()


@contextlib.asynccontextmanager
async def stop_signal() -> AsyncGenerator[asyncio.Event]:
    """An event that SIGINT or SIGTERM sets while the block runs."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stopped.set)
    try:
        yield stopped
    finally:
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(name)


def load_adapters() -> Mapping[str, VendorAdapter]:
    """The vendor adapters by name, found through the entry-point group ``graphsvc.adapters``.

    Raises:
        FailedPrecondition: SETTING_INVALID, the installation lacks the plain-text adapter.
    """
    adapters = {
        point.name: cast("Callable[[], VendorAdapter]", point.load())() for point in entry_points(group=ADAPTER_GROUP)
    }
    if DEFAULT_ADAPTER not in adapters:
        raise FailedPrecondition(
            ErrorReason.SETTING_INVALID,
            f"no adapter {DEFAULT_ADAPTER} is installed: install graphsvc as a package (pip install graphsvc)",
        )
    return adapters


def load_entailment(name: str) -> EntailmentScorer | None:
    """The entailment plug-in of this name, found through the entry-point group ``graphsvc.entailment``.

    None without a name, and, told in the log, when it is not installed or does not load: references are then detected
    by the other methods.
    """
    if not name:
        return None
    points = entry_points(group=ENTAILMENT_GROUP, name=name)
    if not points:
        _log.warning("entailment_absent", plugin=name)
        return None
    try:
        return cast("Callable[[], EntailmentScorer]", next(iter(points)).load())()
    except Exception as error:  # foreign code: whatever it raises, the service starts
        _log.warning("entailment_broken", plugin=name, fault=describe_fault(error))
        return None


def retrieval_settings(settings: Settings) -> RetrievalSettings:
    """What of the settings a retrieval needs."""
    return RetrievalSettings(
        thresholds=Thresholds(
            min_retrieval_budget=settings.min_retrieval_budget,
            min_value_threshold=settings.min_value_threshold,
            min_value_probability=settings.min_value_probability,
        ),
        limits=Limits(
            max_candidates=settings.max_candidates,
            hub_degree_cap=settings.hub_degree_cap,
            scan_limit=settings.scan_limit,
        ),
        reasoning_reserve_ratio=settings.reasoning_reserve_ratio,
        concurrent_retrievals=settings.concurrent_retrievals,
        query_timeout_ms=settings.query_timeout_ms,
    )


async def warm_statements(stores: GraphStores, *, embedder_dimensions: int) -> None:
    """Returns when every statement that a caller waits for has been planned and compiled.

    The tenant does not exist, so reads find nothing and writes are refused; the plans are the same.
    """
    for tenant_id, rounds in zip(WARM_TENANTS, (WARM_ROUNDS, 1, 1), strict=True):
        for _ in range(rounds):
            await _run_statements(stores, Principal(tenant_id, "nobody", "none", frozenset()), embedder_dimensions)


async def _run_statements(stores: GraphStores, nobody: Principal, embedder_dimensions: int) -> None:
    options = ReadOptions(timeout_ms=300_000)
    request = WriteRequest("warm-up", "0" * 64, options.timeout_ms)
    now = SystemClock().now()
    vector = np.full(embedder_dimensions, embedder_dimensions**-0.5, np.float32) if embedder_dimensions else None
    kind = ContextUnitKind.OBSERVATION
    unit = ContextUnit("none", "none", nobody.tenant_id, nobody.agent_id, "none", kind, "none", now, now)
    record = RetrievalRecord(
        retrieval_id="none",
        query_text="warm up",
        fingerprint="",
        embedding=vector,
        task_id="",
        task_step=0,
        strategy="none",
        outcome=Outcome.NOTHING_MATCHED,
        ledger=Ledger(Budget(0), 0, 0, 0, 0),
        partial=False,
        created_time=now,
        duration_ms=0.0,
        payload_sha256="",
        candidates_json="[]",
        selections=(LoggedSelection("none", Disposition.SELECTED, 0.5, 1, 1, features=(0.5,)),),
    )

    async def refused(write: Awaitable[object]) -> None:
        with contextlib.suppress(NotFound):
            await write

    # First and alone: its time limit is that of a call.
    await stores.tenants.find_key("none")
    # Together: planning takes seconds of one core each.
    await asyncio.gather(
        stores.graph.expand(nobody, Traversal(task_ids=("none",), unit_ids=("none",)), options),
        stores.graph.search(nobody, TopicQuery("warm up", vector), options),
        stores.graph.neighbours(nobody, NeighbourQuery(("none",), ("none",)), options),
        stores.graph.describe(nobody, DescriptionQuery(("none",), NO_TERMS, vector), options),
        stores.graph.list_recent(nobody, RecentQuery(1), options),
        stores.units.list_units(nobody, UnitFilter(), None, 1, options),
        stores.units.get_units(nobody, ["none"], options),
        stores.feedback.read_session(nobody, options),
        refused(stores.feedback.get_delivery(nobody, "none", options)),
        stores.feedback.count_phrases(nobody, ["warm up"], 1, options),
        refused(stores.feedback.record_outcome(nobody, "none", [UnitOutcome("none", ())], "", request)),
        refused(stores.units.put_units(nobody, [NewUnit(unit, vector, "", (), "")], request)),
        refused(stores.units.delete_units(nobody, ["none"], request)),
        refused(stores.feedback.record_retrieval(nobody, record, options.timeout_ms)),
    )


async def ensure_local_key(stores: GraphStores, state_dir: Path) -> str:
    """The API key of the local stack's own tenant and agent, made at the first call, kept in a file of mode 0600.

    A key in the file that the database does not know (its data were removed) is replaced.
    """
    path = local_key_path(state_dir)
    with contextlib.suppress(FileNotFoundError):
        api_key = path.read_text().strip()
        try:
            await stores.registry.authenticate(api_key)
        except GraphsvcError as error:
            if error.reason is not ErrorReason.CREDENTIALS_INVALID:
                raise
        else:
            return api_key
    await stores.tenants.create_tenant(LOCAL_TENANT)
    _, api_key = await stores.registry.create_key(LOCAL_TENANT, LOCAL_AGENT, frozenset(Role))
    write_private(path, api_key + "\n")
    return api_key


def _configure_heap() -> None:
    """Keeps glibc to two heaps and large blocks out of them.

    By default each of our threads may get a heap of its own, and none gives memory back; and after the first large
    block (a batch on its way) such blocks are cut from the heaps, which stay as large as they ever were.
    """
    with contextlib.suppress(OSError, AttributeError):  # another C library
        library = ctypes.CDLL(None)
        library.mallopt(_M_ARENA_MAX, 2)
        library.mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK_BYTES)


def _trim_heap() -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


async def _give_back_forever() -> None:
    while True:
        await asyncio.sleep(GIVE_BACK_INTERVAL_S)
        await asyncio.to_thread(_trim_heap)


async def _reconcile_forever(reconciler: Reconciler, interval_s: float) -> None:
    while True:
        await asyncio.sleep(interval_s)
        try:
            await reconciler.run()
        except GraphsvcError as error:
            _log.warning("reconcile_failed", reason=error.reason.value)


async def _recalibrate_forever(calibration: CalibrationUseCases, interval_s: float) -> None:
    while interval_s:
        await asyncio.sleep(interval_s)
        try:
            await calibration.recalibrate_due()
        except GraphsvcError as error:
            _log.warning("recalibration_failed", reason=error.reason.value)
