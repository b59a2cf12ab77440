"""The command line as a user meets it: what it prints, where, and with which exit code."""

import csv
import json
import os
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mimogc import __version__
from mimogc.cli import run, tensorboard
from mimogc.runs.run import Run, hparams
from mimogc.studies import BUILT_IN

sys.path.insert(0, str(Path(__file__).parents[1]))
TINY = "tiny_study:STUDY"
STORE = ("--store", "runs.db")


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def mimogc(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr."""
    code = run(arguments)
    out, err = capsys.readouterr()
    return code, out, err


def test_reproduce_prints_results_and_fills_the_default_store(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = mimogc(capsys, "reproduce", TINY)
    assert code == 0
    assert "adam" in out
    assert "±" in out
    assert "12 runs to do, batches: 4" in err
    assert "12/12 runs" in err
    assert "12 of 12 runs are in results/runs.db" in err
    assert len(sqlite3.connect("results/runs.db").execute("SELECT id FROM runs").fetchall()) == 12


def test_json_is_alone_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = mimogc(capsys, "reproduce", TINY, *STORE, "--json")
    document = json.loads(out)
    assert code == 0
    assert "runs to do" in err
    assert (document["planned"], document["done"], document["missing"]) == (12, 12, 0)
    assert {run["status"] for run in document["runs"]} == {"done"}
    assert [cell["method"] for cell in document["cells"]] == ["sgd", "adam"]


def test_json_of_a_divergence_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = mimogc(capsys, "reproduce", TINY, *STORE, "--methods", "sgd", "--lr", "1e3", "--json")
    document = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert document["diverged"] == 3
    assert document["runs"][0]["metrics"] == {"loss": None}


def test_dry_run_computes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = mimogc(capsys, "reproduce", TINY, "--dry-run")
    assert code == 0
    assert "12 runs, 0 of them stored; to do: 12, batches: 4" in out
    assert not Path("results").exists()
    mimogc(capsys, "reproduce", TINY, *STORE, "--methods", "sgd")
    _, out, _ = mimogc(capsys, "reproduce", TINY, *STORE, "--dry-run", "--json")
    document = json.loads(out)
    assert (document["stored_before"], document["missing"]) == (6, 6)
    assert {run["method"] for run in document["runs"] if run["status"] == "missing"} == {"adam"}


def test_dry_run_says_what_is_run_and_how_long_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = mimogc(capsys, "reproduce", TINY, "--dry-run", "--quick", "--momentum", "0.5")
    assert "each with steps=10 momentum=0.5 centred=False" in out
    assert "gaussian  sgd     plain momentum=0.5     2       0" in out
    assert "computing time, one run after the other: unknown, nothing comparable of this study is stored" in out
    _, out, _ = mimogc(capsys, "reproduce", TINY, "--dry-run", "--quick", "--steps", "70")
    assert "each with steps=70" in out
    mimogc(capsys, "reproduce", TINY, *STORE, "--quick")
    _, out, _ = mimogc(capsys, "reproduce", TINY, *STORE, "--dry-run")
    assert "computing time, one run after the other: about " in out or "less than a second" in out


def test_dry_run_says_what_follows_from_a_grid(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("reproduce", "heterophilic", "--datasets", "texas", "--methods", "lmgc", "--dry-run")
    _, out, _ = mimogc(capsys, *asked)
    assert "then 50 runs at the settings that these select; computing time, estimated: about 5 min 0 s, roughly" in out
    document = json.loads(mimogc(capsys, *asked, "--json")[1])
    assert (document["missing"], document["following"], document["following_seconds"]) == (90, 50, 300)
    assert "then" not in mimogc(capsys, *asked, "--paper-hparams")[1]
    assert (
        "then the runs that follow from the results"
        in mimogc(capsys, "reproduce", "tiny_study:REFINED", "--dry-run")[1]
    )


def test_help_of_a_study_has_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = mimogc(capsys, "reproduce", TINY, "--help")
    assert code == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    place = lines.index("--steps N steps of descent")
    assert lines[place + 1] == "a whole number, at least 1; default 100, with --quick 10"
    assert "--centred whether data is centred" in lines
    assert "--epochs" not in out
    assert "--datasets" not in out  # there is one only
    example = out.splitlines()[-1].partition("Example: mimogc ")[2].split()
    assert mimogc(capsys, *example, "--dry-run")[0] == 0


def test_what_all_rows_share_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = mimogc(capsys, "reproduce", TINY, *STORE, "--quick")
    assert out.count("momentum=0.0") == out.count("steps=10") == 1
    assert "rests on 1 of 3 repeats, 10 of 100 steps" in out


def test_a_wrong_backend_is_refused_before_anything_runs(tmp_path: Path) -> None:
    environment = {**os.environ, "MIMOGC_BACKEND": "foo", "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-m", "mimogc", "reproduce", TINY, *STORE]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("mimogc: MIMOGC_BACKEND: expected")
    assert not Path("runs.db").exists()


def test_options_of_the_study_itself(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--methods", "SGD", "--seeds", "1", "--lr", "0.2", "--steps=7", "--momentum", "0.5", "--centred")
    code, out, _ = mimogc(capsys, "reproduce", TINY, *STORE, *arguments, "--dry-run", "--json")
    assert code == 0
    runs = json.loads(out)["runs"]
    assert [run["hparams"] for run in runs] == [{"centred": True, "lr": 0.2, "momentum": 0.5, "steps": 7}]


def test_a_failed_run_is_shown_and_the_exit_code_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TINY_FAIL", "sgd")
    code, out, err = mimogc(capsys, "reproduce", TINY, *STORE, "--json")
    assert code == 1
    assert "RuntimeError: asked to fail" in err
    assert "6 failed; the same command tries them again" in err
    assert "Traceback" not in err
    failed = [run for run in json.loads(out)["runs"] if run["status"] == "failed"]
    assert len(failed) == 6
    assert failed[0]["error"] == "RuntimeError: asked to fail"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("reproduce", "univrsality"), "unknown study 'univrsality'; did you mean 'universality'?"),
        (
            ("reproduce", "no_such_module:STUDY"),
            "study: expected a module that can be imported, got 'no_such_module:STUDY'",
        ),
        (("reproduce", "os:path"), "study: expected an object of a class derived from Study, got 'os:path', a module"),
        (("reproduce", "tiny_study:LeastSquares"), "got 'tiny_study:LeastSquares', the class LeastSquares"),
        (("reproduce", TINY, "--seeds", "99999999999"), "--seeds: expected a whole number, at least 1, at most 1,000"),
        (("reproduce", TINY, "--centred=1"), "--centred: expected no value, got '1'"),
        (("reproduce", "zinc12k", "--pe", "rws"), "--pe: expected one of none, lappe, rwse, got 'rws'"),
        (
            ("reproduce", "heterophilic", "--variants", "averaged", "--methods", "acm"),
            "--methods: expected some of gat, gatv2, lmgc, eq12, lmgc-sym with --variants averaged, got acm",
        ),
        (("reproduce", "tiny_study:NONE"), "study: expected a name that 'tiny_study' has, got 'tiny_study:NONE'"),
        (("reproduce", TINY, "--methods", "sdg"), "unknown method 'sdg'; did you mean 'sgd'?"),
        (("reproduce", TINY, "--datasets", "gausian"), "unknown dataset 'gausian'; did you mean 'gaussian'?"),
        (("reproduce", TINY, "--variants", "x"), "unknown variant 'x'; known: plain"),
        (("reproduce", TINY, "--lr", "-0.1"), "--lr: expected a number above 0, got -0.1"),
        (("reproduce", TINY, "--lr", "fast"), "--lr: expected a number, got 'fast'"),
        (("reproduce", TINY, "--methods", ""), "--methods: expected at least one value, got ''"),
        (("reproduce", TINY, "--lr", ","), "--lr: expected at least one value, got ','"),
        (("reproduce", "figures", "--lr", "0.1"), "--lr has no meaning in the study figures"),
        (("reproduce", "figures", "--seeds", "2"), "--seeds has no meaning in the study figures"),
        (("reproduce", "figures", "--paper-hparams"), "--paper-hparams has no meaning in the study figures"),
        (("data", "verify", ""), "LIST: expected at least one value, got ''"),
        (("reproduce", TINY, "--jobs", "0"), "'--jobs'"),
        (("reproduce", TINY, "--jobs", "two"), "'--jobs'"),
        (("reproduce", TINY, "--seeds", "0"), "--seeds: expected a whole number, at least 1, at most 1,000, got 0"),
        (("reproduce", TINY, "--jobs", "2", "--cluster", "a:1"), "give one of them"),
        (("reproduce", TINY, "--stesp", "3"), "unknown option '--stesp'; did you mean '--steps'?"),
        (("reproduce", TINY, "--method", "sgd"), "unknown option '--method'; did you mean '--methods'?"),
        (("reproduce", TINY, "--steps", "many"), "--steps: expected a whole number, at least 1, got 'many'"),
        (("reproduce", TINY, "--steps"), "--steps: expected a whole number, at least 1, got nothing"),
        (("reproduce", TINY, "sgd"), "unexpected argument 'sgd'"),
        (("reproduce", "--steps", "3", TINY), "the study comes first"),
        (("reproduce", TINY, "--store", "no/runs.db"), "there is no folder no"),
        (("reproduce", TINY, "--store", "."), "--store: expected a file"),
        (("reproduce",), "STUDY"),
        (("reprodce",), "reprodce"),
        (("report", "--store", "no/runs.db"), "there is no folder no"),
        (("data", "verify", "texs"), "unknown dataset 'texs'; did you mean 'texas'?"),
    ],
)
def test_a_wrong_argument_is_one_line_and_code_2(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    code, out, err = mimogc(capsys, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1
    assert not Path("runs.db").exists()


def test_a_store_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    Path("runs.db").write_bytes(b"something else" * 1000)
    for arguments in (("reproduce", TINY), ("reproduce", TINY, "--dry-run"), ("report",)):
        code, out, err = mimogc(capsys, *arguments, *STORE)
        assert (code, out) == (1, "")
        assert err.splitlines()[-1] == "mimogc: cannot open the store runs.db: file is not a database"


def test_a_report_of_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = mimogc(capsys, "report")
    assert (code, out) == (1, "")
    assert err.splitlines() == ["mimogc: no results: there is no file results/runs.db"]


def test_a_cluster_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    for address, expected, message in (
        ("127.0.0.1:1", 1, "cannot connect to the cluster at '127.0.0.1:1': "),
        ("nowhere", 2, "--cluster must be host:port or auto; got 'nowhere'"),
    ):
        code, _, err = mimogc(capsys, "reproduce", TINY, *STORE, "--cluster", address)
        assert code == expected
        assert err.splitlines()[-1].startswith(f"mimogc: {message}")
        assert "Traceback" not in err


def test_methods_and_data_as_tables_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(mimogc(capsys, "methods", "--json")[1])
    assert {"lmgc", "gcn", "gatv2"} <= set(document["coefficients"])
    study = next(study for study in document["studies"] if study["name"] == "universality")
    assert "lmgc" in study["methods"]
    assert "mimogc reproduce universality" in mimogc(capsys, "methods")[1]
    rows = json.loads(mimogc(capsys, "data", "list", "--json")[1])["datasets"]
    assert next(row["edges"] for row in rows if row["name"] == "texas") == 325
    assert "36,101" in mimogc(capsys, "data", "list")[1]


def test_a_method_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = mimogc(capsys, "methods", "eq12")
    assert code == 0
    assert "α_k(i,j) = tanh(v_kᵀ LeakyReLU" in out
    assert "IJCAI 2025" in out
    assert "heads" in out
    assert "mimogc reproduce universality --methods lmgc\n" in out  # that study has the paper's names
    assert "mimogc reproduce heterophilic --methods eq12\n" in out
    out = mimogc(capsys, "methods", "lmgc")[1]
    assert "  not universality: it has the paper's names, its lmgc is eq12 here\n" in out
    assert "not universality" not in mimogc(capsys, "methods", "gcn")[1]
    out = " ".join(mimogc(capsys, "reproduce", "universality", "--help")[1].split())
    assert "its lmgc is equation 12, which is called eq12 in the other studies" in out
    assert "the best by mse counts" in out
    assert "the best on validation counts" in mimogc(capsys, "reproduce", "zinc12k", "--help")[1]
    assert "the best on validation counts" in mimogc(capsys, "reproduce", "heterophilic", "--help")[1]
    assert mimogc(capsys, "methods", "LMGC")[0] == 0
    document = json.loads(mimogc(capsys, "methods", "mimogc", "--json")[1])
    assert document["studies"] == ["universality"]
    code, _, err = mimogc(capsys, "methods", "lmcg")
    assert (code, err) == (2, "mimogc: unknown method 'lmcg'; did you mean 'lmgc'?\n")


def test_every_method_has_an_equation_and_a_reference() -> None:
    from mimogc.methods import COEFFICIENTS, METHODS
    from mimogc.nn.coefficients import BY_NAME

    assert all(record.equation and record.source.endswith(".") for record in METHODS.values())
    assert set(COEFFICIENTS) == set(BY_NAME)


# Everything that a person reads before anything is computed: it must not wait for torch.
AT_ONCE = [
    ["--help"],
    ["methods"],
    ["methods", "--json"],
    ["methods", "lmgc"],
    ["methods", "lmcg"],
    ["data", "list"],
    ["reproduce", "--help"],
    *(["reproduce", study, "--help"] for study in BUILT_IN),
    ["reproduce", "univrsality"],
    ["reproduce", "universality", "--steps", "many"],
    ["reproduce", "zinc12k", "--pe", "rws"],
    ["reproduce", "heterophilic", "--variants", "averaged", "--methods", "acm"],
    ["reproduce", "heterophilic", "--methods", "lmcg"],
    ["reproduce", "heterophilic", "--store", "no/runs.db"],
    ["reproduce", "figures", "--lr", "0.1"],
    ["report", "--store", "no/runs.db"],
    ["export", "--format", "xls"],
    ["data", "verify", "texs"],
]


def test_nobody_waits_for_torch_to_be_told_what_is_wrong() -> None:
    code = f"""
import sys
from mimogc.cli import run
for command in {AT_ONCE!r}:
    run(command)
    heavy = {{"torch", "torch_geometric", "scipy", "matplotlib", "ray"}} & set(sys.modules)
    assert not heavy, (command, heavy)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-500:]


