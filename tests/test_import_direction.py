"""Imports go one way, and the library itself needs torch, PyG, numpy and scipy only."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import mimogc

# Each part and those directly below it: it may import these, and whatever these may.
BELOW = {
    "_library": [],
    "_transforms": [],
    "_sorting": ["_library", "_transforms"],
    "_structs": ["_library"],
    "_ordering": [],
    "graph": ["_sorting", "_structs", "_transforms", "_ordering"],
    "ops": ["graph"],
    "_joining": [],
    "distributed": ["graph", "_joining"],
    "_polynomials": [],
    "nn": ["ops", "_polynomials"],
    "spectral": ["graph", "_polynomials"],
    "theory": ["spectral"],
    "testing": ["ops"],
    "graphgym": ["nn"],
    "_loading": [],
    "_texts": [],
    "methods": ["_loading", "_texts", "nn", "spectral"],
    "models": ["methods"],
    "data": ["graph"],
    "runs": ["_loading", "_joining"],
    "training": ["models", "data", "runs", "distributed"],
    "studies": ["plot", "theory", "training"],
    "plot": ["graph", "runs"],
    "bench": ["studies"],
    "report": ["studies"],
    "explore": ["studies"],
    "cli": ["bench", "report", "explore"],
    "__main__": ["cli"],
    "__init__": ["models", "theory", "distributed"],
}


def allowed(part: str) -> set[str]:
    return {part}.union(*(allowed(lower) for lower in BELOW[part]))


def imported_parts(source: str) -> Iterator[str]:
    """The parts of mimogc that a file imports, anywhere in it; relative imports are named as what they are.

    What only the type checker imports does not count.
    """
    tree = ast.parse(source)
    checks = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    unseen = {inner for check in checks for inner in ast.walk(check)}
    for node in ast.walk(tree):
        if node in unseen:
            continue
        if isinstance(node, ast.ImportFrom) and node.level:
            yield "relative import"
        elif isinstance(node, ast.ImportFrom) and node.module == "mimogc":
            yield from (alias.name for alias in node.names if alias.name in BELOW)
        else:
            names = [node.module] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            yield from (name.split(".")[1] for name in names if name and name.startswith("mimogc."))


def violations(root: Path) -> list[str]:
    found = []
    for file in sorted(root.rglob("*.py")):
        part = file.relative_to(root).parts[0].removesuffix(".py")
        found += [
            f"{file.relative_to(root)} imports {other}"
            for other in imported_parts(file.read_text())
            if other not in allowed(part)
        ]
    return found


def test_imports_go_one_way() -> None:
    assert violations(Path(mimogc.__file__).parent) == []


def test_the_check_sees_a_wrong_import(tmp_path: Path) -> None:
    for part in ("nn", "spectral", "report"):
        (tmp_path / part).mkdir()
    (tmp_path / "nn" / "a.py").write_text("def f():\n    from mimogc.spectral import fourier_basis\n")
    (tmp_path / "spectral" / "b.py").write_text("import mimogc.nn.conv\nfrom mimogc import ops, Graph\n")
    (tmp_path / "spectral" / "c.py").write_text("from .b import x\n")
    (tmp_path / "report" / "d.py").write_text("from mimogc.runs.store import Store\n")
    assert violations(tmp_path) == [
        "nn/a.py imports spectral",
        "spectral/b.py imports nn",
        "spectral/b.py imports ops",
        "spectral/c.py imports relative import",
    ]


CODE = """
import importlib, importlib.util, sys
import mimogc
mimogc.Graph
for name in ("ops", "nn", "methods", "models", "spectral", "theory", "data"):
    importlib.import_module(f"mimogc.{name}")
print(*sorted({"typer", "rich", "ray", "matplotlib", "starlette", "uvicorn", "selenium"} & set(sys.modules)))
"""


def test_the_library_does_not_need_the_tools_of_the_experiments() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], check=True, capture_output=True, text=True)
    assert done.stdout.split() == []


def test_the_command_line_starts_without_torch() -> None:
    code = "import sys, mimogc.cli\nprint(*sorted({'torch', 'rich', 'ray', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == []
