"""PredictorStore in memory: what the real one must agree with."""

from __future__ import annotations

from graphsvc.domain.candidates import Disposition
from graphsvc.domain.errors import ErrorReason, NotFound
from graphsvc.domain.predictors import PredictorVersion
from graphsvc.domain.tenancy import Principal
from graphsvc.ports import (
    FeedbackExample,
    PredictorHistory,
    Read,
    ReadOptions,
    UnlearnedFeedback,
    WriteRequest,
    Written,
)
from tests.support.memory_stores import MemoryGraph


class MemoryPredictorStore:
    """Versions by tenant, and the one in use."""

    def __init__(self, graph: MemoryGraph) -> None:
        self._graph = graph
        self._versions: dict[str, dict[int, PredictorVersion]] = {}
        self._in_use: dict[str, int] = {}

    async def list_unlearned(self, from_tenant_id: str, limit: int, count_limit: int) -> tuple[UnlearnedFeedback, ...]:
        tenants = sorted(one for one in self._graph.tenants if one >= from_tenant_id)
        found = [await self.get_unlearned(one, count_limit) for one in tenants]
        return tuple([one for one in found if one is not None][:limit])

    async def get_unlearned(self, tenant_id: str, count_limit: int) -> UnlearnedFeedback | None:
        last_fit = max((one.created_time for one in self._versions.get(tenant_id, {}).values()), default=None)
        times = sorted(
            time
            for (tenant, _), time in self._graph.reported_times.items()
            if tenant == tenant_id and (last_fit is None or time > last_fit)
        )
        if not times:
            return None
        return UnlearnedFeedback(tenant_id, min(len(times), count_limit), times[0], last_fit)

    async def list_examples(self, tenant_id: str, retrieval_limit: int) -> tuple[FeedbackExample, ...]:
        graph = self._graph
        reported = sorted((time, one) for (tenant, one), time in graph.reported_times.items() if tenant == tenant_id)
        examples: list[FeedbackExample] = []
        for time, retrieval_id in reported[-retrieval_limit:]:
            record = graph.retrievals[tenant_id, retrieval_id][1]
            verdicts = graph.outcomes[tenant_id, retrieval_id][1]
            for one in sorted(record.selections, key=lambda one: one.unit_id):
                unit = graph.unit(tenant_id, one.unit_id)
                if unit is None or one.disposition is not Disposition.SELECTED or one.unit_id not in verdicts:
                    continue
                examples.append(
                    FeedbackExample(
                        retrieval_id=retrieval_id,
                        reported_time=time,
                        kind=unit.kind,
                        features=dict(zip(record.feature_names, one.features, strict=False)),
                        value=one.value,
                        referenced=verdicts[one.unit_id].referenced,
                    )
                )
        return tuple(examples)

    async def list_predictors(self, tenant_id: str, options: ReadOptions) -> Read[PredictorHistory]:
        versions = self._versions.get(tenant_id, {})
        return Read(
            PredictorHistory(tuple(versions[number] for number in sorted(versions)), self._in_use.get(tenant_id, 0))
        )

    async def save_predictor(
        self, principal: Principal, predictor: PredictorVersion, in_use_before: int, request: WriteRequest
    ) -> Written[int | None]:
        tenant_id = principal.tenant_id
        if (first := self._graph.replayed(principal, request)) is not None:
            return Written(first, (), replayed=True)
        versions = self._versions.setdefault(tenant_id, {})
        if predictor.version in versions or self._in_use.get(tenant_id, 0) != in_use_before:
            return Written(None, ())
        versions[predictor.version] = predictor
        if predictor.adopted:
            self._in_use[tenant_id] = predictor.version
        self._graph.keep(principal, request, predictor.version)
        return Written(predictor.version, ())

    async def use_predictor(self, principal: Principal, version: int, request: WriteRequest) -> Written[int]:
        tenant_id = principal.tenant_id
        if (first := self._graph.replayed(principal, request)) is not None:
            return Written(first, (), replayed=True)
        if version and version not in self._versions.get(tenant_id, {}):
            raise NotFound(ErrorReason.PREDICTOR_NOT_FOUND, "predictor")
        before = self._in_use.get(tenant_id, 0)
        self._in_use[tenant_id] = version
        self._graph.keep(principal, request, before)
        return Written(before, ())
