"""The models of the molecule studies: the paper's five variants, three beyond it, and what the paper selected."""

import functools
from typing import TYPE_CHECKING

from mimogc.methods import method as record_of
from mimogc.runs.run import HParams, Run, Scalar, hparams

if TYPE_CHECKING:  # what needs torch is imported by the functions that train
    from mimogc.data import EdgeTable
    from mimogc.models import GraphRegressor
    from mimogc.training.graphs import MoleculeTask

RETURN_STEPS = 20  # of the random walk
PAPER_VARIANTS: dict[str, dict[str, Scalar]] = {
    "basic": {},
    "lappe": {"encoding": "lappe"},
    "jk": {"jumping_knowledge": True},
    "residual": {"residual": True},
    "all": {"encoding": "lappe", "jumping_knowledge": True, "residual": True},
}
# Beyond the paper: edge types in scores and messages, random-walk encodings, residual connections and batch norm.
# The types are those of the bonds, or those of edges that also join the atoms of a ring.
TABLES = ("rings", "structure")
TYPED_VARIANTS: dict[str, dict[str, Scalar]] = {
    name: {"encoding": "rwse", "residual": True, "batch_norm": True} for name in ("bonds", *TABLES)
}
TYPED_SETTING = (8, 0.001)  # layers and learning rate
# The `start` of their runs where layers are calibrated: the L branches together are as large as the features.
SMALL_BRANCHES = "calibrated, branches by 1/√L"
VARIANTS = PAPER_VARIANTS | TYPED_VARIANTS
CALIBRATED_ON = 128  # training molecules, the first ones

USUAL = "lmgc"  # whose settings are those of methods that the paper does not have, or calls by that name


@functools.lru_cache(maxsize=4)
def task(dataset: str, encoding: str, size: int, table: str = "") -> "MoleculeTask":
    """The molecules of a dataset with an encoding, and with the edges of one of the `TABLES` if that is named."""
    from mimogc.data import laplacian_encoding, load_molecules, random_walk_encoding, with_rings
    from mimogc.training.graphs import MoleculeTask

    molecules = load_molecules(dataset)
    made = None
    if encoding != "none":
        made = laplacian_encoding(molecules) if encoding == "lappe" else random_walk_encoding(molecules, RETURN_STEPS)
    return MoleculeTask.of(with_rings(molecules, _table(table)) if table else molecules, made, size)


def task_of(run: Run) -> "MoleculeTask":
    """What the model of a run is trained on."""
    table = run.variant if run.variant in TABLES else ""
    return task(run.dataset, encoding_of(run), int(dict(run.hparams)["molecules"]), table)


@functools.cache
def width(method: str, layers: int, heads: int, budget: int, parts: HParams) -> int:
    """The largest width within the budget of parameters."""
    from mimogc.models import fit_width

    return fit_width(lambda channels: regressor(channels, method, layers, heads, parts), budget)


def regressor(channels: int, method: str, layers: int, heads: int, parts: HParams) -> "GraphRegressor":
    from mimogc.models import GraphRegressor

    return GraphRegressor(channels, method, layers, heads, steps=RETURN_STEPS, **dict(parts))  # type: ignore[arg-type]


def _table(variant: str) -> "EdgeTable":
    from mimogc.data import RINGS, STRUCTURE

    return {"rings": RINGS, "structure": STRUCTURE}[variant]


def _edge_types(variant: str) -> int:
    from mimogc.models.graph_regressor import BOND_TYPES

    return _table(variant).types if variant in TABLES else BOND_TYPES


def parts_of(run: Run) -> HParams:
    """What the model of a run has beside its layers: the variant, and the options beyond it."""
    values = dict(run.hparams)
    parts = dict(VARIANTS[run.variant])
    if values["pe"] != "none":
        parts["encoding"] = values["pe"]
    if run.variant in TYPED_VARIANTS or values["edge_features"]:
        parts["edge_types"] = _edge_types(run.variant)
    if "gain" in values:
        parts |= {"gain": values["gain"], "learn_gain": True}
    elif values.get("start") == SMALL_BRANCHES:
        parts["gain"] = int(values["layers"]) ** -0.5
    return hparams(**parts)


def encoding_of(run: Run) -> str:
    """The positional encoding of a run's model: none, lappe or rwse."""
    return str(dict(parts_of(run)).get("encoding", "none"))


def build(run: Run) -> "tuple[GraphRegressor, MoleculeTask]":
    """The model of a run with the initial weights of its seed, and what it is trained on."""
    import torch

    values, parts = dict(run.hparams), parts_of(run)
    layers, heads = int(values["layers"]), int(values["heads"])
    channels = width(run.method, layers, heads, int(values["budget"]), parts)
    torch.manual_seed(run.seed)
    model = regressor(channels, run.method, layers, heads, parts)
    found = task_of(run)
    if record_of(run.method).calibrated:
        calibrate_regressor(model, found)
    return model, found


def calibrate_regressor(model: "GraphRegressor", task: "MoleculeTask") -> None:
    """Bring its layers to unit scale on the first training molecules."""
    from mimogc.nn import Coefficients, calibrate

    first = task.train[:CALIBRATED_ON]
    batches = task.molecules.batches(first, len(first), model.add_self_loops, task.encoding)
    calibrate(model, next(iter(batches)), only=Coefficients)
