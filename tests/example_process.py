"""An example as a process of its own, forked from a server that has imported torch and PyG once for all of them."""

import multiprocessing
import os
import runpy
import sys
from pathlib import Path

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["torch_geometric.explain", "torch_geometric.nn", "mimogc.data", "mimogc.nn"])


def _run(path: str, arguments: list[str], folder: str, out: list[str], environment: dict[str, str]) -> None:
    for name, descriptor in zip(out, (1, 2), strict=True):
        file = os.open(name, os.O_WRONLY | os.O_CREAT)
        os.dup2(file, descriptor)
        os.close(file)
    os.environ.clear()  # the server's is that of its start
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = [path, *arguments]
    runpy.run_path(path, run_name="__main__")


def run_example(path: Path, arguments: list[str], folder: Path, seconds: float = 300) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of ``python PATH ARGUMENTS`` in a new folder below `folder`."""
    empty, out = folder / "empty", [folder / "stdout", folder / "stderr"]
    empty.mkdir()
    names = [str(file) for file in out]
    process = _CONTEXT.Process(target=_run, args=(str(path), arguments, str(empty), names, dict(os.environ)))
    process.start()
    process.join(seconds)
    if process.exitcode is None:
        process.kill()
        process.join()
    assert not list(empty.iterdir()), "an example leaves files behind"
    return process.exitcode or 0, *(file.read_text(encoding="utf-8") for file in out)
