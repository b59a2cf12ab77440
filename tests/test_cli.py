"""The command line as a user meets it: what it prints, where, and with which exit code."""

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from mimogc import __version__
from mimogc.cli import run

sys.path.insert(0, str(Path(__file__).parent / "experiments"))
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


def test_options_of_the_study_itself(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (
        "--methods",
        "SGD",
        "--seeds",
        "1",
        "--lr",
        "0.2",
        "--steps=7",
        "--momentum",
        "0.5",
        "--centred",
    )
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
        (("reproduce", "no_such_module:STUDY"), "unknown study 'no_such_module:STUDY'"),
        (("reproduce", "tiny_study:NONE"), "'tiny_study' has no 'NONE'"),
        (("reproduce", TINY, "--methods", "sdg"), "unknown method 'sdg'; did you mean 'sgd'?"),
        (("reproduce", TINY, "--datasets", "gausian"), "unknown dataset 'gausian'; did you mean 'gaussian'?"),
        (("reproduce", TINY, "--variants", "x"), "unknown variant 'x'; known: plain"),
        (("reproduce", TINY, "--lr", "-0.1"), "--lr must be a positive number; got -0.1"),
        (("reproduce", TINY, "--lr", "fast"), "--lr must be a number; got 'fast'"),
        (("reproduce", TINY, "--methods", ""), "--methods needs at least one value; got ''"),
        (("reproduce", TINY, "--lr", ","), "--lr needs at least one value; got ','"),
        (("reproduce", "figures", "--lr", "0.1"), "--lr is for studies that train"),
        (("reproduce", "figures", "--seeds", "2"), "--seeds is for studies that train"),
        (("reproduce", "figures", "--paper-hparams"), "--paper-hparams is for studies that train"),
        (("data", "verify", ""), "LIST needs at least one value; got ''"),
        (("reproduce", TINY, "--jobs", "0"), "'--jobs'"),
        (("reproduce", TINY, "--jobs", "two"), "'--jobs'"),
        (("reproduce", TINY, "--seeds", "0"), "'--seeds'"),
        (("reproduce", TINY, "--jobs", "2", "--cluster", "a:1"), "give one of them"),
        (("reproduce", TINY, "--stesp", "3"), "unknown option '--stesp'; did you mean '--steps'?"),
        (("reproduce", TINY, "--method", "sgd"), "unknown option '--method'; did you mean '--methods'?"),
        (("reproduce", TINY, "--steps", "many"), "--steps must be a whole number; got 'many'"),
        (("reproduce", TINY, "--steps"), "--steps needs a value"),
        (("reproduce", TINY, "sgd"), "unexpected argument 'sgd'"),
        (("reproduce", "--steps", "3", TINY), "the study comes first"),
        (("reproduce", TINY, "--store", "no/runs.db"), "there is no folder no"),
        (("reproduce", TINY, "--store", "."), "must be a file"),
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
        assert err.splitlines() == ["mimogc: cannot open the store runs.db: file is not a database"]


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
    "command", [("reproduce",), ("report",), ("methods",), ("data", "list"), ("data", "verify"), ("bench",)]
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
    assert (
        done.stderr == 'mimogc: the command needs typer; install it with: pip install "mimogc[experiments]"\n'
    )


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"mimogc {__version__}\n"
