"""References of a memory to files: what is one and what only looks like one, what is stale, what a rename changes."""

from __future__ import annotations

import posixpath

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrimshaw.ingest.references import Rename, find_references, find_stale, follow_renames, rewrite_references

ARE_REFERENCES = [
    ("See `src/app/main.py`.", ["src/app/main.py"]),
    ("See ``src/app/main.py`` and `docs/a.md`.", ["src/app/main.py", "docs/a.md"]),
    ("`src/app/main.py:42` `src/b.py:3-9` `src/c.py#L7` `tests/t.py::test_x`",
     ["src/app/main.py", "src/b.py", "src/c.py", "tests/t.py"]),
    ("`./run/it` and `../x/y`", ["./run/it", "../x/y"]),
    ("`specs/003-login/` holds it", ["specs/003-login/"]),
    ("`.github/workflows/ci.yml`", [".github/workflows/ci.yml"]),
    ("[plan](../plan.md#goals) ![shot](img/a%20b.png 'title')", ["../plan.md", "img/a%20b.png"]),
    ("[guide](docs/guide) [angled](<docs/x.md>)", ["docs/guide", "docs/x.md"]),
    ("[ref]: docs/ref.md", ["docs/ref.md"]),
    ("[[storage/wal]] and [[why apsw|the reason]] and [[x#part]]", ["storage/wal", "why apsw", "x"]),
    ("---\nkey_files:\n  - src/a.py  # the heart\n  - 'My Notes/b.md'\n\n  - AGENTS.md\ntitle: x/y.md\n---\n",
     ["src/a.py", "My Notes/b.md", "AGENTS.md"]),
    ("---\nkey_files: [src/a.py, \"src/b.py\"]\n---\n", ["src/a.py", "src/b.py"]),
    ("---\nspec_folder: 003-system/138-search # was specs/001-c/x.md\n---\n", ["003-system/138-search"]),
    ("| Spec Folder | 004-agents/021-codex |", ["004-agents/021-codex"]),
    ("```\nSpec: 004-agents/021-codex\n```", ["004-agents/021-codex"]),
    ("**Spec folder:** specs/001-a/.", ["specs/001-a/"]),
]  # fmt: skip

ONLY_LOOK_LIKE_IT = [
    "https://example.com/docs/a.md and `https://example.com/a.md` and [x](https://a.b/c.md)",
    "[x](mailto:a@b.c) [x](#part) [x](//host/a.md) `github.com/owner/repo.md`",
    "`src/**/*.py` `docs/?.md` `src/{a,b}.py` `lib/[ab].c`",
    "`~/notes/a.md` `/Users/me/a.md` `/home/me/a.md` `C:/x/a.md` `$HOME/a.md` [x](~/a.md)",
    "`git add src/a.py` `cat docs/a.md | head` `python -m x/y.py`",
    "`path/to/file.py` `<folder>/a.md` `.opencode/.../spec.md` `foo/bar.py` `NNN-name/spec.md` `your-app/x.ts`",
    "`os.path` `engine.writing` `Vault.write` `a.b.c()` `x = y/z.py`",
    "`main.py` `plan.md`",
    "`@scope/pkg.js` `--out/dir.md` `application.json`",
    "`/spec_kit:plan` `/memory:save`",
    "src/app/main.py in plain prose",
    "```sh\ncat `src/a.py` [x](docs/b.md)\n```",
    "~~~\n```\n`src/a.py`\n~~~",
    "`[x](docs/a.md)` and `[[wiki]]`",
    "\\[[escaped]]",
    "spec_folder: [TBD]\nkey_files: []\nSpec: none",
    "spec_folder: '{{SPEC}}/001-x'",
]

EXISTING = frozenset({"src", "src/app", "src/app/main.py", "docs", "docs/a b.md", "vault/x.md", "vault/sub/y.md"})


def paths(text: str) -> list[str]:
    return [reference.path for reference in find_references(text)]


def stale_paths(text: str, folder: str = "vault/sub", *, roots: tuple[str, ...] = ("",)) -> list[str]:
    return [
        found.path
        for found in find_stale(find_references(text), folder, EXISTING.__contains__, roots=roots, names={"y"})
    ]


@pytest.mark.parametrize(("text", "expected"), ARE_REFERENCES)
def test_a_path_is_found_as_it_is_written(text: str, expected: list[str]) -> None:
    assert paths(text) == expected


@pytest.mark.parametrize("text", ONLY_LOOK_LIKE_IT)
def test_what_names_no_file_of_the_project_is_no_reference(text: str) -> None:
    assert paths(text) == []


