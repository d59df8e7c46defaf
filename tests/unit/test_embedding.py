"""Embedders: WordLlama, an OpenAI-compatible endpoint (a real HTTP server), the client's own, none."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from graphsvc.domain.errors import ErrorReason, InvalidArgument, Unavailable
from graphsvc.ranking.embedding import (
    MAX_EMBEDDED_BYTES,
    ClientEmbedder,
    NoEmbedder,
    OpenAIEmbedder,
    WordLlamaEmbedder,
    make_embedder,
)
from graphsvc.settings import EmbedderName, Settings


@pytest.fixture(scope="module")
def wordllama() -> WordLlamaEmbedder:
    return WordLlamaEmbedder()


async def test_wordllama_gives_unit_vectors_that_mean_something(wordllama: WordLlamaEmbedder) -> None:
    texts = [
        "The login fails after the token refresh.",
        "Users cannot sign in with a renewed token.",
        "Bake bread at 220 °C.",
    ]
    vectors = await wordllama.embed(texts)
    assert wordllama.dimensions == 256
    matrix = np.array(vectors)
    assert matrix.dtype == np.float32
    assert np.linalg.norm(matrix, axis=1) == pytest.approx(1, abs=1e-6)
    similarity = matrix @ matrix.T
    assert similarity[0, 1] > similarity[0, 2] + 0.1


async def test_a_vector_depends_on_the_text_alone(wordllama: WordLlamaEmbedder) -> None:
    texts = ["short", "a much longer text about many things " * 20, "", "中文文本"]
    together = await wordllama.embed(texts)
    for text, vector in zip(texts, together, strict=True):
        alone = (await wordllama.embed([text]))[0]
        assert (alone is None) == (vector is None)
        if alone is not None and vector is not None:
            assert alone.tobytes() == vector.tobytes()


@pytest.mark.parametrize("text", ["", "  \n", "!!! ... ???", "😀🎉", "ᚠᚢ", "-" * 5000])
async def test_a_text_without_a_known_word_has_no_vector(wordllama: WordLlamaEmbedder, text: str) -> None:
    assert await wordllama.embed([text, "word"]) == [None, pytest.approx((await wordllama.embed(["word"]))[0])]


async def test_long_texts_are_cut(wordllama: WordLlamaEmbedder) -> None:
    head = "word " * (MAX_EMBEDDED_BYTES // 5)
    a, b = await wordllama.embed([head, head + "other things entirely " * 40_000])
    assert a is not None
    assert b is not None
    assert a.tobytes() == b.tobytes()


async def test_no_texts(wordllama: WordLlamaEmbedder) -> None:
    assert await wordllama.embed([]) == []


async def test_the_vector_is_the_middle_of_the_package_s_own_vectors(wordllama: WordLlamaEmbedder) -> None:
    text = "The login fails after the token refresh, and naïve clients retry."
    package = files("wordllama")
    tokenizer = Tokenizer.from_file(str(package / "tokenizers" / "l2_supercat_tokenizer_config.json"))
    table = load_file(str(package / "weights" / "l2_supercat_256.safetensors"))["embedding.weight"]
    middle = table[tokenizer.encode(text, add_special_tokens=False).ids].astype(np.float64).mean(axis=0)
    assert (await wordllama.embed([text]))[0] == pytest.approx(middle / np.linalg.norm(middle), abs=1e-6)


@pytest.mark.parametrize("dimensions", [64, 128])
async def test_fewer_dimensions(dimensions: int) -> None:
    vector = (await WordLlamaEmbedder(dimensions).embed(["hello world"]))[0]
    assert vector is not None
    assert vector.shape == (dimensions,)
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-6)


def test_loading_needs_no_network_and_leaves_logging_alone() -> None:
    code = """
import logging, socket
def refuse(*a, **k): raise AssertionError("network was used")
socket.socket.connect = refuse
socket.getaddrinfo = refuse
from graphsvc.ranking.embedding import WordLlamaEmbedder
WordLlamaEmbedder()
root = logging.getLogger()
print(len(root.handlers), root.level == logging.WARNING)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "0 True\n"


async def test_embedders_without_vectors_of_their_own() -> None:
    assert NoEmbedder().dimensions == 0
    assert await NoEmbedder().embed(["a", "b"]) == [None, None]
    assert ClientEmbedder(7).dimensions == 7
    assert await ClientEmbedder(7).embed(["a"]) == [None]


def test_the_settings_name_the_embedder() -> None:
    assert isinstance(make_embedder(Settings(embedder=EmbedderName.NONE)), NoEmbedder)
    assert make_embedder(Settings(embedder=EmbedderName.CLIENT, embedding_dimensions=12)).dimensions == 12
    assert make_embedder(Settings(embedding_dimensions=64)).dimensions == 64
    openai = Settings(
        embedder=EmbedderName.OPENAI, embedder_url="http://x/v1", embedder_model="m", embedding_dimensions=3
    )
    assert isinstance(make_embedder(openai), OpenAIEmbedder)
    with pytest.raises(InvalidArgument) as caught:
        make_embedder(openai.model_copy(update={"embedder_url": "file:///etc/passwd"}))
    assert caught.value.reason is ErrorReason.SETTING_INVALID


@dataclass
class Endpoint:
    """A local endpoint: ``answer`` maps (number of the request, body) to (status, body)."""

    url: str = ""
    requests: list[tuple[str, dict[str, str], dict[str, Any]]] = field(default_factory=list)
    answer: Callable[[int, dict[str, Any]], tuple[int, Any]] = lambda n, body: (200, {})
    delay_s: float = 0.0


