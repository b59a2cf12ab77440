"""The records are the one place of a method: a tenth one, or a user's own, is found by everything that reads them."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import mimogc.nn
from mimogc import Graph, methods, studies
from mimogc.cli import describe, run
from mimogc.data import load_molecules
from mimogc.explore.choices import Choice
from mimogc.explore.views import depth
from mimogc.methods import METHODS, Method, method
from mimogc.nn import LMGConv
from mimogc.nn.coefficients import GCN
from mimogc.report import write_report
from mimogc.runs import driver
from mimogc.runs.options import UsageError
from mimogc.runs.run import Outcome, Record, Run, hparams
from mimogc.runs.store import Store
from mimogc.runs.study import Options, complete
from mimogc.studies.figures import measure
from mimogc.studies.heterophilic import STUDY
from mimogc.studies.own_methods import selected_by_paper
from mimogc.studies.zinc import ZINC, ZINC12K


class Silent:
    """A watcher that looks away."""

    def started(self, plan: object) -> None: ...
    def progress(self, batch: object, fraction: float, metrics: object) -> None: ...
    def finished(self, batch: object, records: object) -> None: ...


OWN = '''
import torch
from mimogc.methods import Method
from mimogc.nn import Coefficients, LMGConv


class Mine(Coefficients):
    """Cosines of the transformed features."""

    def forward(self, x, h, graph):
        source, target = (torch.nn.functional.normalize(side, dim=-1) for side in h)
        return (source[graph.src] * target[graph.dst]).sum(-1)


def factory(channels, heads):
    return LMGConv(channels, channels, heads, "eq12")


def measured(channels):
    """A layer that needs the values of its weights to be built, which tensors without memory do not have."""
    layer = LMGConv(channels, channels, 2)
    layer.scale = float(layer.lin.weight.detach().std())
    return layer


def wrong(channels):
    return channels


RECORD = Method("mine", "My method", factory)
number = 3
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a module of one's own in it."""
    (tmp_path / "mymodule.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "mymodule", raising=False)
    return tmp_path


class TestRecords:
    @pytest.mark.parametrize("name", METHODS)
    def test_layers_keep_the_channels(self, name: str) -> None:
        graph = Graph.from_edge_index(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), 3)
        layer = METHODS[name].build(4, heads=2, graph=graph)
        assert layer(torch.randn(3, 4), graph).shape == (3, 4)
        assert METHODS[name].about.endswith(".")

    def test_options_that_would_change_the_meaning_are_refused(self) -> None:
        with pytest.raises(ValueError, match="combine: gcn allows 'sum' only, got 'mean'"):
            method("gcn").build(4, combine="mean")
        with pytest.raises(ValueError, match=r"method: edge features need one of gat.*got 'acm'"):
            method("acm").build(4, edge_dim=3)
        with pytest.raises(ValueError, match="graph: expected the graph that a layer of mimogc belongs to, got none"):
            method("mimogc").build(4)
        with pytest.raises(ValueError, match=r"family: expected one of one graph.*got 'blue'"):
            replace(method("gcn"), family="blue")
        with pytest.raises(ValueError, match=r"options: expected some of heads.*got depth"):
            replace(method("gcn"), options=frozenset({"depth"}))

    def test_nn_offers_the_models(self) -> None:
        for name in mimogc.nn.__all__:
            assert getattr(mimogc.nn, name) is not None
        with pytest.raises(AttributeError, match=r"'mimogc\.nn' has no attribute 'Nothing'"):
            mimogc.nn.Nothing  # noqa: B018

    def test_universality_and_figures_have_the_papers_names(self) -> None:
        universality = studies.load("universality")
        assert universality.methods == ("gatv2", "fagcn", "acm", "gin", "lmgc", "mimogc")
        assert measure.shown()["lmgc"].record is METHODS["eq12"]