def test_a_file_of_ones_own_without_npz_is_answered(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = mimogc(capsys, "reproduce", "heterophilic", "--datasets", "mine.npz", "--dry-run")
    assert (code, "expected npz:PATH for a file of your own, got 'mine.npz' without npz:" in err) == (2, True)


@pytest.mark.parametrize("study", ["universality", "heterophilic", "zinc12k"])
def test_what_is_to_do_is_said_before_torch_is_imported(study: str, tmp_path: Path) -> None:
    code = f"""
import sys
from mimogc.cli import run
from mimogc.cli.progress import Display
def started(self, plan):
    assert plan.missing and "torch" not in sys.modules
    raise SystemExit(7)
Display.started = started
run(["reproduce", {study!r}, "--quick", "--store", {str(tmp_path / "runs.db")!r}])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 7, done.stderr[-500:]


def test_the_command_ends_without_taking_torch_apart(tmp_path: Path) -> None:
    """What is registered for the end is still called, everything is written, and nothing after that."""
    code = """
import atexit, sys
from mimogc.cli import main
class Slow:
    def __del__(self):
        sys.stdout.write("taken apart")
        sys.stdout.flush()
slow = Slow()
atexit.register(print, "at the end", flush=True)
sys.argv = ["mimogc", "data", "list"]
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert "texas" in done.stdout
    assert done.stdout.endswith("at the end\n")


def test_export_as_csv(capsys: pytest.CaptureFixture[str]) -> None:
    mimogc(capsys, "reproduce", TINY, *STORE, "--quick")
    _, out, _ = mimogc(capsys, "export", *STORE)
    rows = list(csv.DictReader(out.splitlines()))
    assert len(rows) == 4
    assert {row["method"] for row in rows} == {"sgd", "adam"}
    assert {row["hparams.steps"] for row in rows} == {"10"}
    kinds = [name.partition(".")[0] for name in rows[0] if "." in name]
    assert kinds == sorted(kinds)  # hparams, then metrics, though the runs differ in what they have
    assert all(float(row["metrics.loss"]) > 0 for row in rows)
    code, out, err = mimogc(capsys, "export", *STORE, "--study", "nothing", "--output", "none.csv")
    assert (code, out, Path("none.csv").exists()) == (2, "", False)
    assert "unknown study 'nothing'" in err
    code, out, err = mimogc(capsys, "export", *STORE, "--study", "zinc", "--output", "none.csv")
    assert (code, out, err) == (0, "", "no runs of zinc; the store has least-squares\nwrote 0 rows to none.csv\n")
    for arguments, message in (
        (("--format", "xls"), "--format: expected one of csv, parquet, got 'xls'"),
        (("--format", "parquet"), "--output: expected a file for parquet, got nothing"),
        (("--output", "no/such.csv"), "--output: there is no folder no"),
        (("--output", "."), "--output: expected a file; . is a folder"),
    ):
        code, _, err = mimogc(capsys, "export", *STORE, *arguments)
        assert (code, err) == (2, f"mimogc: {message}\n")


def test_export_marks_what_is_selected_and_says_where_nothing_is(capsys: pytest.CaptureFixture[str]) -> None:
    mimogc(capsys, "reproduce", TINY, *STORE, "--quick")
    for curves in ((), ("--curves",)):
        code, out, err = mimogc(capsys, "export", *STORE, "--study", "LEAST-squares", "--output", "-", *curves)
        assert (code, err, Path("-").exists()) == (0, "", False)
        rows = list(csv.DictReader(out.splitlines()))
        assert len({row["id"] for row in rows}) == 4
        assert len({row["id"] for row in rows if row["selected"] == "True"}) == 2  # a learning rate of each method
    code, out, err = mimogc(capsys, "export", *STORE, "--study", "heterophilic", "--curves")
    assert (code, out.strip()) == (0, "id,study,dataset,method,variant,split,seed,selected,point")
    assert err == "no curves of heterophilic; the store has least-squares\n"
    Path("empty.db").touch()
    code, out, err = mimogc(capsys, "export", "--store", "empty.db")
    assert (code, err) == (0, "no runs; the store has no runs\n")
    assert out.startswith("id,study,dataset,method,variant,split,seed,status,selected,seconds,finished_at")
    code, out, err = mimogc(capsys, "report", "--store", "empty.db", "--output", "pages")
    assert (code, out, err) == (0, "wrote pages/index.html\n", "no runs; the store has no runs\n")


@pytest.mark.parametrize(
    ("folder", "message"),
    [("runs.db", "--output: expected a folder; runs.db is a file"), ("made", "--output: the folder made")],
)
def test_a_report_needs_a_folder(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: str, message: str
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    Path("runs.db").touch()
    if folder == "made":
        monkeypatch.setattr(Path, "mkdir", fails)
    code, out, err = mimogc(capsys, "report", *STORE, "--output", folder)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert message in err


def test_export_as_parquet(capsys: pytest.CaptureFixture[str]) -> None:
    pandas = pytest.importorskip("pandas")
    mimogc(capsys, "reproduce", TINY, *STORE, "--quick")
    assert mimogc(capsys, "export", *STORE, "--format", "parquet", "--output", "runs.parquet")[0] == 0
    frame = pandas.read_parquet("runs.parquet")
    assert frame.groupby("method")["metrics.loss"].mean().notna().all()
    assert frame["hparams.centred"].dtype == bool


def test_tensorboard_gets_live_and_final_curves(capsys: pytest.CaptureFixture[str]) -> None:
    reading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    assert mimogc(capsys, "reproduce", TINY, *STORE, "--quick", "--methods", "sgd", "--tensorboard", "logs")[0] == 0
    tags = {}
    for folder in Path("logs/least-squares").iterdir():
        found = reading.EventAccumulator(str(folder))
        found.Reload()
        for tag in found.Tags()["scalars"]:
            tags.setdefault(tag, []).append(found.Scalars(tag))
    assert len(tags["live/loss"]) == 2  # runs, each with a line of its own
    assert len(tags["result/loss"]) == 2  # runs
    assert tags["live/loss"][0][-1].step == 10  # steps of training


def test_splits_that_are_trained_in_a_row_have_a_live_curve_each() -> None:
    batch = tuple(Run("s", "texas", "lmgc", "residual", hparams(epochs=100), split, 0) for split in range(4))
    places = [tensorboard._place(batch, fraction) for fraction in (0.025, 0.25, 0.275, 1.0)]
    assert [step for _, step in places] == [10, 100, 10, 100]
    assert [name.split(" split ")[1][0] for name, _ in places] == ["0", "0", "1", "3"]
    as_one = (batch[0], replace(batch[0], seed=1))
    assert [tensorboard._place(as_one, fraction)[1] for fraction in (0.25, 1.0)] == [250, 1000]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("reproduce", "heterophilic", "--methods", "nowhere:Cosine"), "there is no module 'nowhere'"),
        (("methods", "nowhere:Cosine"), "there is no module 'nowhere'"),
        (("methods", ":Cosine"), "expected package.module:NAME, got ':Cosine'"),
        (("reproduce", "heterophilic", "--datasets", "npz:none.npz"), "there is no file none.npz"),
        (("reproduce", "heterophilic", "--datasets", "npz:"), "expected npz:PATH"),
        (("reproduce", "heterophilic", "--datasets", "npz:damaged.npz"), "damaged.npz: not a readable npz file"),
        (("reproduce", "universality", "--tensorboard", "damaged.npz"), "expected a folder; damaged.npz is a file"),
    ],
)
def test_what_is_ones_own_is_looked_at_before_a_store_is_made(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    Path("damaged.npz").write_bytes(b"PK nothing")
    code, out, err = mimogc(capsys, *arguments)
    assert (code, out, [path.name for path in Path().iterdir()]) == (2, "", ["damaged.npz"])
    assert message in err


def test_an_unknown_backend_is_refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIMOGC_BACKEND", "foo")
    code, _, err = mimogc(capsys, "reproduce", "universality", *STORE)
    assert (code, "MIMOGC_BACKEND: expected native" in err) == (2, True)


def test_an_empty_store_has_rough_times(capsys: pytest.CaptureFixture[str]) -> None:
    for study in ("universality", "zinc12k", "zinc", "heterophilic"):
        code, out, _ = mimogc(capsys, "reproduce", study, *STORE, "--dry-run")
        assert code == 0
        assert "roughly, from another machine" in out.splitlines()[-1]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_full_disk_is_named(capsys: pytest.CaptureFixture[str], kind: str) -> None:
    mimogc(capsys, "reproduce", TINY, *STORE, "--quick")
    code, _, err = mimogc(capsys, "export", *STORE, "--format", kind, "--output", "/dev/full")
    assert (code, "/dev/full" in err, "No space left" in err) == (1, True, True)


def test_quick_runs_need_no_workers(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert mimogc(capsys, "reproduce", TINY, *STORE, "--quick", "--jobs", "2")[0] == 0
    assert mimogc(capsys, "reproduce", TINY, *STORE, "--jobs", "2")[0] == 0  # by what is stored now
    code, _, err = mimogc(capsys, "reproduce", TINY, "--store", "other.db", "--jobs", "2")
    assert (code, "need Ray" in err) == (1, True)


def test_data_verify_says_what_is_missing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIMOGC_DATA", str(tmp_path / "cache"))
    monkeypatch.delenv("MIMOGC_MIRROR", raising=False)
    assert mimogc(capsys, "data", "verify")[0] == 0
    code, out, _ = mimogc(capsys, "data", "verify", "texas", "--json")
    assert code == 1
    assert {row["state"] for row in json.loads(out)["files"]} == {"missing"}


@pytest.mark.parametrize(
    "command",
    [("reproduce",), ("report",), ("methods",), ("data", "list"), ("data", "verify"), ("bench",), ("export",)],
)
def test_help_has_an_example(capsys: pytest.CaptureFixture[str], command: tuple[str, ...]) -> None:
    code, out, _ = mimogc(capsys, *command, "--help")
    assert code == 0
    assert f"Example: mimogc {' '.join(command)}" in out


def test_no_arguments_show_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = mimogc(capsys)
    assert (code, out) == (2, "")
    assert "reproduce" in err
    assert len(err.splitlines()) > 5


def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIMOGC_DEBUG", "1")
    with pytest.raises(ValueError, match="univrsality"):
        run(["reproduce", "univrsality"])


def test_without_the_extra_packages_the_command_says_what_to_install() -> None:
    code = "import sys; sys.modules['typer'] = None; import runpy; runpy.run_module('mimogc', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr == 'mimogc: the command needs typer; install it with: pip install "mimogc[experiments]"\n'


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"mimogc {__version__}\n"
