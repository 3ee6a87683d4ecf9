"""Every system that the source documents name is met where the glossary says."""

from pathlib import Path

import pytest

from aiinfra.authoring import systems

ROOT = Path(__file__).parents[1]
ALL = systems.read(ROOT)


def test_names_are_unique():
    assert len({system.name for system in ALL}) == len(ALL)


@pytest.mark.parametrize("system", [pytest.param(s, id=s.name) for s in ALL if systems.written(ROOT, s)])
def test_the_place_that_is_named_speaks_of_it(system):
    assert systems.is_met(ROOT, system)


def test_a_system_that_is_not_met_is_seen():
    missing = systems.System("Frobnicator", "tool", "Does not exist.", "accelerators", "text", "")
    assert not systems.is_met(ROOT, missing)


def test_an_unknown_way_of_meeting_is_refused(tmp_path):
    (tmp_path / "book/data").mkdir(parents=True)
    (tmp_path / systems.FILE).write_text("name,kind,what,chapter,met_in,look_for\nx,y,z,hbm,video,\n")
    with pytest.raises(ValueError, match="row 2: met_in must be one of lab, figure, numbers, text, got 'video'"):
        systems.read(tmp_path)


def test_the_list_says_where():
    lines = systems.listing(ROOT, ALL).splitlines()
    assert len(lines) == len(ALL)
    gloo = next(line for line in lines if line.startswith("- **gloo**, library."))
    assert gloo.endswith("Chapter [accelerators](accelerators.md) and its [lab](../labs/accelerators.ipynb).")
