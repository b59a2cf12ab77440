"""The figures: their numbers are right, they are drawn from numbers alone, and the study leaves files and records."""

import numpy as np
import pytest
from matplotlib import pyplot as plt

from mimogc import studies
from mimogc.nn.coefficients import BY_NAME
from mimogc.runs.driver import make_plan, reproduce
from mimogc.runs.store import Store
from mimogc.runs.study import Options, complete
from mimogc.studies.figures import FIGURES, STUDY, draw, measure, style
from mimogc.studies.figures.catalog import picture

SYNTHETIC = [name for name, figure in FIGURES.items() if figure.dataset == "synthetic"]


@pytest.fixture(scope="module")
def numbers():
    """The numbers of every synthetic figure."""
    return {name: FIGURES[name].numbers(lambda fraction: None) for name in SYNTHETIC}


def test_filters_are_what_their_names_say(numbers):
    for name in ("random-filters", "chebyshev-filters", "gcn-filters", "repeated-gcn"):
        panels = [key for key in numbers[name] if key != "lambda"]
        assert len(panels) == 3
        assert all(len(numbers[name][key]) == 64 for key in panels)
    values = np.array(numbers["gcn-filters"]["lambda"])
    assert values.max() == pytest.approx(1)
    for w in (4, 0.1, -1):
        np.testing.assert_allclose(numbers["gcn-filters"][f"w = {w:g}".replace("-", "−")], w * values)
    for degree in (2, 8, 16):
        filtered = numbers["chebyshev-filters"][f"K = {degree}"]
        fit = np.polynomial.Chebyshev.fit(values, filtered, degree)
        np.testing.assert_allclose(fit(values), filtered, atol=1e-9)
    for k in (2, 4, 16):
        repeated = np.array(numbers["repeated-gcn"][f"k = {k}"])
        np.testing.assert_allclose(repeated, repeated[0] * values**k, atol=1e-12)


def test_special_cases_are_equal(numbers):
    assert len(numbers["special-cases"]) == 8
    for difference, *_ in numbers["special-cases"].values():
        assert difference < 1e-12


def test_amplification_ranks(numbers):
    ranks = {key.split()[0]: row for key, row in numbers["amplification"].items() if key.endswith("coupling")}
    assert set(BY_NAME) - {"free", "eq12", "lmgc-sym"} <= set(ranks)  # lmgc is equation 12 here
    expected = {"gcn": 1, "fagcn": 1, "acm": 2, "chebyshev": 3, "lmgc": 4, "gated": 4, "sheaf": 4, "mimogc": 16}
    assert {method: ranks[method][0] for method in expected} == expected
    for method in ("gcn", "acm", "chebyshev", "mimogc"):
        assert ranks[method][2] == pytest.approx(0, abs=1e-9)


def test_depth_follows_the_prediction(numbers):
    depth = numbers["depth-synthetic"]
    curve = np.log(depth["gcn rank-one distance"][20:90])
    slope = np.polyfit(np.arange(len(curve)), curve, 1)[0]
    assert slope == pytest.approx(depth["gcn predicted rate"][0], abs=0.08)
    assert depth["lmgc effective rank"][-1] > 2
    for method in ("gcn", "fagcn", "lmgc1", "gat", "gatv2"):
        assert depth[f"{method} effective rank"][-1] == pytest.approx(1, abs=1e-6)
    assert all(len(depth[f"{method} effective rank"]) == 129 for method in measure.shown())


@pytest.mark.parametrize("name", SYNTHETIC)
def test_a_figure_is_drawn_from_its_numbers_alone(name, numbers, tmp_path):
    before = plt.get_fignums()  # of other tests
    svg, png, *dark = draw(name, tmp_path, numbers[name])
    assert [path.name for path in dark] == ([f"{name}-dark.svg", f"{name}-dark.png"] if FIGURES[name].dark else [])
    assert (svg.name, png.name) == (f"{name}.svg", f"{name}.png")
    image = plt.imread(png)
    assert image.shape[1] == (1500 if dark else 1800)
    assert image[..., :3].std() > 0.02  # not an empty sheet
    text = svg.read_text(encoding="utf-8")
    assert text.count("<path") > 20
    again, *_ = draw(name, tmp_path / "again", numbers[name])
    assert again.read_text(encoding="utf-8") == text
    assert plt.get_fignums() == before


@pytest.mark.parametrize("name", SYNTHETIC)
def test_every_text_stays_on_its_sheet(name, numbers):
    """No title, label or caption is cut off at the border of the picture."""
    with plt.rc_context(style.STYLE):
        sheet = picture(name, numbers[name])
        sheet.canvas.draw()
    ticks = {id(label) for axes in sheet.axes for label in (*axes.get_xticklabels(), *axes.get_yticklabels())}
    ticks |= {id(label) for axes in sheet.axes for label in axes.get_yticklabels(minor=True)}
    texts = [text for text in sheet.findobj(plt.Text) if text.get_text() and id(text) not in ticks]
    caption = any(FIGURES[name].title.split()[0] in text.get_text() for text in texts)
    assert caption is not FIGURES[name].dark  # a picture for light and dark pages has its caption on the page
    for text in texts:
        extent = text.get_window_extent()
        inside = extent.x0 >= 0 and extent.x1 <= sheet.bbox.x1 and extent.y0 >= 0 and extent.y1 <= sheet.bbox.y1
        assert inside, f"{text.get_text()!r} leaves the sheet"
    plt.close(sheet)


def test_unknown_figure(tmp_path):
    with pytest.raises(ValueError, match=r"name: expected one of rank, random-filters.*got 'table-1'"):
        draw("table-1", tmp_path)


def test_the_study_stores_numbers_and_leaves_pictures(tmp_path, watch):
    assert studies.load("figures") is STUDY
    options = Options(variants=("gcn-filters", "special-cases", "amplification"))
    summary = reproduce(STUDY, options, tmp_path / "runs.db", watch)
    assert (summary.count("done"), summary.plan.missing) == (3, 0)
    drawn = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert drawn == sorted(f"{name}.{kind}" for name in options.variants for kind in ("png", "svg"))
    with Store(tmp_path / "runs.db") as store:
        records = store.records("figures")
    stored = {record.run.variant: record.outcome.curves for record in records}
    assert stored["gcn-filters"] == measure.gcn_filters()
    draw("amplification", tmp_path / "report", stored["amplification"])  # as the report does
    cells = {(cell.method, cell.metric): cell.mean for cell in STUDY.aggregate(records)}
    assert cells["gcn", "operator rank"] == 1
    assert reproduce(STUDY, options, tmp_path / "runs.db", watch).count("done") == 0


def test_real_graphs_are_drawn_where_their_data_is(monkeypatch, tmp_path):
    monkeypatch.setenv("MIMOGC_DATA", str(tmp_path))
    monkeypatch.setenv("MIMOGC_MIRROR", str(tmp_path / "none"))
    (tmp_path / "none").mkdir()
    planned = {run.variant for run in make_plan(STUDY, Options(), []).runs}
    assert planned == set(SYNTHETIC)
    asked = STUDY.runs(complete(STUDY, Options(datasets=("texas",))))
    assert [run.variant for run in asked] == ["depth-texas"]  # by name: then prepare() gets it or says why not


def test_depth_on_a_real_graph(datasets, tmp_path):
    svg, _ = draw("depth-texas", tmp_path)
    assert "<svg" in svg.read_text(encoding="utf-8")
    assert "depth-texas" in {run.variant for run in make_plan(STUDY, Options(), []).runs}
    assert {run.dataset for run in make_plan(STUDY, Options(quick=True), []).runs} == {"synthetic"}
