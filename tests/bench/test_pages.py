"""The pages of results that are made of kept runs are what these runs say."""

import pytest
from benchmarks import pages


@pytest.mark.parametrize("name", pages.PAGES)
def test_a_page_is_what_its_runs_say(name, tmp_path):
    text, curves = pages.made(name, tmp_path)
    assert text == (pages.RESULTS / f"{name}.md").read_text(), f"run: python benchmarks/pages.py {name}"
    assert [curve.name for curve in curves] == sorted(
        path.name for path in (pages.RESULTS / "curves").glob(f"{name}-*")
    )
    assert "{errors}" not in text


def test_other_pages_are_refused(capsys):
    with pytest.raises(SystemExit):
        pages.main(["zinc13k"])
    assert "expected some of zinc12k, zinc, got 'zinc13k'" in capsys.readouterr().err
