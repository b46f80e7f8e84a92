"""Serena's tools and ours, interleaved: no reference is lost. Serena's tools by its documented rules; `make e2e-router`
does the same with Serena itself.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.interleaving import ACTS, SETTINGS, Act, Interleaving, ToolsByTheRules

from scrimshaw.config import load
from scrimshaw.engine import open_engine

NUMBERS = st.integers(0, 7)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(acts=st.lists(st.tuples(st.sampled_from(ACTS), NUMBERS, NUMBERS), max_size=14))
def test_no_reference_is_lost(tmp_path_factory: pytest.TempPathFactory, acts: list[Act]) -> None:
    project = tmp_path_factory.mktemp("project")
    (project / ".scrimshaw/memories").mkdir(parents=True)
    folder = project / ".serena/memories"
    folder.mkdir(parents=True)
    (project / ".serena/project.yml").write_text(SETTINGS)
    (project / ".scrimshaw/config.toml").write_text('[embedding]\nprovider = "none"\n')
    with open_engine(load(project, home=project / "home", environment={})) as engine:
        Interleaving(engine, folder, ToolsByTheRules(folder)).carry_out(acts)
