"""Records as the universality study stores them."""

from mimogc.runs.run import Outcome, Record, Run, hparams

ENVIRONMENT = {"mimogc": "0.1.0", "torch": "2.13.0", "python": "3.11.7", "revision": "abcdef0123456789", "threads": 1}
MEANS = {"gatv2": 0.001, "fagcn": 0.57, "acm": 0.492, "gin": 0.25, "lmgc": 1.4e-6, "mimogc": 1.5e-14}


def record(method: str, variant: str, mse: float, seed: int = 0, steps: int = 40_000, lr: float = 0.01) -> Record:
    """One stored run of the universality study with an error and a short curve."""
    run = Run("universality", "erdos_renyi", method, variant, hparams(lr=lr, steps=steps), 0, seed)
    curves = {"step": [1.0, 100.0, float(steps)], "mse": [1.5, mse * 30, mse]}
    metrics = {"mse": mse, "final_mse": mse} | ({"closed_form_mse": 4e-30} if method == "mimogc" else {})
    return Record(run, "done", Outcome(metrics, curves, 2.0), ENVIRONMENT, "2026-01-01T00:00:00.000+00:00")


def full_table() -> list[Record]:
    """Every cell of Table 1 with three seeds, at MEANS ± 10 %."""
    return [
        record(method, variant, mean * factor, seed)
        for method, mean in MEANS.items()
        for variant in ("n64", "n64-decay", "n16")
        for seed, factor in enumerate((0.9, 1.0, 1.1))
    ]


def node_record(method: str, dataset: str, accuracy: float, seed: int = 1, split: int = 0) -> Record:
    """One stored repeat of the heterophilic study."""
    values = hparams(lr=0.01, dropout=0.25, epochs=1000, layers=2, heads=4, budget=100_000)
    run = Run("heterophilic", dataset, method, "residual", values, split, seed)
    metrics = {"test_accuracy": accuracy, "val_accuracy": accuracy + 1, "train_accuracy": 99.0}
    curves = {"epoch": [1.0, 50.0, 100.0], "loss": [1.6, 0.8, 0.5]}
    return Record(run, "done", Outcome(metrics, curves, 3.0), ENVIRONMENT, "2026-01-01T00:00:00.000+00:00")
