"""Every setting of graphsvc, read from ``GRAPHSVC_*`` environment variables.

One class, one place: a variable that is not named here refuses to start, so that a typo is an error and not a default.
"""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from graphsvc.domain.errors import ErrorReason, InvalidArgument

ENV_PREFIX = "GRAPHSVC_"

TEST_PREFIX = "GRAPHSVC_TEST_"
"""Begins the variables that only the test suite reads; the service ignores them."""

Port = Annotated[int, Field(ge=0, le=65535)]


class EmbedderName(StrEnum):
    """Where embeddings come from."""

    WORDLLAMA = "wordllama"
    """Static word embeddings shipped by a package: 256 numbers, no download, no key."""
    MINILM = "minilm"
    """all-MiniLM-L6-v2: 384 numbers, better, slower, no download and no key; needs graphsvc[minilm] (torch)."""
    NONE = "none"
    """No embeddings: topic search is full-text only."""
    OPENAI = "openai"
    """Any endpoint that speaks the OpenAI embeddings API."""
    CLIENT = "client"
    """The caller sends a vector with each unit and each query."""


class WriteAcknowledgement(StrEnum):
    """When a write is acknowledged (product.md, Content)."""

    WARM = "warm"
    """After the content is synced in LMDB and the catalog entry is committed: one server process."""
    COLD = "cold"
    """After S3 has the content too: several server processes on one database."""


def _user_directory(variable: str, fallback: str) -> Path:
    base = os.environ.get(variable)
    return (Path(base) if base else Path.home() / fallback) / "graphsvc"


