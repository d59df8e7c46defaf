"""Finds which files of a repository use which others: imports, includes, tests and links between documents.

Only what resolves to a file of the same repository counts; installed packages and the web do not.
Source: gate N2 (imports, mentions, tests are dependencies with a role).
"""

from __future__ import annotations

import ast
import posixpath
import re
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from graphsvc.ingest.chunks import language_of

IMPORTS = "imports"
TESTS = "tests"
MENTIONS = "mentions"
MAX_TARGETS = 200
"""Edges of one file at most: an index that names every file says nothing about any."""
_MAX_PACKAGE_FILES = 10

_TEST_NAME = re.compile(r"^(test_.*|.*_test|.*[.-](test|spec)|tests?|conftest)$")
_TEST_DIRECTORIES = frozenset({"test", "tests", "__tests__", "spec", "specs"})
_SCRIPT_IMPORT = re.compile(
    r"""(?:\bfrom\s*|\bimport\s*\(?\s*|\brequire\s*\(\s*)(["'])(?P<target>[^"'\n]{1,300})\1""",
)
_SCRIPT_SUFFIXES = (
    ".ts", ".tsx", ".d.ts", ".mts", ".js", ".jsx", ".mjs", ".cjs", ".vue", ".svelte", ".json", "/index.ts",
    "/index.tsx", "/index.js", "/index.jsx",
)  # fmt: skip
_GO_BLOCK = re.compile(r"^import\s*\((?P<block>.*?)^\)", re.MULTILINE | re.DOTALL)
_GO_LINE = re.compile(r'^import\s+(?:[\w.]+\s+)?"(?P<target>[^"\n]+)"', re.MULTILINE)
_GO_MODULE = re.compile(r"^module\s+(\S+)", re.MULTILINE)
_INCLUDE = re.compile(r'^\s*#\s*include\s*(?P<open>["<])(?P<target>[^">\n]+)[">]', re.MULTILINE)
_PROTO_IMPORT = re.compile(r'^\s*import\s+(?:public\s+|weak\s+)?"(?P<target>[^"\n]+)"\s*;', re.MULTILINE)
_LINK = re.compile(
    r"\]\(\s*<?(?P<inline>[^)>\s]{1,500})|^\s{0,3}\[[^\]\n]+\]:\s*<?(?P<reference>[^>\s]+)", re.MULTILINE
)
_CODE_PATH = re.compile(r"`(?P<target>[\w./@+-]{3,200})`")
_ELSEWHERE = re.compile(r"^([a-z][a-z0-9+.-]*:|//|#)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, order=True)
class FileDependency:
    """``source`` needs ``target``; both are paths."""

    source: str
    target: str
    role: str


def is_test(path: str) -> bool:
    """Whether a path names a test by the usual conventions."""
    *directories, name = path.lower().split("/")
    return any(part in _TEST_DIRECTORIES for part in directories) or bool(_TEST_NAME.match(name.rsplit(".", 1)[0]))


def find_dependencies(files: Mapping[str, str]) -> list[FileDependency]:
    """Dependencies between these files, sorted; at most 200 from each.

    Args:
        files: text by path.
    """
    index = _Index(files)
    found: list[FileDependency] = []
    for path in sorted(files):
        mentions = language_of(path) in ("Markdown", "reStructuredText")
        targets = sorted({target for target in _targets(path, files[path], index) if target != path})
        for target in targets[:MAX_TARGETS]:
            role = MENTIONS if mentions else TESTS if is_test(path) and not is_test(target) else IMPORTS
            found.append(FileDependency(path, target, role))
    return found


class _Index:
    """Where the files of a repository are, for the ways languages name them."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.paths = frozenset(files)
        self.python_roots = self._find_python_roots()
        by_name: dict[str, list[str]] = defaultdict(list)
        for path in sorted(files):
            by_name[path.rsplit("/", 1)[-1]].append(path)
        self._by_name = by_name
        self.go_modules = {
            module[1]: posixpath.dirname(path)
            for path, text in files.items()
            if posixpath.basename(path) == "go.mod" and (module := _GO_MODULE.search(text))
        }
        self.go_packages: dict[str, list[str]] = defaultdict(list)
        for path in sorted(files):
            if path.endswith(".go") and not path.endswith("_test.go"):
                self.go_packages[posixpath.dirname(path)].append(path)

    def _find_python_roots(self) -> list[str]:
        """Directories from which modules are imported: those that hold a top-level package or module, top first."""
        roots: set[str] = {""}
        for path in self.paths:
            if not path.endswith((".py", ".pyi")):
                continue
            directory = posixpath.dirname(path)
            while directory and f"{directory}/__init__.py" in self.paths:
                directory = posixpath.dirname(directory)
            roots.add(directory)
        return sorted(roots, key=lambda root: (root.count("/") + bool(root), root))

    def unique_ending(self, ending: str) -> str | None:
        """The one path that ends with these whole components; None when there is none or several."""
        ending = posixpath.normpath(ending).lstrip("./")
        candidates = [
            path
            for path in self._by_name.get(ending.rsplit("/", 1)[-1], ())
            if path == ending or path.endswith("/" + ending)
        ]
        return candidates[0] if len(candidates) == 1 else None


def _targets(path: str, text: str, index: _Index) -> Iterable[str]:
    language = language_of(path)
    if language == "Python":
        return _python_targets(path, text, index)
    if language in ("JavaScript", "TypeScript", "Vue", "Svelte"):
        return _script_targets(path, text, index)
    if language == "Go":
        return _go_targets(path, text, index)
    if language in ("C", "C++"):
        return _include_targets(path, text, index)
    if language == "Protocol Buffers":
        return _proto_targets(path, text, index)
    if language in ("Markdown", "reStructuredText"):
        return document_targets(path, text, index.paths)
    return ()


def _python_targets(path: str, text: str, index: _Index) -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            module = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _absolute(path, alias.name.split("."), index)
        elif isinstance(node, ast.ImportFrom):
            parts = node.module.split(".") if node.module else []
            for alias in node.names:
                if node.level:
                    base = posixpath.dirname(path)
                    for _ in range(node.level - 1):
                        base = posixpath.dirname(base)
                    found = _module_file(base, [*parts, alias.name], index) or _module_file(base, parts, index)
                    if found:
                        yield found
                else:
                    yield from _absolute(path, [*parts, alias.name], index, least=len(parts))


def _absolute(path: str, parts: list[str], index: _Index, least: int = 1) -> Iterator[str]:
    """The file of an absolute import: the longest prefix, of at least ``least`` parts or else any, that is a file."""
    if parts[0] in sys.stdlib_module_names:
        return  # a module of the same name hides the standard library only by mistake
    own = posixpath.dirname(path)
    near = [root for root in index.python_roots if root and (own == root or own.startswith(root + "/"))]
    roots = [root for root in reversed(near) if root not in (own,)] + [r for r in index.python_roots if r not in near]
    roots.append(own)  # a script's own directory is searched too
    for length in range(len(parts), min(least, len(parts)) - 1, -1):
        for root in roots:
            if found := _module_file(root, parts[:length], index):
                yield found
                return


def _module_file(root: str, parts: list[str], index: _Index) -> str | None:
    base = posixpath.join(root, *parts) if parts else root
    names = [f"{base}/__init__.py"] if base else []
    if parts:
        names = [f"{base}.py", *names, f"{base}.pyi"]
    return next((name for name in names if name in index.paths), None)


def _script_targets(path: str, text: str, index: _Index) -> Iterator[str]:
    for found in _SCRIPT_IMPORT.finditer(text):
        target = found["target"]
        if target.startswith("."):
            base = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        elif target.startswith(("@/", "~/")):
            base = "src/" + target[2:]
        else:
            continue
        # TypeScript sources import the names of the files that they are compiled to.
        stem = re.sub(r"\.(js|jsx|mjs)$", "", base)
        names = [base, *(base + s for s in _SCRIPT_SUFFIXES), *(stem + s for s in (".ts", ".tsx", ".mts"))]
        if hit := next((name for name in names if name in index.paths), None):
            yield hit


def _go_targets(path: str, text: str, index: _Index) -> Iterator[str]:
    targets = [found["target"] for found in _GO_LINE.finditer(text)]
    for block in _GO_BLOCK.finditer(text):
        targets.extend(re.findall(r'"([^"\n]+)"', block["block"]))
    for target in targets:
        for module, directory in index.go_modules.items():
            if target == module or target.startswith(module + "/"):
                package = posixpath.normpath(posixpath.join(directory, target[len(module) :].lstrip("/")))
                yield from index.go_packages.get("" if package == "." else package, ())[:_MAX_PACKAGE_FILES]
    if path.endswith("_test.go"):
        subject = path.removesuffix("_test.go") + ".go"
        if subject in index.paths:
            yield subject


def _include_targets(path: str, text: str, index: _Index) -> Iterator[str]:
    for found in _INCLUDE.finditer(text):
        target = found["target"].strip()
        beside = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        if found["open"] == '"' and beside in index.paths:
            yield beside
        elif (found["open"] == '"' or "/" in target) and (hit := index.unique_ending(target)):
            yield hit


def _proto_targets(path: str, text: str, index: _Index) -> Iterator[str]:
    for found in _PROTO_IMPORT.finditer(text):
        target = found["target"]
        # Import roots are ancestors of the importing file's directory in nearly every repository: nearest first.
        root: str = posixpath.dirname(path)
        while True:
            candidate = posixpath.join(root, target)
            if candidate in index.paths:
                yield candidate
                break
            if not root:
                if hit := index.unique_ending(target):
                    yield hit
                break
            root = posixpath.dirname(root)


def document_targets(path: str, text: str, paths: frozenset[str]) -> Iterator[str]:
    """Files that a document links to or names in code quotes, of those in ``paths``."""
    here = posixpath.dirname(path)
    for found in _LINK.finditer(text):
        target = found["inline"] or found["reference"] or ""
        if _ELSEWHERE.match(target):
            continue
        target = unquote(target.split("#", 1)[0].split("?", 1)[0])
        names = [target.lstrip("/")] if target.startswith("/") else [posixpath.join(here, target), target]
        yield from _first_file(names, paths)
    for found in _CODE_PATH.finditer(text):
        target = found["target"]
        if "/" in target or "." in target:
            yield from _first_file([target, posixpath.join(here, target)], paths)


def _first_file(names: Iterable[str], paths: frozenset[str]) -> Iterator[str]:
    for name in names:
        normal = posixpath.normpath(name)
        for candidate in (normal, f"{normal}/README.md"):
            if candidate in paths:
                yield candidate
                return
