"""Which units and edges a repository becomes, over several ingests of a service that keeps what it was given."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from graphsvc.domain.content import check_content, check_name, check_path
from graphsvc.domain.units import ContextUnitKind, EdgeType
from graphsvc.ingest.git import Source, read_source
from graphsvc.ingest.markdown import plan_documents, read_documents
from graphsvc.ingest.plan import KnownUnit, Plan, PlannedRelation, PlannedUnit, path_name, plan_source
from tests.support.git_repos import GitRepo

NOW = datetime(2026, 6, 1, tzinfo=UTC)
BODY = "\n".join(f"    value_{n} = compute({n}, 'some words to make it long enough')" for n in range(12))


class Graph:
    """What a service would hold after the plans given to it, with its rules checked."""

    def __init__(self) -> None:
        self.units: dict[str, PlannedUnit] = {}
        self.edges: dict[tuple[str, PlannedRelation], None] = {}

    @property
    def known(self) -> dict[str, KnownUnit]:
        return {
            key: KnownUnit(key, u.path, key in self.superseded, frozenset(r for s, r in self.edges if s == key))
            for key, u in self.units.items()
        }

    @property
    def superseded(self) -> set[str]:
        return {r.target_key for _, r in self.edges if r.edge_type is EdgeType.SUPERSESSION}

    def current(self, prefix: str = "file:") -> set[str]:
        return {key for key in self.units if key.startswith(prefix)} - self.superseded

    def current_chunks(self, path: str) -> list[PlannedUnit]:
        return [self.units[key] for key in sorted(self.current("chunk:")) if self.units[key].path == path]

    def write(self, plan: Plan, *, stop_after: int | None = None) -> list[str]:
        """Keys of what was new; broken off after so many new units."""
        new: list[str] = []
        for unit in plan.units:
            if unit.key in self.units:
                for relation in unit.relations:
                    self.link(unit.key, relation)
                continue
            if stop_after is not None and len(new) >= stop_after:
                return new
            check_content(unit.content, "content")
            check_name(unit.key, "unit_key")
            check_path(unit.path, "path")
            assert unit.timestamp <= NOW
            self.units[unit.key] = unit
            new.append(unit.key)
            for relation in unit.relations:
                self.link(unit.key, relation)
        for edge in plan.edges:
            self.link(edge.source_key, edge.relation)
        return new

    def link(self, source: str, relation: PlannedRelation) -> None:
        assert relation.target_key in self.units, f"{source} before {relation.target_key}"
        assert relation.target_key != source
        if (source, relation) not in self.edges and relation.edge_type is EdgeType.SUPERSESSION:
            order = list(self.units)
            assert order.index(source) > order.index(relation.target_key), "a unit supersedes older units only"
        self.edges[source, relation] = None

    def ingest(
        self, path: Path | Source, *, commits: int = 200, versions: int = 5, stop_after: int | None = None
    ) -> list[str]:
        source = read_source(path, commits) if isinstance(path, Path) else path
        plan = plan_source(source, self.known, now=NOW, versions_per_file=versions)
        return self.write(plan, stop_after=stop_after)

    def targets(self, source: str, edge_type: EdgeType) -> list[tuple[str, str]]:
        return [(r.target_key, r.role) for s, r in self.edges if s == source and r.edge_type is edge_type]


def blob(repo: GitRepo, path: str, at: str = "HEAD") -> str:
    return repo.git("rev-parse", f"{at}:{path}")[:12]


def function(name: str, word: str = "x") -> str:
    return f"def {name}():\n    '''{word}'''\n{BODY}\n"


def test_files_chunks_and_commits(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "app")
    first = repo.commit(
        "one\n\nbecause", {"pkg/a.py": function("alpha") + "\n\n" + function("beta"), "README.md": "# App\nHi"}
    )
    second = repo.commit(
        "two", {"pkg/b.py": "from pkg.a import alpha\n", "data.json": '{"a": [1]}', "p.html": "<p>hi</p>"}
    )
    graph = Graph()
    graph.ingest(repo.path)
    a = f"file:pkg/a.py@{blob(repo, 'pkg/a.py')}"
    file = graph.units[a]
    assert file.kind is ContextUnitKind.STATE_SNAPSHOT
    assert file.path == "pkg/a.py"
    assert file.content.splitlines()[0].startswith("pkg/a.py (Python, ")
    assert "Defines: def alpha (1), def beta (" in file.content
    chunks = graph.current_chunks("pkg/a.py")
    assert [c.key for c in chunks] == [f"chunk:{a[5:]}#0001:alpha", f"chunk:{a[5:]}#0002:beta"]
    assert chunks[0].content.startswith("pkg/a.py:1-14 def alpha\ndef alpha():")
    assert graph.targets(chunks[0].key, EdgeType.PROVENANCE) == [(a, "chunk")]
    assert graph.current_chunks("data.json")[0].content == 'data.json:1-1\n```json\n{"a": [1]}\n```'
    assert graph.current_chunks("p.html")[0].content == "p.html:1-1\n```html\n<p>hi</p>\n```"
    commit = graph.units[f"commit:{first}"]
    assert commit.kind is ContextUnitKind.DECISION
    assert commit.content.startswith(f"commit {first[:12]} of 2026-01-01 by Ada Lovelace\none\n\nbecause\n")
    assert "- pkg/a.py added (+30 −0)" in commit.content
    assert (a, "added") in graph.targets(commit.key, EdgeType.CAUSATION)
    assert commit.timestamp == file.timestamp == datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    b = f"file:pkg/b.py@{blob(repo, 'pkg/b.py')}"
    assert graph.targets(b, EdgeType.DEPENDENCY) == [(a, "imports")]
    assert file.provenance == (f"commit {first}", "git app")
    assert f"commit:{second}" in graph.units


def test_twice_changes_nothing(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "app")
    repo.commit("one", {"a.py": function("a"), "b.py": "import a\n"})
    repo.commit("two", {"a.py": function("a", "y")})
    graph = Graph()
    graph.ingest(repo.path)
    edges = dict(graph.edges)
    assert graph.ingest(repo.path) == []
    assert graph.ingest(repo.path, commits=1) == []
    assert graph.edges == edges


def test_a_new_commit_writes_only_what_changed(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "app")
    two = function("alpha") + "\n\n" + function("beta") + "\n\n" + function("gone")
    repo.commit("one", {"a.py": two, "b.py": "import a\n" + function("other")})
    graph = Graph()
    graph.ingest(repo.path)
    old = f"file:a.py@{blob(repo, 'a.py')}"
    old_chunks = [c.key for c in graph.current_chunks("a.py")]
    commit = repo.commit("two", {"a.py": "import os\n\n\n" + function("new") + "\n\n" + function("beta", "changed")})
    new = graph.ingest(repo.path)
    a = f"file:a.py@{blob(repo, 'a.py')}"
    assert new[0] == a
    assert new[-1] == f"commit:{commit}"
    assert {graph.units[key].path for key in new} == {"a.py", ""}
    # beta replaces beta; alpha and gone have no successor of their name: the file's new version supersedes them
    assert graph.targets(a, EdgeType.SUPERSESSION) == [
        (old, "version"),
        (old_chunks[0], "replaces"),
        (old_chunks[2], "replaces"),
    ]
    beta = next(c for c in graph.current_chunks("a.py") if c.key.endswith(":beta"))
    assert graph.targets(beta.key, EdgeType.SUPERSESSION) == [(old_chunks[1], "replaces")]
    assert not set(old_chunks) & graph.current("chunk:")
    # what imports it now depends on both: the old edge stays true of the past
    b = f"file:b.py@{blob(repo, 'b.py')}"
    assert graph.targets(b, EdgeType.DEPENDENCY) == [(old, "imports"), (a, "imports")]


def test_unnamed_chunks_are_matched_by_position(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "app")
    paragraphs = [f"Paragraph {n}. " + "words and more words " * 50 for n in range(3)]
    repo.commit("one", {"a.txt": "\n\n".join(paragraphs)})
    graph = Graph()
    graph.ingest(repo.path)
    old = [c.key for c in graph.current_chunks("a.txt")]
    assert len(old) == 3
    repo.commit("two", {"a.txt": "\n\n".join([paragraphs[0], "Changed. " + paragraphs[1]])})
    graph.ingest(repo.path)
    new = [c.key for c in graph.current_chunks("a.txt")]
    assert [graph.targets(key, EdgeType.SUPERSESSION)[0][0] for key in new] == old[:2]
    assert old[2] in graph.superseded


def test_history_within_the_window(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "app")
    commits = [repo.commit(f"c{n}", {"a.py": function("a", f"v{n}")}) for n in range(8)]
    graph = Graph()
    graph.ingest(repo.path, versions=3)
    keys = [f"file:a.py@{blob(repo, 'a.py', commit)}" for commit in commits]
    assert [key in graph.units for key in keys] == [False] * 5 + [True] * 3
    assert graph.current() == {keys[-1]}
    assert graph.targets(keys[-1], EdgeType.SUPERSESSION) == [(keys[-2], "version")]
    assert graph.units[keys[-2]].content.startswith(f"a.py: earlier version {keys[-2][-12:]}, changed by commit ")
    assert graph.targets(f"commit:{commits[-2]}", EdgeType.CAUSATION) == [(keys[-2], "changed")]
    assert graph.targets(f"commit:{commits[0]}", EdgeType.CAUSATION) == []
    assert [k for k in graph.units if k.startswith("chunk:")] == [f"chunk:{keys[-1][5:]}#0001:a"]


def test_a_file_older_than_the_window_is_dated_as_its_oldest_commit(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "app")
    repo.commit("one", {"a.py": "x = 1"})
    repo.commit("two", {"b.py": "y = 1"})
    graph = Graph()
    graph.ingest(repo.path, commits=1)
    key = f"file:a.py@{blob(repo, 'a.py')}"
    assert graph.units[key].timestamp == datetime(2026, 1, 1, 0, 2, tzinfo=UTC)
    assert graph.ingest(repo.path, commits=2) == []


def test_renames_deletions_and_comebacks(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "app")
    repo.commit("one", {"old.py": function("a"), "gone.py": function("g")})
    graph = Graph()
    graph.ingest(repo.path)
    old, gone = (f"file:{p}@{blob(repo, p)}" for p in ("old.py", "gone.py"))
    old_chunk, gone_chunk = old.replace("file:", "chunk:") + "#0001:a", gone.replace("file:", "chunk:") + "#0001:g"
    repo.git("mv", "old.py", "new.py")
    renamed = repo.commit("two", {"new.py": function("a") + "# more\n"}, remove=("gone.py",))
    graph.ingest(repo.path)
    new, tombstone = f"file:new.py@{blob(repo, 'new.py')}", "file:gone.py@000000000000"
    assert graph.targets(new, EdgeType.SUPERSESSION) == [(old, "version")]
    assert graph.targets(graph.current_chunks("new.py")[0].key, EdgeType.SUPERSESSION) == [(old_chunk, "replaces")]
    assert graph.targets(tombstone, EdgeType.SUPERSESSION) == [(gone, "version"), (gone_chunk, "replaces")]
    assert graph.units[tombstone].content.startswith("gone.py: deleted by commit ")
    assert graph.targets(f"commit:{renamed}", EdgeType.CAUSATION) == [(tombstone, "deleted"), (new, "renamed")]
    assert graph.current() == {new, tombstone}
    repo.commit("three", {"gone.py": function("g")})
    graph.ingest(repo.path)
    assert graph.current() == {new, gone + "~2"}
    assert graph.targets(gone + "~2", EdgeType.SUPERSESSION) == [(tombstone, "version")]
    assert [c.key for c in graph.current_chunks("gone.py")] == [gone_chunk.replace("#", "~2#")]
    assert graph.ingest(repo.path) == []


def test_reverts_and_mode_changes(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "app")
    for word in ("x", "y", "x"):
        repo.commit(word, {"a.py": function("a", word)})
    (repo.path / "a.py").chmod(0o755)
    repo.commit("executable")
    graph = Graph()
    graph.ingest(repo.path)
    versions = [key for key in graph.units if key.startswith("file:")]
    assert len(versions) == 3
    assert versions[2] == versions[0] + "~2"
    assert graph.current() == {versions[2]}


def test_every_break_can_be_continued(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "app")
    repo.commit("one", {f"m{n}.py": f"import m{n + 1}\n" + function(f"f{n}") for n in range(4)})
    repo.commit("two", {"m1.py": function("f1", "changed"), "m2.py": function("f2", "changed")})
    repo.git("mv", "m3.py", "m9.py")
    repo.commit("three", remove=("m0.py",))
    source = read_source(repo.path, 200)
    whole = Graph()
    total = len(whole.ingest(source))
    for stop in range(total):
        graph = Graph()
        graph.ingest(source, stop_after=stop)
        graph.ingest(source)
        assert set(graph.units) == set(whole.units)
        assert set(graph.edges) == set(whole.edges)
        assert graph.ingest(source) == []


def test_every_break_of_a_second_ingest_can_be_continued(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "app")
    repo.commit("one", {"a.py": function("a") + "\n\n" + function("b") + "\n\n" + function("c"), "b.py": function("x")})
    before = Graph()
    before.ingest(repo.path)
    repo.commit(
        "two", {"a.py": function("b", "new") + "\n\n" + function("c", "new"), "c.py": "import a\n"}, remove=("b.py",)
    )
    source = read_source(repo.path, 200)
    stop = 0
    while True:
        graph = Graph()
        graph.units, graph.edges = dict(before.units), dict(before.edges)
        done = len(graph.ingest(source, stop_after=stop)) < stop
        graph.ingest(source)
        assert graph.ingest(source) == []
        a = f"file:a.py@{blob(repo, 'a.py')}"
        assert graph.current() == {a, f"file:c.py@{blob(repo, 'c.py')}", "file:b.py@000000000000"}
        assert [c.key.rsplit(":", 1)[1] for c in graph.current_chunks("a.py")] == ["b", "c"]
        assert graph.current_chunks("b.py") == []
        if done:
            break
        stop += 1


def test_history_rewritten_and_gaps(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "app")
    repo.commit("one", {"a.py": function("a", "1"), "b.py": function("b")})
    start = repo.git("rev-parse", "HEAD")
    repo.commit("two", {"a.py": function("a", "2")})
    graph = Graph()
    graph.ingest(repo.path)
    repo.git("reset", "-q", "--hard", start)
    repo.commit("other", {"c.py": function("c")})
    graph.ingest(repo.path)
    assert f"file:a.py@{blob(repo, 'a.py')}~2" in graph.current()
    for n in range(5):
        repo.commit(f"gap {n}", {"a.py": function("a", f"gap{n}")}, remove=("b.py",) if n == 0 else ())
    graph.ingest(repo.path, commits=2)
    assert graph.current() == {
        f"file:a.py@{blob(repo, 'a.py')}", f"file:c.py@{blob(repo, 'c.py')}", "file:b.py@000000000000",
    }  # fmt: skip
    assert graph.units["file:b.py@000000000000"].content == "b.py: no longer in app"
    assert {c.path for c in graph.units.values() if c.key in graph.current("chunk:")} == {"a.py", "c.py"}


def test_a_file_that_is_no_longer_wanted(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "app")
    repo.commit("one", {"a.txt": "text", "b.txt": "x"})
    graph = Graph()
    graph.ingest(repo.path)
    repo.commit("two", {"a.txt": b"\x00binary"})
    graph.ingest(repo.path)
    assert graph.units["file:a.txt@000000000000"].content == "a.txt: no longer ingested"
    assert graph.current_chunks("a.txt") == []
    assert graph.ingest(repo.path) == []


def test_a_folder_twice_and_changed(tmp_path: Path) -> None:
    root = tmp_path / "unpacked"
    root.mkdir()
    (root / "a.py").write_text(function("a"))
    (root / "b.py").write_text("import a\n")
    graph = Graph()
    graph.ingest(root)
    assert not [key for key in graph.units if key.startswith("commit:")]
    assert graph.ingest(root) == []
    (root / "a.py").write_text(function("a", "changed"))
    (root / "b.py").unlink()
    new = graph.ingest(root)
    assert sorted(key.split("@")[0] for key in new) == ["chunk:a.py", "file:a.py", "file:b.py"]


def test_markdown(tmp_path: Path) -> None:
    root = tmp_path / "docs"
    root.mkdir()
    words = "word " * 200
    (root / "a.md").write_text(f"# A\nSee [b](b.md).\n{words}\n\n## Part\n{words}")
    (root / "b.md").write_text("# B\nText")
    (root / "c.py").write_text("x = 1")
    graph = Graph()
    plan = plan_documents(read_documents(root), graph.known, now=NOW)
    graph.write(plan)
    assert {unit.kind for unit in graph.units.values()} == {ContextUnitKind.OBSERVATION}
    assert Counter(unit.path for unit in graph.units.values()) == {"a.md": 3, "b.md": 2}
    a, b = sorted(graph.current())
    assert graph.targets(a, EdgeType.DEPENDENCY) == [(b, "mentions")]
    assert graph.current_chunks("a.md")[1].content.startswith("a.md:5-6 A > Part\n## Part")
    assert graph.write(plan_documents(read_documents(root), graph.known, now=NOW)) == []


def test_odd_names(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "app")
    long = "/".join(["d" * 100] * 5) + "/long.py"
    repo.commit(
        "odd\x01 \u2028 names",
        {"<p>.txt": "<p>hi</p>", "[1].json": "[1]", "a\nb.py": "x = 1", "\u6f22 \u00fc.md": "# \u6f22",
         long: function("f"), "esc.txt": "a\x01b\x1b[0m", "at@x~2#1.txt": "t"},
    )  # fmt: skip
    graph = Graph()
    graph.ingest(repo.path)
    assert graph.ingest(repo.path) == []
    repo.commit("again", {long: function("f", "y"), "at@x~2#1.txt": "u"})
    graph.ingest(repo.path)
    assert len([key for key in graph.current() if "long.py" in key]) == 1
    assert len([key for key in graph.current() if "at@x" in key]) == 1
    assert path_name("x" * 500) != path_name("x" * 501)
    assert len(path_name("\u6f22" * 500).encode()) <= 150


def test_large_commits_and_many_chunks_stay_within_the_limits(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "app")
    commit = repo.commit("many", {f"f{n:03}.txt": str(n) for n in range(300)})
    graph = Graph()
    graph.ingest(repo.path)
    assert len(graph.targets(f"commit:{commit}", EdgeType.CAUSATION)) == 256
    assert "- and 280 more added" in graph.units[f"commit:{commit}"].content
