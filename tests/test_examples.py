"""Every example runs as it stands, and does what it says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path, tmp_path):
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, cwd=tmp_path, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_a_new_coefficient_trains_in_under_thirty_lines():
    path = next(path for path in EXAMPLES if path.stem == "custom_coefficients")
    assert len(path.read_text().splitlines()) < 30
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=True)
    losses = [float(value) for value in re.findall(r"loss (\S+)", done.stdout)]
    assert losses[-1] < 0.7 * losses[0]
