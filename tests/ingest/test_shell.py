"""What a shell command is for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrimshaw.ingest.tool_calls import join_commands, parse_command

INTENTS = [
    ("cat docs/spec.md", "Read", "docs/spec.md"),
    ("cd app && cat docs/spec.md", "Read", "docs/spec.md"),
    ("nl -ba src/a.py", "Read", "src/a.py"),
    ("nl -ba src/a.py | sed -n '90,120p'", "ReadRange", "src/a.py"),
    ("sed -n '90,120p' src/a.py", "ReadRange", "src/a.py"),
    ("sed -n '1,20p' src/a.py", "ReadPart", "src/a.py"),
    ("head -n 20 src/a.py", "ReadPart", "src/a.py"),
    ("cat src/a.py | head -20", "ReadPart", "src/a.py"),
    ("open src/a.py 1474\n", "ReadRange", "src/a.py"),
    ("cat src/a.py | grep needle", "Grep", "src/a.py"),
    ("grep -rn 'needle' src/", "Grep", "src/"),
    ("rg needle src", "Grep", "src"),
    ("git grep needle src", "Grep", "src"),
    ("find . -name '*.py' | head -3", "Glob", ""),
    ("ls -la src", "Glob", ""),
    ("sed -i 's/a/b/' src/a.py", "Edit", "src/a.py"),
    ("rm -f old.py\nsed -i 's/a/b/' src/a.py", "Edit", "src/a.py"),
    ("cat <<'EOF' > src/new.py\nimport os\nEOF", "Write", "src/new.py"),
    ("echo done >> notes.md", "Write", "notes.md"),
    ("cat <<'EOF' > check.py\nprint(1)\nEOF\npython check.py", "Run", ""),
    ("python - <<'EOF'\ntext = open('a.py').read()\nopen('a.py', 'w').write(text)\nEOF", "Edit", "a.py"),
    ("pytest tests 2>&1 | tail -5", "Run", ""),
    ("FOO=1 timeout 60 make check > /dev/null", "Run", ""),
    ("git status", "Run", ""),
    ("edit src/a.py", "Edit", "src/a.py"),
    ("make all | tee build.log", "Run", ""),
    ("tee notes.md", "Write", "notes.md"),
    ("", "Run", ""),
]


@pytest.mark.parametrize(("command", "name", "path"), INTENTS)
def test_a_command_tells_its_intent(command: str, name: str, path: str) -> None:
    parsed = parse_command(command)
    assert (parsed.name, parsed.path) == (name, path)


def test_search_keeps_its_pattern() -> None:
    assert parse_command("grep -rn 'def main' src/").pattern == "def main"


def test_heredoc_is_the_change_and_not_the_command() -> None:
    parsed = parse_command("cat <<'EOF' > a.py\ngit commit -m x\nEOF")
    assert parsed.change == "git commit -m x"
    assert "commit" not in parsed.line


def test_the_text_of_an_editor_block_is_the_change() -> None:
    parsed = parse_command("edit 3:4\nnew text\nmore\nend_of_edit")
    assert (parsed.name, parsed.line, parsed.change) == ("Edit", "edit 3:4", "new text\nmore")


def test_several_edits_are_one_change() -> None:
    assert parse_command("sed -i 's/a/b/' x.py && sed -i 's/c/d/' x.py").change == "s/a/b/\ns/c/d/"


@given(st.text(alphabet="abc '\"\\;&|\n<>EOF$(){}#=-./", max_size=200))
def test_any_text_is_a_command(line: str) -> None:
    assert parse_command(line) == parse_command(line)
    assert parse_command(line).name


@pytest.mark.parametrize(
    ("script", "line"),
    [
        ("cd shop\npython -m unittest\n", "cd shop; python -m unittest"),
        ("pytest \\\n  -q", "pytest \\ -q"),
        ("make &&\nmake check", "make && make check"),
        ("for name in a b; do\n  echo $name\ndone", "for name in a b; do echo $name; done"),
        ('git commit -m "Add the till\n\nIt counts."', 'git commit -m "Add the till It counts."'),
    ],
)
def test_the_lines_of_a_script_are_joined_as_a_shell_reads_them(script: str, line: str) -> None:
    assert join_commands(script) == line


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("git commit -q -F - <<'EOF'\nAdd the till\n\nIt counts.\nEOF", 'git commit -q -m "Add the till"'),
        ("git add . && git commit --file=- <<EOF\nAdd the till\nEOF", 'git add . && git commit -m "Add the till"'),
        (
            "git commit -qm \"$(cat <<'EOF'\nAdd the till\nEOF\n)\" && git push",
            'git commit -m "Add the till" && git push',
        ),
        ("cat > m <<EOF\nAdd the till\nEOF\ngit commit -qF m", 'cat > m \ngit commit -m "Add the till"'),
        ("cat > m <<EOF\nAdd the till\nEOF\ngit commit -am 'Close it'", "cat > m \ngit commit -am 'Close it'"),
    ],
)
def test_a_commit_quotes_the_subject_that_a_here_document_has(command: str, line: str) -> None:
    assert parse_command(command).line == line


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("sed -i s/a/b/ x.py y.py", "Run"),
        ("sed -i s/a/b/ x.py && sed -i s/c/d/ y.py", "Run"),
        ("sed -i s/a/b/ x.py && sed -i s/c/d/ x.py", "Edit"),
        ("sed -i s/a/b/ x.py && cat y.py", "Edit"),
    ],
)
def test_edits_of_several_files_are_told_by_their_line(command: str, name: str) -> None:
    parsed = parse_command(command)
    assert (parsed.name, parsed.path) == (name, "x.py" if name == "Edit" else "")
    assert name == "Edit" or parsed.line == command
