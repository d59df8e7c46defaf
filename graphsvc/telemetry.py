"""Logs, spans and metrics: their names, and the facts of the call under way.

One JSON line per RPC on stderr; never content, never parameters. Spans and metrics go through the OpenTelemetry API and
cost nothing unless the process installs an SDK.
Source: design.md, Errors, config, logs.
"""

from __future__ import annotations

import logging
import sys
import traceback
from contextvars import ContextVar
from dataclasses import dataclass, field

import structlog
from opentelemetry import metrics, trace

INSTRUMENTATION = "graphsvc"

SPAN_RPC = "graphsvc.rpc"
ATTRIBUTE_RPC_SYSTEM = "rpc.system"
ATTRIBUTE_RPC_SERVICE = "rpc.service"
ATTRIBUTE_RPC_METHOD = "rpc.method"
ATTRIBUTE_RPC_CODE = "rpc.grpc.status_code"
ATTRIBUTE_REQUEST_ID = "graphsvc.request_id"
ATTRIBUTE_REASON = "graphsvc.reason"
ATTRIBUTE_CODE = "graphsvc.code"

METRIC_RPC_DURATION = "graphsvc.rpc.duration"
METRIC_QUERY_DURATION = "graphsvc.query.duration"
METRIC_TOKENS_SPENT = "graphsvc.retrieval.tokens_spent"

LOG_EVENT_RPC = "rpc"

tracer = trace.get_tracer(INSTRUMENTATION)
_meter = metrics.get_meter(INSTRUMENTATION)
rpc_duration = _meter.create_histogram(METRIC_RPC_DURATION, unit="ms", description="Wall time of an RPC in the server.")
query_duration = _meter.create_histogram(METRIC_QUERY_DURATION, unit="ms", description="Wall time of a statement.")
tokens_spent = _meter.create_histogram(METRIC_TOKENS_SPENT, unit="{token}", description="Tokens a retrieval injected.")


@dataclass(slots=True)
class RpcFacts:
    """What the log line of one RPC says besides its identity and result; None: does not apply.

    Attributes:
        queries: wall time in ms by statement name, summed over its runs.
    """

    strategy: str | None = None
    outcome: str | None = None
    tokens_spent: int | None = None
    candidates_deferred: int | None = None
    budget_remaining: int | None = None
    queries: dict[str, float] = field(default_factory=dict[str, float])


rpc_facts: ContextVar[RpcFacts | None] = ContextVar("rpc_facts", default=None)
"""Facts of the RPC this task works for; None outside of one. Tasks started by the RPC share the object."""


def record_query(name: str, duration_ms: float) -> None:
    """Notes that a Cypher statement ran.

    Args:
        name: the statement's file stem.
        duration_ms: wall time until its last record, ms.
    """
    query_duration.record(duration_ms, {"query": name})
    facts = rpc_facts.get()
    if facts is not None:
        facts.queries[name] = facts.queries.get(name, 0.0) + duration_ms


def record_retrieval(*, strategy: str, outcome: str, spent: int, deferred: int, remaining: int) -> None:
    """Notes how a retrieval went.

    Args:
        strategy: the strategy that ran.
        outcome: how it ended, in a sentence that quotes neither query nor content.
        spent: tokens in the payload.
        deferred: candidates not delivered.
        remaining: tokens of the retrieval budget left.
    """
    tokens_spent.record(spent, {"strategy": strategy})
    facts = rpc_facts.get()
    if facts is not None:
        facts.strategy = strategy
        facts.outcome = outcome
        facts.tokens_spent = spent
        facts.candidates_deferred = deferred
        facts.budget_remaining = remaining


def describe_fault(error: BaseException) -> list[str]:
    """Where a fault came from, outermost cause last: exception types and code lines, without their messages.

    A message may quote a parameter or a unit's content, and neither belongs in a log.
    """
    lines: list[str] = []
    current: BaseException | None = error
    while current is not None and len(lines) < 200:
        lines.append(f"{type(current).__module__}.{type(current).__qualname__}")
        lines.extend(
            f"{frame.filename}:{frame.lineno} {frame.name}: {frame.line or ''}".rstrip(": ")
            for frame in traceback.extract_tb(current.__traceback__)
        )
        current = current.__cause__ or current.__context__
    return lines


def configure_logging(level: str = "INFO") -> None:
    """Sends JSON lines to stderr, the standard library's loggers (at WARNING and above) included.

    Args:
        level: lowest level logged: DEBUG, INFO, WARNING or ERROR.
    """
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, *shared, structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level]),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # libraries log parameters at DEBUG, so they never get below WARNING whatever our own level is
    root.setLevel(max(logging.WARNING, logging.getLevelNamesMapping()[level]))