@pytest.mark.parametrize(
    "text", ["use `and/or`", "`read/write` access", "`origin/main`", "`owner/repo`", "[x](/blog/)"]
)
def test_a_word_with_a_slash_counts_only_below_a_folder_that_is_there(text: str) -> None:
    assert stale_paths(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`src/app/main.py`", []),
        ("`src/app/gone.py`", ["src/app/gone.py"]),
        ("`src/app` and `src/gone`", ["src/gone"]),
        ("[up](../x.md) [here](y.md) [gone](z.md)", ["z.md"]),
        ("[spaced](../../docs/a%20b.md)", []),
        ("[above](../../../elsewhere.md)", []),
        ("[[y]] [[x]] [[../x]] [[gone]]", ["gone"]),
        ("`sub/y.md`", ["sub/y.md"]),
    ],
)
def test_a_reference_is_stale_when_it_leads_nowhere(text: str, expected: list[str]) -> None:
    assert stale_paths(text, roots=("", "vault") if "[[" in text else ("",)) == expected


def test_a_root_is_one_more_place_to_look() -> None:
    assert stale_paths("`sub/y.md`", roots=("", "vault")) == []


def test_a_reference_knows_its_line() -> None:
    found = find_references("---\nkey_files: [a/b.py]\n---\r\n\u2028\n`src/x.py`\n")
    assert [(reference.line, reference.path) for reference in found] == [(2, "a/b.py"), (5, "src/x.py")]


@pytest.mark.parametrize(
    ("path", "renames", "expected"),
    [
        ("`specs/a.md`", [("specs", ".opencode/specs")], ".opencode/specs/a.md"),
        ("`specs-old/a.md`", [("specs", "new")], "specs-old/a.md"),
        ("`my/specs/a.md`", [("specs", "new")], "my/specs/a.md"),
        ("`a/b/x.md`", [("a", "a/b")], "a/b/x.md"),
        ("`a/x.md`", [("a", "a/b")], "a/b/x.md"),
        ("`a/x.md`", [("a", "b"), ("b/x.md", "c/y.md")], "c/y.md"),
        ("`a/b/x.md`", [("a", "")], "b/x.md"),
        ("[x](../../old/x.md)", [("old", "new")], "../../new/x.md"),
        ("[x](../../old/x.md)", [("../../old", "../../new")], "../../new/x.md"),
        ("`.hidden/x.md`", [("other", "new")], ".hidden/x.md"),
        ("[x](../../.hidden/x.md)", [("other", "new")], "../../.hidden/x.md"),
        ("[x](./y.md)", [("vault/sub", "vault/other")], "../other/y.md"),
    ],
)
def test_a_rename_takes_whole_segments_at_the_start(path: str, renames: list[Rename], expected: str) -> None:
    (reference,) = find_references(path)
    assert follow_renames(reference, "vault/sub", renames) == expected


def test_rewriting_changes_the_references_and_no_other_byte() -> None:
    text = "\ufeff---\r\nkey_files: ['old/a.md']\r\n---\r\nold/a.md and `old/a.md:3`, [x](old/b.md#h) ü\n"
    changes = [(found, follow_renames(found, "", [("old", "new")])) for found in find_references(text)]
    assert rewrite_references(text, changes) == (
        "\ufeff---\r\nkey_files: ['new/a.md']\r\n---\r\nold/a.md and `new/a.md:3`, [x](new/b.md#h) ü\n"
    )


SEGMENT = st.from_regex(r"[a-z]{1,3}\.?[a-z]{0,2}", fullmatch=True).filter(lambda text: not text.endswith("."))
PATH = st.lists(SEGMENT, min_size=1, max_size=4).map("/".join)


@given(PATH, PATH, PATH)
def test_a_rename_done_twice_is_a_rename_done_once(path: str, old: str, new: str) -> None:
    for reference in find_references(f"[x]({path})"):
        once = follow_renames(reference, "", [(old, new)])
        again = find_references(f"[x]({once})")
        assert [follow_renames(found, "", [(old, new)]) for found in again] in ([once], [])


@given(st.text(alphabet="`[]()|-:#/. \n~abc\"'key_files", max_size=200))
@example("key_files:\n- a/b.md\n```\n`a/b.md`")
def test_offsets_are_those_of_the_text(text: str) -> None:
    found = find_references(text)
    assert all(text[one.start : one.start + len(one.path)] == one.path for one in found)
    assert all(text.count("\n", 0, one.start) + 1 == one.line for one in found)
    assert rewrite_references(text, [(one, one.path) for one in found]) == text
    assert all(posixpath.normpath(one.path) not in (".", "..") for one in found)