class TestOnesOwn:
    def test_a_class_a_factory_and_a_record(self, folder: Path) -> None:
        mine = method("mymodule:Mine")
        assert (mine.name, mine.label, mine.about) == ("mymodule:Mine", "Mine", "Cosines of the transformed features.")
        assert mine.free_heads
        assert mine.self_loops
        assert not mine.scored
        assert mine.build(6, heads=3, combine="mean").heads == 3
        made = method("mymodule:factory")
        assert made.options == {"heads"}
        assert made.build(6, heads=3, add_self_loops=False).heads == 3
        record = method("mymodule:RECORD")
        assert (record.name, record.label) == ("mymodule:RECORD", "My method")
        assert methods.label("gone:Mine") == "gone:Mine"

    def test_what_is_none(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        for name, message in (
            ("gat2", "unknown method 'gat2'"),
            ("nowhere:Mine", "method 'nowhere:Mine': there is no module 'nowhere'"),
            ("mymodule:Yours", "expected a name that 'mymodule' has, got 'mymodule:Yours'"),
            ("mymodule:number", "expected a Method, a Coefficients class or a factory of layers"),
            ("mymodule:wrong", "expected layers that are torch modules, got int"),
        ):
            assert run(["reproduce", "heterophilic", "--methods", name, "--datasets", "texas", "--dry-run"]) == 2
            error = capsys.readouterr().err
            assert message in error
            assert "Traceback" not in error
        with pytest.raises(ValueError, match=r"method: expected one of gcn.*or package.module:NAME, got 'gat2'"):
            method("gat2")

    def test_the_settings_of_methods_that_the_paper_does_not_have(self, folder: Path) -> None:
        def runs(study: object, **options: object) -> list[Run]:
            chosen = Options(methods=("mymodule:Mine", "gat"), paper_hparams=True, seeds=1, **options)
            return study.runs(complete(study, chosen))

        for found in runs(STUDY, datasets=("squirrel",)):
            assert (dict(found.hparams)["lr"], dict(found.hparams)["dropout"]) == (0.01, 0.25)
        for found in runs(ZINC12K, variants=("basic",)):
            assert [dict(found.hparams)["layers"], dict(found.hparams)["lr"]] == selected_by_paper("zinc12k")["lmgc"][0]
        assert {found.method for found in runs(ZINC)} == {"mymodule:Mine", "gat"}
        with pytest.raises(
            UsageError, match=r"--methods: expected some of gat.* with --variants bonds, got mymodule:Mine"
        ):
            runs(ZINC12K, variants=("bonds",))

    def test_on_molecules(self, folder: Path, datasets: Path) -> None:
        assert load_molecules("zinc12k")
        extras = (("epochs", 1), ("molecules", 40))
        options = Options(
            methods=("mymodule:Mine", "mymodule:measured", "gat", "lmgc"),
            variants=("residual",),
            seeds=1,
            quick=True,
            extras=extras,
        )
        summary = driver.reproduce(ZINC12K, options, folder / "runs.db", Silent())
        assert [record.status for record in summary.records] == ["done"] * 4
        assert driver.reproduce(ZINC12K, options, folder / "runs.db", Silent()).records == []
        write_report(folder / "runs.db", folder / "report")
        page = (folder / "report" / "zinc12k.md").read_text()
        for name in ("Mine", "measured"):
            assert page.count(f"<th>{name}</th>") == 2, name  # a row of the table, and one beside LMGC

    def test_from_the_command_to_the_table(self, folder: Path, datasets: Path) -> None:
        def command(*arguments: str) -> str:
            call = [sys.executable, "-m", "mimogc", *arguments]
            done = subprocess.run(call, capture_output=True, text=True, timeout=300, cwd=folder, env=os.environ)
            assert done.returncode == 0, done.stderr
            return done.stdout

        asked = (
            "reproduce",
            "heterophilic",
            "--methods",
            "mymodule:Mine,lmgc",
            "--quick",
            "--datasets",
            "texas",
            "--epochs",
            "5",
        )
        first = json.loads(command(*asked, "--json"))
        assert (first["planned"], first["done"]) == (6, 6)
        assert {cell["method"] for cell in first["cells"]} == {"mymodule:Mine", "lmgc"}
        again = json.loads(command(*asked, "--dry-run", "--json"))
        assert (again["stored_before"], again["missing"]) == (6, 0)
        command("report")
        page = (folder / "report" / "heterophilic.md").read_text()
        column, difference = (line for line in page.splitlines() if line.startswith("<tr><th>Mine</th>"))
        mean = next(cell["mean"] for cell in first["cells"] if cell["method"] == "mymodule:Mine")
        assert f">{mean:.1f}<" in column
        assert "±" in difference


def test_a_tenth_method_is_added_in_one_place(
    tmp_path: Path, datasets: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def layer(channels: int, add_self_loops: bool, bias: bool) -> LMGConv:
        """The mean over the neighbours."""
        return LMGConv(channels, channels, coefficients=GCN(), add_self_loops=add_self_loops, bias=bias)

    form = METHODS["gin"].batched
    monkeypatch.setitem(METHODS, "tenth", Method("tenth", "The tenth", layer, family="one graph", batched=form))
    table = studies.load("universality")
    planned = table.runs(complete(table, Options(methods=("tenth", "gin"), quick=True)))
    assert [batch[0].method for batch in table.batches(planned)] == ["gin", "tenth"]
    options = Options(methods=("tenth", "lmgc"), datasets=("texas",), quick=True, extras=(("epochs", 2),))
    driver.reproduce(studies.load("heterophilic"), options, tmp_path / "runs.db", Silent())
    write_report(tmp_path / "runs.db", tmp_path / "report")
    page = (tmp_path / "report" / "heterophilic.md").read_text()
    assert page.count("<th>The tenth</th>") == 2  # its scores, and LMGC's lead over it
    assert torch.isfinite(depth(Choice(nodes=12, method="tenth", depth=3)).effective_rank).all()
    assert list(measure.shown()).index("tenth") == 2
    describe.methods([])
    assert "The mean over the neighbours." in capsys.readouterr().out


def test_a_report_on_a_store_with_methods_that_are_gone(tmp_path: Path) -> None:
    values = hparams(lr=0.01, dropout=0.25, epochs=3, layers=2, heads=4, undirected=False, no_self_loops=False,
                     budget=100_000)  # fmt: skip
    with Store(tmp_path / "runs.db", write=True) as store:
        for name in ("sage", "gone.module:Mine", "gin"):
            done = Run("heterophilic", "texas", name, "residual", values, 0, 1)
            scores = {f"{part}_accuracy": 50.0 for part in ("test", "val", "train")}
            curves = {"epoch": [1.0, 2.0], "loss": [2.0, 1.0]}
            store.add([Record(done, "done", Outcome(scores, curves), {}, "2026-01-01T00:00:00")])
    write_report(tmp_path / "runs.db", tmp_path / "report")
    page = (tmp_path / "report" / "heterophilic.md").read_text()
    assert "<th>sage</th><td>50.0<" in page
    assert "<th>gone.module:Mine</th><td>50.0<" in page
    assert "--methods sage" not in page
