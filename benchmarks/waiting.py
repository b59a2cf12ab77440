"""What a person waits for: the command line, the molecules, an analysis of a real graph, the page of `explore`.

python benchmarks/waiting.py     # needs the data sets: MIMOGC_MIRROR, MIMOGC_DATA or a download
"""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

# Each prints its seconds: measured in a process of its own, as a person would start it.
_PRELUDE = "import time; clock = time.perf_counter\n"
_COMMAND = """
import subprocess, sys
times = []
for _ in range(5):
    start = clock()
    subprocess.run([sys.executable, "-m", "mimogc", *{arguments!r}], capture_output=True)
    times.append(clock() - start)
print(sorted(times)[2])
"""
_FIRST_WORD = """
import subprocess, sys, tempfile
with tempfile.TemporaryDirectory() as folder:
    start = clock()
    command = [sys.executable, "-m", "mimogc", "reproduce", "universality", "--quick", "--store", folder + "/runs.db"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    for line in process.stderr:
        if b"runs to do" in line:
            break
    print(clock() - start)
    process.kill()
    process.wait()
"""
# In a browser that is open already, since a person's is. The first start has no cards kept from former ones.
_EXPLORE_STARTS = """
import os, subprocess, sys, tempfile
from selenium import webdriver
from selenium.webdriver.support.ui import Select
first, redraw = {first}, {redraw}
options = webdriver.ChromeOptions()
for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
    options.add_argument(argument)
browser = webdriver.Chrome(options=options)
browser.get("about:blank")
def until(condition):
    while not browser.execute_script("return " + condition):
        time.sleep(0.01)
command = [sys.executable, "-m", "mimogc", "explore", "--no-browser"]
with tempfile.TemporaryDirectory() as folder:
    environment = dict(os.environ, MIMOGC_DATA=folder) if first else None
    start = clock()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        browser.get(process.stdout.readline().split(" at ")[1].split()[0])
        until("[...document.querySelectorAll('main img')].filter(i => i.complete && i.naturalWidth).length == 3")
        took = clock() - start
        if redraw:
            def pick(method):
                global start
                start = clock()
                Select(browser.find_element("name", "method")).select_by_value(method)
                until("document.querySelector('main').getAttribute('aria-busy') === null")
                return clock() - start
            pick("acm")  # torch is loaded before this one
            took = max(pick(method) for method in ("gat", "fagcn", "gin", "gatv2", "lmgc", "gated"))
        print(took)
    finally:
        browser.quit()
        process.kill()
        process.wait()
"""
_MOLECULES = """
from mimogc.data import load_molecules
load_molecules("zinc12k")
start = clock()
load_molecules("zinc12k")
print(clock() - start)
"""
_AMPLIFICATION = """
import torch
from mimogc.data import load_nodes
from mimogc.nn import LMGConv
from mimogc.spectral import component_amplification
graph = load_nodes("chameleon").graph()
layer, x = LMGConv(32, 32), torch.randn(graph.num_nodes, 32)
start = clock()
component_amplification(layer, x, graph)
print(clock() - start)
"""
_EXPLORE = """
from mimogc.explore import cards
from mimogc.explore.choices import Choice
from mimogc.methods import METHODS
def views(choice):
    start = clock()
    cards.spectrum(choice, 0.02), cards.amplification(choice), cards.depth(choice), cards.multisets(choice)
    return clock() - start
views(Choice(nodes=16))
print(max(views(Choice(nodes=64, method=method, seed=1 + seed)) for seed, method in enumerate(METHODS)))
"""


@dataclass(frozen=True)
class _Wait:
    what: str
    script: str


def _explore(first: bool, redraw: bool) -> str:
    return _EXPLORE_STARTS.replace("{first}", str(first)).replace("{redraw}", str(redraw))


def _command(*arguments: str) -> str:
    return _COMMAND.format(arguments=arguments)


_WAITS = {
    "help": _Wait("mimogc --help, the median of five", _command("--help")),
    "methods": _Wait("mimogc methods", _command("methods")),
    "data": _Wait("mimogc data list", _command("data", "list")),
    "study": _Wait("mimogc reproduce heterophilic --help", _command("reproduce", "heterophilic", "--help")),
    "error": _Wait("mimogc reproduce zinc12k --pe rws, an error", _command("reproduce", "zinc12k", "--pe", "rws")),
    "plan": _Wait("mimogc reproduce universality --quick, until it says what is to do", _FIRST_WORD),
    "first page": _Wait(
        "mimogc explore for the first time, until all is drawn in a browser", _explore(first=True, redraw=False)
    ),
    "page": _Wait("mimogc explore, until all is drawn in a browser", _explore(first=False, redraw=False)),
    "redraw": _Wait(
        "mimogc explore, from picking another method until all is drawn, the slowest of six",
        _explore(first=False, redraw=True),
    ),
    "molecules": _Wait("ZINC12k ready, after the first time", _MOLECULES),
    "amplification": _Wait("component amplification of a layer with 32 channels on Chameleon", _AMPLIFICATION),
    "explore": _Wait("the four views of explore for 64 nodes, the slowest method", _EXPLORE),
}


def seconds(name: str) -> float:
    """How long one of the waits takes."""
    done = subprocess.run([sys.executable, "-c", _PRELUDE + _WAITS[name].script], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError((done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1])
    return float(done.stdout.split()[-1])


def run(say: Callable[[str], None]) -> dict[str, float]:
    """The seconds of each; one that cannot be had here, for want of data or packages, is left out with the reason."""
    say("waiting: seconds until it is there")
    found = {}
    for name, wait in _WAITS.items():
        try:
            found[name] = seconds(name)
        except RuntimeError as reason:
            say(f"  left out: {wait.what}: {reason}")
        else:
            say(f"  {found[name]:6.2f} s  {wait.what}")
    return found


if __name__ == "__main__":
    run(print)
