import os
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrimshaw.errors import InvalidMemoryId
from scrimshaw.storage.paths import MAX_ID_CHARS, MAX_SEGMENT_BYTES, check_id, find_name_fault, locate

GOOD = [
    "wal-reset",
    "storage/wal-reset",
    "a/b/c/d/e",
    "notes with spaces/second word",
    "v1.2.3",
    "café/naïve",
    "日本語/メモ",
    "rocket 🚀/👩‍🚀 log",
    "console",
    "com10",
    "nullable",
    "~draft",
    "100%",
    "x" * MAX_SEGMENT_BYTES,
    "/".join(["x" * 79] * 3),
]

BAD = [
    ("", "empty"),
    ("/etc/passwd", "absolute"),
    ("C:\\notes\\x", "absolute"),
    ("C:/notes/x", "absolute"),
    ("c:x", "one of"),
    ("\\\\server\\share", "absolute"),
    ("../secret", '".." segment'),
    ("a/../../b", '".." segment'),
    ("./a", '".." segment'),
    ("..", '".." segment'),
    ("a//b", "empty segment"),
    ("a/", "empty segment"),
    ("a\\b", "backslash"),
    ("a\0b", "NUL"),
    ("a\nb", "control"),
    ("a\x7fb", "control"),
    ("a\u2028b", "control"),
    ("gpj\u202eexe", "control"),
    ("bad\udcffname", "control"),
    (" a", "space"),
    ("a/b ", "space"),
    ("a\u00a0/b", "space"),
    (".hidden", "dot"),
    ("a/b.", "dot"),
    (".opencode/x", "dot"),
    ("con", "reserves"),
    ("a/NUL.txt/b", "reserves"),
    ("Lpt1", "reserves"),
    ("com¹", "reserves"),
    ("aux .log", "reserves"),
    ("what?", "one of"),
    ('say "x"', "one of"),
    ("a|b", "one of"),
    ("a:stream", "one of"),
    ("note.md", '".md"'),
    ("note.MD", '".md"'),
    ("x" * (MAX_SEGMENT_BYTES + 1), "bytes"),
    ("é" * (MAX_SEGMENT_BYTES // 2 + 1), "bytes"),
    ("a/" * 120 + "ab", f"{MAX_ID_CHARS} characters"),
]


@pytest.mark.parametrize("memory_id", GOOD)
def test_good_ids_stay_as_they_are(memory_id: str) -> None:
    assert check_id(memory_id) == memory_id


@pytest.mark.parametrize(("memory_id", "rule"), BAD)
def test_bad_ids_name_the_rule(memory_id: str, rule: str) -> None:
    with pytest.raises(InvalidMemoryId) as caught:
        check_id(memory_id)
    assert rule in caught.value.details["rule"]
    assert caught.value.details["parameter"] == "id"


def test_ids_come_back_in_composed_form() -> None:
    assert check_id("cafe\u0301") == "caf\u00e9"


def test_composing_cannot_smuggle_a_reserved_character() -> None:
    # A Greek question mark composes to a semicolon; "<" with a slash overlay composes to one letter.
    assert check_id("a\u037eb") == "a;b"
    assert check_id("a<\u0338b") == "a\u226eb"


@given(st.text(alphabet=st.sampled_from("ab./\\ :~\0C*é\u0301\u202e\ud800"), max_size=12) | st.text(max_size=60))
def test_an_accepted_id_never_leaves_the_root(memory_id: str) -> None:
    try:
        name = check_id(memory_id)
    except InvalidMemoryId:
        return
    path = os.path.normpath(f"/vault/{name}.md")
    assert path == f"/vault/{name}.md"
    assert check_id(name) == name
    assert unicodedata.is_normalized("NFC", name)


@given(st.text(alphabet=st.sampled_from("ab./\\ :\0"), max_size=12))
def test_a_located_path_never_leaves_the_root(memory_id: str) -> None:
    root = Path(os.path.realpath("/tmp/no-such-vault"))
    try:
        path = locate(root, memory_id)
    except InvalidMemoryId:
        return
    assert path == root / f"{memory_id}.md"


@pytest.mark.parametrize("memory_id", [".hidden", "what?", "con", "a:b", " padded "])
def test_existing_files_with_odd_names_are_found(tmp_path: Path, memory_id: str) -> None:
    assert locate(tmp_path, memory_id) == Path(os.path.realpath(tmp_path)) / f"{memory_id}.md"


@pytest.mark.parametrize("on_windows", [False, True])
@pytest.mark.parametrize(
    ("memory_id", "rule"),
    [("", "empty"), ("../x", '".." segment'), ("a\x01b", "control"), ("a\u202eb", "control"), ("a/.b", "hidden")],
)
def test_no_file_of_a_vault_has_such_a_name(memory_id: str, rule: str, on_windows: bool) -> None:
    assert rule in find_name_fault(memory_id, on_windows=on_windows)


@pytest.mark.parametrize("memory_id", ["what?", "deep/con", "a:b", "a\\b", "ends.", " padded "])
def test_a_file_may_have_a_name_that_windows_has_not(memory_id: str) -> None:
    assert find_name_fault(memory_id, on_windows=False) == ""
    assert find_name_fault(memory_id, on_windows=True) != ""


@pytest.mark.parametrize("memory_id", ["x" * 200, "note.md", "cafe\u0301", "a/b"])
def test_a_file_may_have_a_name_that_is_given_to_none_anew(memory_id: str) -> None:
    assert find_name_fault(memory_id, on_windows=True) == ""


def test_a_link_out_of_the_root_is_refused(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    root = tmp_path / "vault"
    root.mkdir()
    (root / "door").symlink_to(outside)
    with pytest.raises(InvalidMemoryId, match="link leads out"):
        locate(root, "door/secret")
