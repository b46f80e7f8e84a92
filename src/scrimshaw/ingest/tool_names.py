"""What tools are called: one name for what every client calls differently, and which tools are our own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

# Spelled without case and separators: read_file, ReadFile and readFile are one name.
_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "Read": "read readfile readfiles readmanyfiles view notebookread",
        "Grep": "grep grepsearch searchfilecontent searchfiles search codebasesearch codesearch ripgrep",
        "Glob": "glob globfilesearch filesearch ls list listdir listdirectory listfiles",
        "Bash": "bash shell powershell runshellcommand runterminalcmd runterminalcommand runcommands executecommand "
        "execcommand shellcommand localshell unifiedexec",
        "Edit": "edit multiedit editfile editor replace replaceinfile strreplace strreplaceeditor searchreplace "
        "notebookedit applypatch applydiff patch",
        "Write": "write writefile writetofile create createfile newfile",
        "Web": "webfetch websearch googlewebsearch fetchwebcontent fetch browseraction",
    }
)
_KINDS: Mapping[str, str] = MappingProxyType({name: kind for kind, names in _NAMES.items() for name in names.split()})
_OURS = re.compile(
    r"(?:^|[^a-z0-9])"
    r"(?:memory_[a-z][a-z_]*|task_(?:pre|post)flight|checkpoint_(?:create|list|restore|delete)|eval_run_[a-z_]+)$"
)


def normalised(name: str) -> str:
    """Read, Grep, Glob, Bash, Edit, Write, Web or Mcp; a name that is none of them stays as it is."""
    if name.startswith(("mcp_", "MCP:")):
        return "Mcp"
    return _KINDS.get(name.replace("_", "").replace("-", "").lower(), name)


def is_ours(name: str) -> bool:
    """Whether a tool is one of this server's, whatever server and plugin names a client puts before its name."""
    return bool(_OURS.search(name))