def vectors_of(body: dict[str, Any]) -> dict[str, Any]:
    """Vectors that tell their text's length, in reverse order."""
    rows = [
        {"object": "embedding", "index": n, "embedding": [float(len(text)), 0.0, 1.0]}
        for n, text in enumerate(body["input"])
    ]
    return {"object": "list", "data": rows[::-1], "model": body["model"]}


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    state = Endpoint(answer=lambda n, body: (200, vectors_of(body)))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            state.requests.append((self.path, dict(self.headers), body))
            time.sleep(state.delay_s)
            status, answer = state.answer(len(state.requests), body)
            data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", state.url + "/elsewhere")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            logging.getLogger("test.endpoint").debug(format, *args)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def client(endpoint: Endpoint, *, timeout_s: float = 10, dimensions: int = 3) -> OpenAIEmbedder:
    return OpenAIEmbedder(url=endpoint.url + "/", model="m", dimensions=dimensions, api_key="k", timeout_s=timeout_s)


async def test_an_endpoint_is_asked_as_openai_is(endpoint: Endpoint) -> None:
    vectors = await client(endpoint).embed(["abc", " ", "abcdef"])
    path, headers, body = endpoint.requests[0]
    assert path == "/v1/embeddings"
    assert headers["Authorization"] == "Bearer k"
    assert body == {"model": "m", "input": ["abc", "abcdef"], "encoding_format": "float"}
    assert vectors[1] is None
    assert vectors[0] == pytest.approx(np.array([3, 0, 1]) / 10**0.5)
    assert vectors[2] == pytest.approx(np.array([6, 0, 1]) / 37**0.5)


async def test_many_texts_go_in_batches_and_long_ones_are_cut(endpoint: Endpoint) -> None:
    vectors = await client(endpoint).embed(["x" * (n + 1) for n in range(299)] + ["é" * 2**18])
    assert [len(body["input"]) for _, _, body in endpoint.requests] == [128, 128, 44]
    assert len(endpoint.requests[-1][2]["input"][-1].encode()) == MAX_EMBEDDED_BYTES
    assert all(vector is not None for vector in vectors)
    assert vectors[200] == pytest.approx(np.array([201, 0, 1]) / (201**2 + 1) ** 0.5)


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_passing_fault_is_tried_again(endpoint: Endpoint, status: int) -> None:
    endpoint.answer = lambda n, body: (200, vectors_of(body)) if n == 3 else (status, {"error": "secret"})
    assert (await client(endpoint).embed(["a"]))[0] is not None
    assert len(endpoint.requests) == 3


async def test_after_three_attempts_it_is_unavailable(endpoint: Endpoint) -> None:
    endpoint.answer = lambda n, body: (503, {"error": "secret"})
    with pytest.raises(Unavailable) as caught:
        await client(endpoint).embed(["a"])
    assert caught.value.reason is ErrorReason.EMBEDDER_UNAVAILABLE
    assert caught.value.metadata["retry_delay_ms"] == "1000"
    assert "secret" not in caught.value.message
    assert len(endpoint.requests) == 3


@pytest.mark.parametrize("status", [400, 401, 404, 302, 307])
async def test_another_status_is_not_tried_again_nor_followed(endpoint: Endpoint, status: int) -> None:
    endpoint.answer = lambda n, body: (status, {})
    with pytest.raises(Unavailable, match=str(status)):
        await client(endpoint).embed(["a"])
    assert len(endpoint.requests) == 1


BAD_ANSWERS: dict[str, Any] = {
    "wrong dimension": {"data": [{"index": 0, "embedding": [1.0, 2.0]}]},
    "nan": b'{"data": [{"index": 0, "embedding": [NaN, 1, 1]}]}',
    "zero": {"data": [{"index": 0, "embedding": [0, 0, 0]}]},
    "words": {"data": [{"index": 0, "embedding": ["a", "b", "c"]}]},
    "text": {"data": [{"index": 0, "embedding": "abc"}]},
    "too few": {"data": []},
    "too many": {"data": [{"index": n, "embedding": [1, 1, 1]} for n in range(2)]},
    "wrong index": {"data": [{"index": 5, "embedding": [1, 1, 1]}]},
    "no data": {"error": "x"},
    "a list": [],
    "no json": b"<html>",
    "no text": b"\xff\xfe\xfa",
    "deep": b"[" * 200_000,
}


@pytest.mark.parametrize("answer", BAD_ANSWERS.values(), ids=BAD_ANSWERS.keys())
async def test_what_cannot_be_stored_is_refused(endpoint: Endpoint, answer: object) -> None:
    endpoint.answer = lambda n, body: (200, answer)
    with pytest.raises(Unavailable) as caught:
        await client(endpoint).embed(["a"])
    assert caught.value.reason is ErrorReason.EMBEDDER_UNAVAILABLE
    assert len(endpoint.requests) == 1


async def test_a_silent_endpoint_times_out(endpoint: Endpoint) -> None:
    endpoint.delay_s = 1.0
    with pytest.raises(Unavailable, match="answer"):
        await client(endpoint, timeout_s=0.1).embed(["a"])


async def test_nobody_there() -> None:
    with pytest.raises(Unavailable):
        await OpenAIEmbedder(url="http://127.0.0.1:9/v1", model="m", dimensions=3).embed(["a"])


async def test_the_loop_runs_on_while_an_endpoint_thinks(endpoint: Endpoint) -> None:
    endpoint.delay_s = 0.3
    asked = asyncio.create_task(client(endpoint).embed(["a"]))
    ticks = 0
    while not asked.done():
        await asyncio.sleep(0.01)
        ticks += 1
    assert ticks > 3
