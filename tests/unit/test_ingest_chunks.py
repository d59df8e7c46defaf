"""Chunks hold every line once, none cut inside a line, named by what they define."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from graphsvc.ingest.chunks import MAX_TOKENS, chunk_text, estimate_tokens, language_of, outline, summary_line

PYTHON = '''"""Serves things.

More.
"""
import os

LIMIT = 3


# Why serve exists.
@decorated
def serve(port):
    """Serves."""
{serve}


def small():
    return 1


def smaller():
    return 2


class Server:
    """A server."""

    def start(self):
{start}

    async def stop(self):
{stop}
'''


LINES = [
    "", "", "# Head", "def f():", "    return 1", "class A:", "    def g(self):", "text " * 40, "```", "x = '''",
    "@deco", "漢字" * 60, "{", "\x0c", "func a() {",
]  # fmt: skip


def python_source() -> str:
    lines = "\n".join(f"        value_{n} = compute(value_{n}, {n}, option='some text here')" for n in range(12))
    return PYTHON.format(serve=lines, start=lines, stop=lines)


def names(path: str, text: str) -> list[str]:
    return [chunk.name for chunk in chunk_text(path, text)]


def test_python_is_cut_by_definition() -> None:
    text = python_source().replace("        value_", "    value_", 12)
    chunks = {chunk.name: chunk for chunk in chunk_text("a/app.py", text)}
    assert list(chunks) == ["serve", "small", "Server", "Server.stop"]
    assert chunks["serve"].text.startswith('"""Serves things.')
    assert "\n# Why serve exists.\n@decorated\ndef serve" in chunks["serve"].text
    assert chunks["serve"].label == "def serve"
    assert chunks["small"].label == "def small, def smaller"
    assert chunks["Server"].label == "class Server, def Server.start"


def test_python_that_does_not_parse_is_cut_like_text() -> None:
    assert chunk_text("old.py", "print 'hello'\n\nprint 'again'\n")[0].text == "print 'hello'\n\nprint 'again'"


def test_markdown_is_cut_by_heading_outside_fences() -> None:
    body = "word " * 150
    text = f"intro {body}\n\n# One\n{body}\n```sh\n# not a heading\n```\n\n## Two\n{body}\n\nThree\n=====\n{body}"
    assert names("README.md", text) == ["", "One", "Two", "Three"]
    assert chunk_text("README.md", text)[2].label == "One > Two"
    assert [found.label for found in outline("README.md", text)] == ["# One", "## Two", "# Three"]


def test_a_large_module_head_stays_apart() -> None:
    head = "import os\n" + "\n".join(f"CONSTANT_{n} = 'some value that is long enough'" for n in range(15))
    body = "\n".join(f"    value_{n} = compute(value_{n}, {n}, option='text')" for n in range(12))
    assert names("a.py", f"{head}\n\n\ndef f():\n{body}\n") == ["", "f"]


def test_small_sections_share_a_chunk_named_by_the_largest() -> None:
    words = "\n".join(["some words of a longer section"] * 30)
    text = f"# A\n\n## B\ny\n\n## C\n{words}\n\n## D\n{words}\n\n## E\n{words}"
    assert names("a.md", text) == ["C", "D", "E"]
    assert chunk_text("a.md", text)[0].label == "A, A > B, A > C"


def test_other_languages_are_named_by_their_definitions() -> None:
    body = "\n".join(f"  call{n}(argument, anotherArgument);" for n in range(25))
    text = f"export async function load(a) {{\n{body}\n\n  more();\n}}\n\nexport class Store {{\n{body}\n}}\n"
    assert names("src/a.ts", text) == ["load", "Store"]
    assert [found.label for found in outline("src/a.ts", text)] == ["function load", "class Store"]
    assert [d.label for d in outline("a.go", "func (s *Server) Run() {\n}\ntype T struct {}\n")] == [
        "func Run",
        "type T",
    ]
    assert [d.label for d in outline("a.c", "static int main(int a) {\n  if (x) {\n}\nstruct s {\n")] == [
        "main",
        "struct s",
    ]
    assert [d.label for d in outline("a.proto", "message Unit {\n")] == ["message Unit"]


def test_a_long_definition_is_cut_at_lines() -> None:
    text = "def huge():\n" + "\n".join(f"    number_{n} = {n}" for n in range(600)) + "\n"
    chunks = chunk_text("a.py", text)
    assert len(chunks) > 3
    assert [chunk.name for chunk in chunks[:2]] == ["huge.1", "huge.2"]
    assert all(estimate_tokens(chunk.text) <= MAX_TOKENS for chunk in chunks)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from(LINES), max_size=80),
    st.sampled_from(["a.py", "a.md", "a.txt", "a.go", "a.json", "Makefile"]),
)
def test_every_line_is_in_exactly_one_chunk(lines: list[str], path: str) -> None:
    text = "\n".join(lines)
    real = text.split("\n")
    covered = [number for chunk in chunk_text(path, text) for number in range(chunk.start, chunk.end + 1)]
    assert covered == sorted(set(covered))
    assert {n for n, line in enumerate(real, 1) if line.strip()} <= set(covered)
    for chunk in chunk_text(path, text):
        assert chunk.text == "\n".join(real[chunk.start - 1 : chunk.end])
        assert estimate_tokens(chunk.text) <= MAX_TOKENS + 2 or chunk.start == chunk.end


def test_languages_and_summaries() -> None:
    assert (language_of("a/Makefile"), language_of("x.PY"), language_of("noext")) == ("Makefile", "Python", "")
    assert summary_line("a.py", '"""Does this.\n\nMore."""\n') == "Does this."
    assert summary_line("a.md", "# Title\n\nFirst words.\n") == "First words."
    assert summary_line("a.go", "// Package a does things.\npackage a\n") == "Package a does things."
