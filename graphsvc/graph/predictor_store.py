"""Predictors in Neo4j: the feedback of a tenant, what was fitted on it, and which version is in use.

Source: gates B9, B10.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from neo4j import Record

from graphsvc.domain.errors import ErrorReason, NotFound
from graphsvc.domain.predictors import PredictorVersion
from graphsvc.domain.tenancy import Principal
from graphsvc.domain.units import ContextUnitKind
from graphsvc.graph.catalog import Catalog
from graphsvc.graph.driver import GraphDriver
from graphsvc.graph.requests import request_row, write_parameters
from graphsvc.graph.rows import to_datetime, to_predictor
from graphsvc.ports import (
    Clock,
    FeedbackExample,
    PredictorHistory,
    Read,
    ReadOptions,
    UnlearnedFeedback,
    WriteRequest,
    Written,
)

BATCH_TIMEOUT_MS = 60_000
"""Limit of the statements of a batch, which nobody waits for."""


class _OvertakenError(Exception):
    """Another process was first: rolls the transaction back."""


class GraphPredictorStore:
    """PredictorStore on Neo4j; each method is one statement in one transaction.

    Args:
        driver: an open connection.
        catalog: all statements.
        clock: says when a version was put in use.
    """

    def __init__(self, driver: GraphDriver, catalog: Catalog, clock: Clock) -> None:
        self._driver = driver
        self._clock = clock
        self._list_unlearned = catalog["list_unlearned"]
        self._list_examples = catalog["list_examples"]
        self._list_predictors = catalog["list_predictors"]
        self._save = catalog["save_predictor"]
        self._use = catalog["use_predictor"]

    async def list_unlearned(self, from_tenant_id: str, limit: int, count_limit: int) -> tuple[UnlearnedFeedback, ...]:
        """Tenants that have feedback no predictor has seen, by tenant_id."""
        return await self._unlearned(
            from_tenant_id=from_tenant_id, until_tenant_id=None, limit=limit, count_limit=count_limit
        )

    async def get_unlearned(self, tenant_id: str, count_limit: int) -> UnlearnedFeedback | None:
        """A tenant's feedback that no predictor has seen; None: there is none."""
        found = await self._unlearned(
            from_tenant_id=tenant_id, until_tenant_id=tenant_id, limit=1, count_limit=count_limit
        )
        return found[0] if found else None

    async def _unlearned(self, **page: object) -> tuple[UnlearnedFeedback, ...]:
        rows, _ = await self._driver.read(self._list_unlearned, {"page": page}, timeout_ms=BATCH_TIMEOUT_MS)
        return tuple(
            UnlearnedFeedback(
                tenant_id=row["tenant_id"],
                retrieval_count=row["retrieval_count"],
                oldest_time=to_datetime(row["oldest_time"]),
                last_fit_time=None if row["last_fit_time"] is None else to_datetime(row["last_fit_time"]),
            )
            for row in rows
        )

    async def list_examples(self, tenant_id: str, retrieval_limit: int) -> tuple[FeedbackExample, ...]:
        """Delivered units of the tenant's newest reported retrievals, by (reported_time, retrieval_id, unit_id)."""
        rows, _ = await self._driver.read(
            self._list_examples,
            {"tenant_id": tenant_id, "retrieval_limit": retrieval_limit},
            timeout_ms=BATCH_TIMEOUT_MS,
        )
        return tuple(example for row in rows for example in _examples(row))

    async def list_predictors(self, tenant_id: str, options: ReadOptions) -> Read[PredictorHistory]:
        """The tenant's versions and which of them is in use."""
        rows, bookmarks = await self._driver.read(
            self._list_predictors, {"tenant_id": tenant_id}, bookmarks=options.bookmarks, timeout_ms=options.timeout_ms
        )
        versions = tuple(to_predictor(properties) for properties in rows[0]["predictors"])
        return Read(PredictorHistory(versions, rows[0]["in_use"]), bookmarks)

    async def save_predictor(
        self, principal: Principal, predictor: PredictorVersion, in_use_before: int, request: WriteRequest
    ) -> Written[int | None]:
        """The version that the request stands for, stored, and in use if adopted; None: another process was first.

        Raises:
            NotFound: TENANT_NOT_FOUND.
            InvalidArgument: REQUEST_ID_REUSED.
        """

        def check(_: int, rows: list[Record]) -> None:
            if request_row(rows, principal, request)["saved"] is False:
                raise _OvertakenError

        params = write_parameters(
            principal,
            request,
            self._clock.now(),
            in_use_before=in_use_before,
            predictor=_properties(predictor),
            result_json=json.dumps(predictor.version),
        )
        try:
            rows, bookmarks = await self._driver.write_many(
                [(self._save, params)], timeout_ms=request.timeout_ms, check=check
            )
        except _OvertakenError:
            return Written(None, ())
        replayed = rows[0][0]["replayed_json"]
        if replayed is not None:
            return Written(json.loads(replayed), bookmarks, replayed=True)
        return Written(predictor.version, bookmarks)

    async def use_predictor(self, principal: Principal, version: int, request: WriteRequest) -> Written[int]:
        """Makes a version the one in use (0: the shared prior); gives the version in use before.

        Raises:
            NotFound: PREDICTOR_NOT_FOUND, TENANT_NOT_FOUND.
            InvalidArgument: REQUEST_ID_REUSED.
        """

        def check(_: int, rows: list[Record]) -> None:
            if request_row(rows, principal, request)["found"] is False:
                raise NotFound(
                    ErrorReason.PREDICTOR_NOT_FOUND,
                    f"the tenant has no predictor version {version}: `graphsvc predictors list` shows them",
                    version=version,
                )

        params = write_parameters(principal, request, self._clock.now(), version=version)
        rows, bookmarks = await self._driver.write_many(
            [(self._use, params)], timeout_ms=request.timeout_ms, check=check
        )
        row = rows[0][0]
        if row["replayed_json"] is not None:
            return Written(json.loads(row["replayed_json"]), bookmarks, replayed=True)
        return Written(row["in_use_before"], bookmarks)


def _examples(row: Record) -> list[FeedbackExample]:
    reported_time = to_datetime(row["reported_time"])
    names: list[str] = row["feature_names"] or []
    return [
        FeedbackExample(
            retrieval_id=row["retrieval_id"],
            reported_time=reported_time,
            kind=ContextUnitKind(kind),
            # A unit that went in unranked has no features.
            features=dict(zip(names, features or (), strict=False)),
            value=value,
            referenced=referenced,
        )
        for kind, features, value, referenced in row["verdicts"]
    ]


def _properties(predictor: PredictorVersion) -> Mapping[str, Any]:
    """The properties of a (:Predictor) node, tenant_id aside; ``to_predictor`` reads them back."""
    rates = sorted(predictor.reference_rates.items())
    weights = sorted(predictor.weights.items())
    return {
        "version": predictor.version,
        "created_time": predictor.created_time,
        "prior_version": predictor.prior_version,
        "intercept": predictor.intercept,
        "weight_names": [name for name, _ in weights],
        "weights": [weight for _, weight in weights],
        "rate_kinds": [kind.value for kind, _ in rates],
        "reference_rates": [rate for _, rate in rates],
        "retrieval_count": predictor.retrieval_count,
        "example_count": predictor.example_count,
        "adopted": predictor.adopted,
        "report_json": predictor.report_json,
        "caption": f"v{predictor.version}, {'adopted' if predictor.adopted else 'not adopted'}",
    }