class Settings(BaseSettings):
    """Settings of a server, a local stack or a command line.

    Source: design.md, Errors, config, logs.
    """

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, extra="forbid", frozen=True)

    # Where things live
    state_dir: Path = Field(
        default_factory=lambda: _user_directory("XDG_STATE_HOME", ".local/state"),
        description="Directory of the local stack: database, objects, LMDB, credentials (mode 0600), logs.",
    )
    cache_dir: Path = Field(
        default_factory=lambda: _user_directory("XDG_CACHE_HOME", ".cache"),
        description="Directory of what can be fetched again: Neo4j's jars, token vocabularies.",
    )

    # Neo4j
    neo4j_uri: str | None = Field(
        default=None,
        description="bolt, neo4j, bolt+s or neo4j+s address of a Neo4j 2026.x; unset: the local stack is started.",
    )
    neo4j_user: str = Field(default="neo4j", description="User for neo4j_uri.")
    neo4j_password: SecretStr | None = Field(
        default=None, description="Password for neo4j_uri; unset: no authentication."
    )
    neo4j_database: str = Field(default="neo4j", description="Database name; Community edition has one.")
    neo4j_pool_size: int = Field(default=16, ge=1, le=1000, description="Bolt connections a process holds at most.")
    neo4j_heap_mb: int = Field(
        default=512, ge=256, le=65536, description="Java heap of the local stack, MiB; under 256 larger commits fail."
    )
    neo4j_pagecache_mb: int = Field(default=256, ge=32, le=1048576, description="Page cache of the local stack, MiB.")
    bolt_port: Port = Field(
        default=0, description="Bolt port of the local stack; 0: the port used before, else a free one."
    )
    http_port: Port = Field(default=0, description="Neo4j Browser port of the local stack; 0: as for bolt_port.")

    # gRPC server
    grpc_host: str = Field(default="127.0.0.1", description="Address to listen on; other than loopback needs TLS.")
    grpc_port: Port = Field(default=50051, description="Port to listen on; 0: a free one, printed at start.")
    tls_certificate: Path | None = Field(
        default=None, description="PEM chain of the server; with tls_key turns TLS on."
    )
    tls_key: Path | None = Field(default=None, description="PEM private key of the server.")
    allow_insecure_bind: bool = Field(
        default=False, description="Listen on a non-loopback address without TLS (behind a proxy that ends TLS)."
    )
    query_timeout_ms: int = Field(
        default=300,
        ge=10,
        le=60_000,
        description="Server-side limit of one retrieval statement, ms; an answer is due in 500.",
    )
    write_timeout_ms: int = Field(
        default=10_000, ge=100, le=600_000, description="Server-side limit of one write transaction, ms."
    )
    concurrent_retrievals: int = Field(
        default=8,
        ge=1,
        le=1000,
        description="Retrievals that run at once; more wait. About four a core: past it only latency grows.",
    )

    # Content
    lmdb_path: Path | None = Field(
        default=None, description="Directory of the LMDB environment; unset: state_dir/warm."
    )
    lmdb_map_mb: int = Field(
        default=1024,
        ge=16,
        le=1048576,
        description="First size of the LMDB map, MiB; it doubles when full, up to lmdb_map_max_mb.",
    )
    lmdb_map_max_mb: int = Field(default=65536, ge=16, le=1048576, description="Largest size of the LMDB map, MiB.")
    hot_bytes: int = Field(default=16 * 2**20, ge=0, description="Content kept in memory a process, bytes; 0: none.")
    s3_endpoint: str | None = Field(default=None, description="S3 endpoint; unset: the local stack's.")
    s3_bucket: str = Field(default="graphsvc", description="Bucket of the cold tier; created if absent.")
    s3_prefix: str = Field(default="", description="Key prefix inside the bucket.")
    s3_region: str = Field(default="us-east-1", description="Region sent to the endpoint.")
    s3_access_key: str | None = Field(default=None, description="Access key; unset: the local stack's.")
    s3_secret_key: SecretStr | None = Field(default=None, description="Secret key; unset: the local stack's.")
    s3_port: Port = Field(default=0, description="S3 port of the local stack; 0: as for bolt_port.")
    write_acknowledgement: WriteAcknowledgement = Field(
        default=WriteAcknowledgement.WARM,
        description="When a write is acknowledged: warm (one server process) or cold (several on one database).",
    )
    reconcile_interval_s: float = Field(
        default=600.0,
        ge=1,
        description="Seconds between two runs of the reconciler, which removes content without a catalog entry.",
    )
    reconcile_grace_s: float = Field(
        default=3600.0,
        ge=0,
        description="Content younger than this is never taken for an orphan: its write may be under way. Seconds.",
    )

    # Embeddings
    embedder: EmbedderName = Field(
        default=EmbedderName.WORDLLAMA, description="wordllama, minilm, none, openai or client."
    )
    embedding_dimensions: int = Field(
        default=256,
        ge=1,
        le=4096,
        description="Numbers in a vector; must equal the vector index's: a mismatch refuses to start.",
    )
    embedder_url: str | None = Field(
        default=None, description="Base address for embedder openai, up to and without /embeddings."
    )
    embedder_model: str | None = Field(default=None, description="Model name sent with embedder openai.")
    embedder_api_key: SecretStr | None = Field(default=None, description="Bearer key for embedder openai.")

    # Retrieval (seed selection-budgeted-retrieval, Budget Allocation)
    min_retrieval_budget: int = Field(
        default=200,
        ge=0,
        description="Tokens under which nothing is retrieved: too little context misleads more than none.",
    )
    reasoning_reserve_ratio: float = Field(
        default=0.40,
        ge=0.40,
        le=0.95,
        description="Share of the total step budget kept for reasoning; never under 0.40.",
    )
    min_value_threshold: float = Field(
        default=1e-5,
        ge=0,
        le=1,
        description="Value per token the best candidate must exceed, else nothing is retrieved.",
    )
    min_value_probability: float = Field(
        default=0.005,
        ge=0,
        le=1,
        description="Probability of being referenced under which a unit is left out as below_value.",
    )
    max_candidates: int = Field(
        default=200, ge=1, le=2000, description="Candidates a traversal or a search yields at most."
    )
    hub_degree_cap: int = Field(
        default=500,
        ge=1,
        le=100_000,
        description="Visible typed edges from which a unit is a hub: reached, not passed through.",
    )
    scan_limit: int = Field(
        default=5000,
        ge=100,
        le=1_000_000,
        description="Edges a traversal reads per hop; when it cuts, the answer says partial.",
    )

    # Feedback (seed selection-budgeted-retrieval, Utility Feedback)
    entailment: str = Field(
        default="",
        description="Plug-in of the entry-point group graphsvc.entailment that tells references; empty: none.",
    )

    # Recalibration (seed selection-budgeted-retrieval, Implementation Rule 5)
    recalibration_retrievals: int = Field(
        default=100,
        ge=10,
        le=1000,
        description="Newly reported retrievals of a tenant after which its predictor is fitted again.",
    )
    recalibration_interval_s: float = Field(
        default=86_400.0,
        ge=60,
        description="Seconds since the last fit after which one newly reported retrieval is enough.",
    )
    recalibration_check_s: float = Field(
        default=60.0,
        ge=0,
        description="Seconds between two looks at what is due; 0: this process never recalibrates by itself.",
    )

    # Client commands (ingest, retrieve, explain, policy)
    target: str | None = Field(
        default=None, description="host:port of the service to call; unset: the one that runs on state_dir."
    )
    api_key: SecretStr | None = Field(
        default=None, description="API key to call it with; unset: the local stack's own, for the local stack only."
    )

    # Logs
    log_level: str = Field(default="INFO", pattern="^(DEBUG|INFO|WARNING|ERROR)$", description="Lowest level logged.")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("set both GRAPHSVC_TLS_CERTIFICATE and GRAPHSVC_TLS_KEY, or neither")
        if self.embedder is EmbedderName.OPENAI and not (self.embedder_url and self.embedder_model):
            raise ValueError("GRAPHSVC_EMBEDDER=openai needs GRAPHSVC_EMBEDDER_URL and GRAPHSVC_EMBEDDER_MODEL")
        if self.embedder is EmbedderName.MINILM and self.embedding_dimensions != 384:
            raise ValueError("embedder minilm gives 384 numbers: set GRAPHSVC_EMBEDDING_DIMENSIONS=384")
        if self.embedder is EmbedderName.WORDLLAMA and self.embedding_dimensions not in (64, 128, 256):
            raise ValueError(
                "wordllama gives 64, 128 or 256 dimensions: set GRAPHSVC_EMBEDDING_DIMENSIONS to one of them"
            )
        if self.lmdb_map_max_mb < self.lmdb_map_mb:
            raise ValueError("GRAPHSVC_LMDB_MAP_MAX_MB must not be under GRAPHSVC_LMDB_MAP_MB")
        return self

    @property
    def warm_path(self) -> Path:
        """Directory of the LMDB environment."""
        return self.lmdb_path or self.state_dir / "warm"


def load_settings(**overrides: object) -> Settings:
    """Settings from the environment, with overrides from the command line.

    Args:
        overrides: field values that win over the environment; None means not given.

    Raises:
        InvalidArgument: SETTING_INVALID for an unknown ``GRAPHSVC_*`` variable or a value out of range; the message
            names the variable and what it takes.
    """
    known = {ENV_PREFIX + name.upper() for name in Settings.model_fields}
    unknown = sorted(
        name
        for name in os.environ
        if name.upper().startswith(ENV_PREFIX)
        and not name.upper().startswith(TEST_PREFIX)
        and name.upper() not in known
    )
    if unknown:
        raise InvalidArgument(
            ErrorReason.SETTING_INVALID,
            f"unknown setting {', '.join(unknown)}: unset it, or see `graphsvc settings` for the names",
        )
    try:
        return Settings(**{k: v for k, v in overrides.items() if v is not None})  # pyright: ignore[reportArgumentType]
    except ValueError as error:
        raise InvalidArgument(ErrorReason.SETTING_INVALID, str(error)) from error
