"""The heterophilic study (Table 3): node classification on ten splits, selected on validation, repeated five times."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from mimogc import methods
from mimogc.data import info, list_datasets, load_nodes
from mimogc.data.sources import sha256
from mimogc.runs.options import Option
from mimogc.runs.run import Outcome, Record, Run, Scalar
from mimogc.runs.selection import Cell, best, cell_of, cells, means_by_seed, metric_of
from mimogc.runs.study import Context, Options
from mimogc.studies.heterophilic_models import (
    AVERAGED,
    DEEP,
    QUIET_START,
    build,
    check_hidden,
    check_told,
    task,
    train_run,
)
from mimogc.studies.own_methods import MethodStudy, selected_by_paper, takes

DROPOUTS = (0.0, 0.25, 0.5)
GRID_SEED = 0  # the repeats have seeds 1, 2, …: what selects is not reported again
EPOCHS = 1000
QUICK_SPLITS = 3
SMALL = 1000  # nodes up to which the splits of a setting are computed together
AUTO = "auto"
DROPOUT_RATE = "probability of dropping a hidden channel; auto: as the grid, the paper or the usual setting has it"
GAIN = "learnt factor of a layer's output at the start; auto: 0 where the method is calibrated, else none"
BRANCH_SCALE = "root mean square that layers at unit scale start with instead; 0: as usual"
SCORE_LR = "learning rate of score vectors, as a share of the others', in the variant deep"
COSINE = "let the learning rate fall to zero over the epochs, in the variant deep"
HIDE = "features, none negative, of up to this share of the nodes are hidden in training and asked back, in deep"
LABELS = "labels of up to this share of the training nodes are inputs in every step, the others are asked, in deep"
SPLITS = 10  # of every dataset in the catalog
DEEP_VALUES: dict[str, Scalar] = {"layers": 12, "channels": 64, "heads": 2}  # where none are given
PAPER_DATASETS = ("texas", "cornell", "wisconsin", "film", "chameleon", "squirrel")
USUAL_METHODS = methods.names(lambda record: record.role != "further")
USUAL = (0.01, 0.25)  # lr and dropout the paper selected most often: for what is not in its table
# Learning rate and dropout that the paper selected, in the order of PAPER_DATASETS.
PAPER_HPARAMS = selected_by_paper("heterophilic")


class Heterophilic(MethodStudy):
    """The grid over all splits with one seed, then the repeats at what the validation scores select.

    A second variant, `averaged`, is run only when asked for: methods with any number of graphs take the mean over
    them, as the released code has it, in place of the paper's sum. A third, `deep`, is beyond the paper: 12 layers of
    64 channels and two heads unless `--layers`, `--channels` and `--heads` say otherwise, with batch norm and learnt
    maps in place of identities as residual connections, whatever the number of parameters, trained at one learning
    rate for all the epochs; with `--budget` and without `--channels` it is as wide as that allows.
    """

    name = "heterophilic"
    title = "Heterophilic node classification (Table 3)"
    datasets = tuple(entry.name for entry in list_datasets() if entry.task == "node classification")
    variants = ("residual", AVERAGED, DEEP)
    usual: Mapping[str, tuple[str, ...]] = {
        "methods": USUAL_METHODS,
        "datasets": PAPER_DATASETS,
        "variants": ("residual",),
    }
    quick: Mapping[str, tuple[str, ...]] = {"datasets": PAPER_DATASETS[:3]}
    lrs = (0.01, 0.003, 0.001)
    seeds = 5
    higher = ("accuracy", "roc_auc")
    options = (
        Option("epochs", EPOCHS, "most epochs of training", least=1, extent=True, quick=100),
        Option("layers", 2, "layers of the model; deep: 12 unless given", least=1),
        Option("heads", 4, "computational graphs per layer; deep: 2 unless given", least=1),
        Option("undirected", False, "add the reverse of every edge"),
        Option("no_self_loops", False, "leave self-loops out"),
        Option("budget", 100_000, "most parameters of a model", least=1),
        Option("channels", 0, "width of the model, whatever the budget; 0: as it allows, deep: 64", least=0, late=True),
        Option("gain", "auto", GAIN, choices=("auto", "none"), numbers=True, late=True),
        Option("calibrate", False, "start layers of every method at unit scale, as lmgc's always do", late=True),
        Option("branch_scale", 0.0, BRANCH_SCALE, least=0, late=True),
        Option("score_lr", 1.0, SCORE_LR, least=0, late=True),
        Option("cosine", False, COSINE, late=True),
        Option("hide", 0.0, HIDE, least=0, most=1, late=True),
        Option("labels", 0.0, LABELS, least=0, most=1, late=True),
        Option("dropout_rate", AUTO, DROPOUT_RATE, least=0, most=0.95, choices=(AUTO,), numbers=True, late=True),
    )
    own_names = ("method", "dataset")

    def has(self, dataset: str, method: str, variant: str, values: Mapping[str, Scalar]) -> bool:
        if values.get("calibrate") and not takes(method, "add_self_loops"):  # gin and mlp have no scale to bring to one
            return False
        record = methods.find(method)
        if values.get("branch_scale") and not (values.get("calibrate") or record is None or record.calibrated):
            return False
        if values.get("score_lr", 1.0) != 1.0 and (variant != DEEP or (record is not None and not record.scored)):
            return False
        if variant != DEEP and any(values.get(name) for name in ("cosine", "hide", "labels")):
            return False
        return variant != AVERAGED or takes(method, "combine")

    def values(self, dataset: str, method: str, variant: str, options: Options) -> dict[str, Scalar]:
        values = super().values(dataset, method, variant, options)
        values.pop("dropout_rate", None)  # it is the `dropout` of the settings
        if values.get("gain") == (0.0 if methods.method(method).calibrated else "none"):
            del values["gain"]  # it is the usual one
        if "calibrate" in values and methods.method(method).calibrated:
            del values["calibrate"]  # so is this
        if "start" in values and "gain" not in values:
            values["start"] = QUIET_START
        if variant == DEEP:
            given = {*options.asked, *(["channels"] if "budget" in options.asked else [])}  # a budget decides the width
            values |= {name: value for name, value in DEEP_VALUES.items() if name not in given}
        if dataset.startswith("npz:"):
            values["data"] = sha256(Path(dataset.removeprefix("npz:")).expanduser())[:16]
        return values

    def settings(self, dataset: str, method: str, variant: str, options: Options) -> list[Mapping[str, Scalar]]:
        """The grid; the paper's setting where there is none."""
        asked = options.values["dropout_rate"]
        if self._has_grid(options):
            dropouts: Sequence[Scalar] = DROPOUTS if asked == AUTO else [asked]
            return [{"lr": lr, "dropout": dropout} for lr in options.lrs or self.lrs for dropout in dropouts]
        lr, dropout = USUAL
        selected = PAPER_HPARAMS.get(methods.method(method).paper_name or method)
        if dataset in PAPER_DATASETS and selected and variant != DEEP:
            lr, dropout = selected[PAPER_DATASETS.index(dataset)]
        return [{"lr": other, "dropout": dropout if asked == AUTO else asked} for other in options.lrs or (lr,)]

    def repeats(self, dataset: str, options: Options) -> list[tuple[int, int]]:
        """All splits with the grid's seed; without a grid the repeats themselves."""
        return self._repeats(dataset, options, [GRID_SEED] if self._has_grid(options) else self._seeds(options))

    def follow_up(self, options: Options, records: Sequence[Record]) -> list[Run]:
        if not self._has_grid(options):
            return []
        selected = {replace(record.run, seed=GRID_SEED, split=0) for record in self.select(records)}
        return self._repeated(sorted(selected, key=Run.label), options)

    def to_come(self, options: Options, records: Sequence[Record]) -> list[Run]:
        """The repeats of every cell: at what is selected where its grid is there, else at the grid's first setting."""
        if not self._has_grid(options):
            return []
        stored = {record.run.id: record for record in records}
        grids: dict[tuple[str, str, str], list[Run]] = {}
        for run in self.runs(options):
            grids.setdefault((run.dataset, run.method, run.variant), []).append(run)
        found = []
        for grid in grids.values():
            done = [stored[run.id] for run in grid if run.id in stored]
            found += self.follow_up(options, done) if len(done) == len(grid) else self._repeated(grid[:1], options)
        return found

    def _repeated(self, settings: Sequence[Run], options: Options) -> list[Run]:
        return [
            replace(run, seed=seed, split=split)
            for run in settings
            for seed, split in self._repeats(run.dataset, options, self._seeds(options))
        ]

    def _has_grid(self, options: Options) -> bool:
        return not (options.paper_hparams or options.quick)

    def _seeds(self, options: Options) -> range:
        return range(1, 1 + (options.seeds or self.seeds))

    def _repeats(self, dataset: str, options: Options, seeds: Sequence[int]) -> list[tuple[int, int]]:
        splits = task(dataset, False).data.num_splits if dataset.startswith("npz:") else SPLITS
        count = min(splits, QUICK_SPLITS) if options.quick else splits
        return [(seed, split) for seed in seeds for split in range(count)]

    def rough_seconds(self, run: Run) -> float:
        """Of an epoch: the mean follows from docs/results/heterophilic.md, the others are guessed beside it."""
        times = 5 if run.variant == DEEP else 1
        return times * {"film": 0.03, "chameleon": 0.03, "squirrel": 0.1, "minesweeper": 0.1}.get(run.dataset, 0.006)

    def batches(self, runs: Sequence[Run]) -> list[tuple[Run, ...]]:
        """The splits of one setting together where the graph is small, large graphs one by one and first."""

        def group(run: Run) -> tuple[object, ...]:
            size = 0 if run.dataset.startswith("npz:") else info(run.dataset).nodes
            alone = run.split if size > SMALL else -1
            return -size, run.dataset, run.method, run.variant, run.hparams, run.seed, alone

        together = groupby(sorted(runs, key=lambda run: (*group(run), run.split)), key=group)
        return [tuple(batch) for _, batch in together]

    def prepare(self, runs: Sequence[Run]) -> None:
        for dataset in dict.fromkeys(run.dataset for run in runs):
            load_nodes(dataset)
        for dataset in dict.fromkeys(run.dataset for run in runs if "hide" in dict(run.hparams)):
            check_hidden(dataset)
        told: dict[tuple[str, float], list[int]] = {}
        for run in runs:
            if share := float(dict(run.hparams).get("labels", 0.0)):
                told.setdefault((run.dataset, share), []).append(run.split)
        for (dataset, share), splits in told.items():
            check_told(dataset, splits, share)

    def execute(self, batch: tuple[Run, ...], context: Context) -> list[Outcome]:
        return [train_run(run, *build(run), context, done, len(batch)) for done, run in enumerate(batch)]

    def select(self, records: Sequence[Record]) -> list[Record]:
        """For each cell the repeats at the hyper-parameters with the best mean validation score.

        The mean is over all splits of the grid's seed, or of the repeats where no grid was run; a setting that
        lacks splits is not selected. While there are no repeats yet the grid's own runs stand for them. Of what is
        stored for a cell the longest training counts.
        """
        selected: list[Record] = []
        for cell in cells(self, records):
            grid = [record for record in cell if record.run.seed == GRID_SEED]
            setting = best(self, grid or cell, metric_of(cell[0]).replace("test_", "val_"))[0].run.hparams
            at_best = [record for record in cell if record.run.hparams == setting]
            selected += [record for record in at_best if record.run.seed != GRID_SEED] or at_best
        return selected

    def aggregate(self, records: Sequence[Record]) -> list[Cell]:
        found = []
        for repeats in cells(self, self.select(records)):
            splits = len({record.run.split for record in repeats})
            known = not repeats[0].run.dataset.startswith("npz:")  # how many splits there should be
            lacking = [f"{splits} of {SPLITS} splits"] * (known and splits < SPLITS)
            dropout = dict(repeats[0].run.hparams).get("dropout", 0.0)
            if repeats[0].run.variant == DEEP:
                lacking += deep_setting(repeats[0].run)
            elif dropout not in DROPOUTS:  # of --dropout-rate: neither grid nor paper
                lacking.append(f"dropout {dropout}")
            lacks = ", ".join(lacking)
            found.append(cell_of(self, repeats, metric_of(repeats[0]), means_by_seed(repeats), lacks=lacks))
        return found

    def compared(self, records: Sequence[Record]) -> list[Record]:
        return self.select([record for record in records if record.run.variant == self.variants[0]])

    def pair(self, run: Run) -> int:
        """The split: the repeats of each are averaged."""
        return run.split


def deep_setting(run: Run) -> list[str]:
    """What of a deep model's training its column does not say."""
    values = dict(run.hparams)
    said = [f"{int(values['epochs']):,} epochs"] * (int(values["epochs"]) > EPOCHS)
    if (values["lr"], values["dropout"]) != USUAL:
        said.append(f"learning rate {values['lr']}, dropout {values['dropout']}")
    return said


STUDY = Heterophilic()
