"""Imports resolve to files of the same repository, and to nothing else."""

from __future__ import annotations

from graphsvc.ingest.imports import find_dependencies, is_test


def edges(files: dict[str, str]) -> set[tuple[str, str, str]]:
    return {(d.source, d.target, d.role) for d in find_dependencies(files)}


def test_python() -> None:
    found = edges(
        {
            "pkg/__init__.py": "from pkg.core import Thing\n",
            "pkg/core.py": "import json, os\nfrom . import names\nfrom .sub.deep import x as y\nimport pkg.sub\n",
            "pkg/names.py": "",
            "pkg/json.py": "",
            "pkg/sub/__init__.py": "",
            "pkg/sub/deep.py": "from ..names import a\nfrom ...outside import b\nfrom pkg import core\n",
            "src/other/__init__.py": "",
            "src/other/mod.py": "from other import helper\nimport numpy\n",
            "src/other/helper.py": "def broken(:\n",
            "tests/test_core.py": "from pkg.core import Thing\nfrom tests.support import thing\nimport other.mod\n",
            "tests/support.py": "",
        }
    )
    assert found == {
        ("pkg/__init__.py", "pkg/core.py", "imports"),
        ("pkg/core.py", "pkg/names.py", "imports"),
        ("pkg/core.py", "pkg/sub/deep.py", "imports"),
        ("pkg/core.py", "pkg/sub/__init__.py", "imports"),
        ("pkg/sub/deep.py", "pkg/names.py", "imports"),
        ("pkg/sub/deep.py", "pkg/core.py", "imports"),
        ("src/other/mod.py", "src/other/helper.py", "imports"),
        ("tests/test_core.py", "pkg/core.py", "tests"),
        ("tests/test_core.py", "src/other/mod.py", "tests"),
        ("tests/test_core.py", "tests/support.py", "imports"),
    }


def test_scripts() -> None:
    found = edges(
        {
            "web/app.ts": "import { a } from './lib/a.js';\nimport x from 'react';\nexport * from './ui';\n",
            "web/lib/a.ts": "const b = require('../b');\nawait import('./lazy')\n",
            "web/lib/lazy.tsx": "",
            "web/b.js": "import '@/shared'\n",
            "web/ui/index.tsx": "",
            "src/shared.ts": "",
            "web/app.test.ts": "import { run } from './app'\n",
        }
    )
    assert found == {
        ("web/app.ts", "web/lib/a.ts", "imports"),
        ("web/app.ts", "web/ui/index.tsx", "imports"),
        ("web/lib/a.ts", "web/b.js", "imports"),
        ("web/lib/a.ts", "web/lib/lazy.tsx", "imports"),
        ("web/b.js", "src/shared.ts", "imports"),
        ("web/app.test.ts", "web/app.ts", "tests"),
    }


def test_go_c_and_proto() -> None:
    found = edges(
        {
            "go.mod": "module example.com/m\n",
            "main.go": 'import (\n\t"fmt"\n\tx "example.com/m/pkg/x"\n)\n',
            "pkg/x/x.go": "package x\n",
            "pkg/x/x_test.go": "package x\n",
            "c/main.c": '#include "util.h"\n#include <stdio.h>\n#include <proj/api.h>\n',
            "c/util.h": "",
            "include/proj/api.h": "",
            "proto/a/v1/a.proto": 'import "a/v1/b.proto";\nimport "google/protobuf/timestamp.proto";\n',
            "proto/a/v1/b.proto": "",
        }
    )
    assert found == {
        ("main.go", "pkg/x/x.go", "imports"),
        ("pkg/x/x_test.go", "pkg/x/x.go", "tests"),
        ("c/main.c", "c/util.h", "imports"),
        ("c/main.c", "include/proj/api.h", "imports"),
        ("proto/a/v1/a.proto", "proto/a/v1/b.proto", "imports"),
    }


def test_documents_mention_files() -> None:
    found = edges(
        {
            "README.md": "See [guide](docs/guide.md#top), [web](https://x.y/docs/guide.md), [d](sub), `app/main.py`.\n",
            "docs/guide.md": "Back to [home](../README.md), [app][a].\n\n[a]: ../app/main.py\n[out](../../etc/passwd)",
            "app/main.py": "",
            "sub/README.md": "[spaced](<../docs/guide.md>) [me](README.md)",
        }
    )
    assert found == {
        ("README.md", "docs/guide.md", "mentions"),
        ("README.md", "app/main.py", "mentions"),
        ("README.md", "sub/README.md", "mentions"),
        ("docs/guide.md", "README.md", "mentions"),
        ("docs/guide.md", "app/main.py", "mentions"),
        ("sub/README.md", "docs/guide.md", "mentions"),
    }


def test_what_is_a_test() -> None:
    assert all(is_test(p) for p in ("tests/a.py", "a/test_x.py", "x_test.go", "a.spec.ts", "a.test.js"))
    assert not any(is_test(p) for p in ("src/contest.py", "latest.py", "attestation/a.go"))
