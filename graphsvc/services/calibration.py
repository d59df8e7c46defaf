"""Recalibration: when it is due, in a process of its own, and back to any version.

Source: gates B9, B10; seed selection-budgeted-retrieval, Implementation Rule 5 (in batch, never per retrieval).
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from graphsvc.domain.errors import ErrorReason, GraphsvcError, InvalidArgument
from graphsvc.domain.predictors import SHARED_PRIOR_VERSION, PredictorVersion
from graphsvc.domain.tenancy import Principal
from graphsvc.ports import (
    Clock,
    FeedbackExample,
    PredictorHistory,
    PredictorStore,
    Read,
    ReadOptions,
    UnlearnedFeedback,
    WriteRequest,
    Written,
)
from graphsvc.ranking.calibration import (
    MAX_RETRIEVALS,
    Calibration,
    report_from_json,
    report_to_json,
)
from graphsvc.ranking.value import PRIOR
from graphsvc.services.fit_process import fit_in_process

PAGE_SIZE = 100
"""Tenants looked at in one statement."""
TIMEOUT_MS = 60_000
"""Limit of a statement of the batch, which nobody waits for."""

_BATCH_FINGERPRINT = hashlib.sha256(b"recalibration").hexdigest()
_log = structlog.get_logger("graphsvc.calibration")

Fit = Callable[[Sequence[FeedbackExample], PredictorVersion | None], Awaitable[Calibration]]


@dataclass(frozen=True, slots=True)
class CalibrationSettings:
    """When recalibration is due.

    Attributes:
        retrievals: newly reported ones that make a batch.
        interval_s: after which one is enough, s.
    """

    retrievals: int
    interval_s: float


@dataclass(frozen=True, slots=True)
class Recalibration:
    """What a recalibration did.

    Attributes:
        version: the version fitted, adopted or not; None: none was.
        detail: why it was adopted or not, or why there is none.
        in_use: the version in use then; 0: the shared prior.
    """

    version: PredictorVersion | None
    detail: str
    in_use: int = SHARED_PRIOR_VERSION


class CalibrationUseCases:
    """Recalibrate, list, roll back.

    Args:
        predictors: feedback and versions.
        clock: says what is due.
        settings: when it is.
        fit: where the fit runs.
    """

    def __init__(
        self, predictors: PredictorStore, clock: Clock, settings: CalibrationSettings, fit: Fit = fit_in_process
    ) -> None:
        self._predictors = predictors
        self._clock = clock
        self._settings = settings
        self._fit = fit
        self._one_at_a_time = asyncio.Lock()

    async def recalibrate(self, principal: Principal, request: WriteRequest, *, force: bool) -> Written[Recalibration]:
        """What was fitted on the tenant's feedback, stored, and in use if it is better; or why nothing was.

        Args:
            principal: an admin of the tenant.
            request: identity of the write; the same one again gives the version of the first time.
            force: also when it is not due.

        Raises:
            NotFound: TENANT_NOT_FOUND.
            InvalidArgument: REQUEST_ID_REUSED.
        """
        found = await self._predictors.get_unlearned(principal.tenant_id, self._settings.retrievals)
        if not force and not self.is_due(found):
            return Written(Recalibration(None, self._why_not(found)), ())
        return await self._recalibrate(principal, lambda _: request)

    async def recalibrate_due(self) -> int:
        """How many tenants were recalibrated: all for which it was due. What fails for one is logged, not raised.

        Raises:
            Unavailable: GRAPH_UNAVAILABLE.
        """
        done, from_tenant_id = 0, ""
        while page := await self._predictors.list_unlearned(from_tenant_id, PAGE_SIZE, self._settings.retrievals):
            from_tenant_id = page[-1].tenant_id + "\0"
            for found in page:
                if self.is_due(found):
                    done += await self._recalibrate_by_itself(found.tenant_id)
        return done

    def is_due(self, found: UnlearnedFeedback | None) -> bool:
        """Whether so much feedback is a batch: a hundred retrievals, or at least one, and a day since the last fit.

        Before there was a fit, the day begins with the first report.
        """
        if found is None:
            return False
        since = found.last_fit_time or found.oldest_time
        waited = self._clock.now() - since >= timedelta(seconds=self._settings.interval_s)
        return waited or found.retrieval_count >= self._settings.retrievals

    async def list_predictors(self, principal: Principal, options: ReadOptions) -> Read[PredictorHistory]:
        """The tenant's versions, ascending, and the one in use."""
        return await self._predictors.list_predictors(principal.tenant_id, options)

    async def roll_back(self, principal: Principal, version: int, request: WriteRequest) -> Written[int]:
        """Puts a version in use (0: the shared prior); gives the version in use before.

        The next recalibration measures its candidate against this version.

        Raises:
            InvalidArgument: FIELD_INVALID, REQUEST_ID_REUSED.
            NotFound: PREDICTOR_NOT_FOUND, TENANT_NOT_FOUND.
        """
        if version < 0:
            raise InvalidArgument(ErrorReason.FIELD_INVALID, "version must be 0 or more", field="version")
        return await self._predictors.use_predictor(principal, version, request)

    async def _recalibrate_by_itself(self, tenant_id: str) -> bool:
        def request_of(version: int) -> WriteRequest:
            # Every process names the same write alike, so that the second changes nothing.
            return WriteRequest(f"recalibration-{version}", _BATCH_FINGERPRINT, TIMEOUT_MS)

        try:
            await self._recalibrate(Principal(tenant_id, "", "", frozenset()), request_of)
        except GraphsvcError as error:
            _log.warning("recalibration_failed", tenant_id=tenant_id, reason=error.reason.value, message=error.message)
            return False
        return True

    async def _recalibrate(
        self, principal: Principal, request_of: Callable[[int], WriteRequest]
    ) -> Written[Recalibration]:
        tenant_id = principal.tenant_id
        # Before anything is read: what is reported from now on has not been seen.
        started = self._clock.now()
        history = (await self._predictors.list_predictors(tenant_id, ReadOptions(timeout_ms=TIMEOUT_MS))).result
        examples = await self._predictors.list_examples(tenant_id, MAX_RETRIEVALS)
        async with self._one_at_a_time:
            fitted = await self._fit(examples, history.current)
        version = _version(fitted, history, started)
        written = await self._predictors.save_predictor(principal, version, history.in_use, request_of(version.version))
        if written.result is None:
            return Written(
                Recalibration(None, "another process has recalibrated meanwhile, or a version was put in use"), ()
            )
        if written.replayed:
            stored = (await self._predictors.list_predictors(tenant_id, ReadOptions(timeout_ms=TIMEOUT_MS))).result
            version = next(one for one in stored.versions if one.version == written.result)
            in_use = stored.in_use
        else:
            in_use = version.version if version.adopted else history.in_use
            _log.info("recalibrated", tenant_id=tenant_id, version=version.version, adopted=version.adopted)
        detail = "; ".join(report_from_json(version.report_json).reasons)
        return Written(Recalibration(version, detail, in_use), written.bookmarks, replayed=written.replayed)

    def _why_not(self, found: UnlearnedFeedback | None) -> str:
        if found is None:
            return "not due: no outcome was reported since the last fit"
        due = (found.last_fit_time or found.oldest_time) + timedelta(seconds=self._settings.interval_s)
        return (
            f"not due: outcomes of {found.retrieval_count} retrievals were reported since the last fit; due at "
            f"{self._settings.retrievals}, or at {due:%Y-%m-%d %H:%M} UTC"
        )


def _version(fitted: Calibration, history: PredictorHistory, created_time: datetime) -> PredictorVersion:
    return PredictorVersion(
        version=history.versions[-1].version + 1 if history.versions else 1,
        created_time=created_time,
        prior_version=PRIOR.version,
        intercept=fitted.intercept,
        weights=fitted.weights,
        reference_rates=fitted.reference_rates,
        retrieval_count=fitted.report.fit_retrievals,
        example_count=fitted.report.fit_examples,
        adopted=fitted.report.adopted,
        report_json=report_to_json(fitted.report),
    )
