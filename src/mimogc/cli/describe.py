"""Methods and studies explained: what there is to choose from, what it means, in what range."""

import inspect
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from mimogc import methods as records
from mimogc import studies
from mimogc.cli.present import table
from mimogc.methods import COEFFICIENTS, METHODS, Method
from mimogc.runs.options import UsageError, known
from mimogc.runs.study import KINDS, SEEDS, Study

#: what the options of a method mean, see `mimogc.methods.OPTIONS`
MEANINGS = {
    "heads": "K, how many computational graphs a layer sums over (4)",
    "combine": "how the K graphs are put together: sum, mean or concat (sum)",
    "add_self_loops": "whether each node is a neighbour of itself (yes)",
    "edge_dim": "size of edge features, which add to an edge's score (none)",
    "bias": "whether a layer adds a bias (yes)",
    "residual": "in a residual model the identity is a further graph",
    "graph": "the graph that a layer belongs to: it cannot be used on another one",
}


def methods_document(loaded: Sequence[Study]) -> dict[str, Any]:
    """What ``mimogc methods --json`` prints: the methods, coefficient classes for layers, the studies."""
    listed = ("name", "title", "methods", "datasets", "variants")
    return {
        "methods": [_row(record) for record in METHODS.values()],
        "coefficients": list(COEFFICIENTS),
        "studies": [
            {name: getattr(one, name) for name in listed} | {"options": [asdict(option) for option in one.options]}
            for one in loaded
        ],
    }


def _row(record: Method) -> dict[str, Any]:
    row = {"name": record.name, "label": record.label, "what it is": record.about, "equation": record.equation}
    return row | {"reference": record.source, "options": sorted(record.options)}


def methods(loaded: Sequence[Study]) -> None:
    """Print the methods and the studies, a line for each."""
    table([{"method": name, "what it is": record.about} for name, record in METHODS.items()])
    print("\nmimogc methods NAME explains one: equation, reference, options, where it is used.")
    print("One of your own is package.module:NAME wherever a method is named.\n")
    table([{"study": one.name, "what is measured": one.title} for one in loaded])
    print("\nmimogc reproduce STUDY --help lists what a study takes, such as:")
    print("mimogc reproduce universality --quick")


def method_document(name: str, loaded: Sequence[Study]) -> dict[str, Any]:
    """What ``mimogc methods NAME --json`` prints."""
    record = _record(name)
    return {**_row(record), "studies": [one.name for one in loaded if _trains(one, record)]}


def method(name: str, loaded: Sequence[Study]) -> None:
    """Print what a method is, its equation and reference, its options, and where it is used."""
    record = _record(name)
    print(_wrapped(f"{record.label}: {record.about}" if record.about else record.label))
    for title, text in (("Equation", record.equation), ("Reference", record.source)):
        if text:
            print(f"\n{title}\n" + _wrapped(text, "  "))
    print("\nOptions")
    rows = [{"option": f"  {key}", "meaning": meaning} for key, meaning in MEANINGS.items() if key in record.options]
    table(rows or [{"option": "  none", "meaning": ""}])
    print("\nIn code")
    if name in COEFFICIENTS and name != "free":
        print(f'  mimogc.nn.LMGConv(in_channels, out_channels, coefficients="{name}")')
    arguments = "64, graph=graph" if record.one_graph else "64"
    print(f'  mimogc.methods.method("{name}").build({arguments})  # one layer, 64 channels in and out')
    print("\nStudies")
    found = [one for one in loaded if _trains(one, record)]
    for one in found:
        print(f"  {one.title}\n    mimogc reproduce {one.name} --methods {_in_study(one, record)}")
    if not found:
        print("  none: no model for any graph can be made of it")
    elif _in_study(found[0], record) != name:
        print(f"  ({found[0].name} has the paper's names, in which this is {_in_study(found[0], record)})")
    for one in loaded:
        if one not in found and name in one.methods:  # the same word for another method
            print(f"  not {one.name}: it has the paper's names, its {name} is {records.of_the_paper()[name].name} here")


def _record(name: str) -> Method:
    if ":" not in name:
        return METHODS[known("method", name, METHODS)]
    try:
        return records.method(name)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _trains(study: Study, record: Method) -> bool:
    if ":" in record.name:
        return "method" in study.own_names
    return _in_study(study, record) in study.methods


def _in_study(study: Study, record: Method) -> str:
    """What a study calls the method; that of Table 1 has the paper's names."""
    if "method" in study.own_names or study.name not in studies.BUILT_IN:
        return record.name
    return next((name for name, one in records.of_the_paper().items() if one is record), "")


def study(study: Study) -> None:
    """Print what a study takes: names to choose from, its own options with meaning, range and default, an example."""
    called = studies.called(study)
    print(f"mimogc reproduce {called} [OPTIONS]\n\n" + _wrapped(f"{study.title}. {_caption(study)}") + "\n")
    for kind in KINDS:
        available, own = getattr(study, kind), _OWN[kind] if _has_own(study, kind) else ""
        if len(available) < 2 and not own:
            continue
        usual = study.usual.get(kind, available)
        default = "all" if set(usual) == set(available) else ", ".join(usual)
        _entry(
            f"--{kind} LIST",
            f"only these {kind}, with commas and no spaces between them",
            ", ".join(available) + own,
            default,
            study.quick.get(kind, ()),
        )
    if study.lrs:
        rates = ", ".join(f"{lr:g}" for lr in study.lrs)
        what = study.selects or study.metric
        by = "on validation" if not what or what.startswith("val") else f"by {what}"
        _entry("--lr LIST", f"learning rates; the best {by} counts", "numbers above 0", rates)
    if study.seeds:
        _entry("--seeds N", SEEDS.meaning, SEEDS.expected, str(study.seeds), ("1",))
    if study.paper_hparams:
        _entry("--paper-hparams", "the settings that the paper selected, in place of the grid")
    for option in study.options:
        if isinstance(option.default, bool):
            _entry(option.flag, option.meaning)
        else:
            quick = () if option.quick is None else (_plain(option.quick),)
            name = f"{option.flag} {'N' if isinstance(option.default, int) else 'VALUE'}"
            _entry(name, option.meaning, option.expected, _plain(option.default), quick)
    if _has_own(study, "datasets"):
        print(f"\n{NPZ}")
    print("\nEvery study has --quick --jobs --cluster --store --tensorboard --dry-run --json: mimogc reproduce --help")
    example = [called, "--quick"]
    kind = next((kind for kind in ("methods", "variants", "datasets") if len(getattr(study, kind)) > 1), "")
    example += [f"--{kind}", ",".join(study.usual.get(kind, getattr(study, kind))[-2:])] if kind else []
    example += [word for option in study.options[:1] for word in option.typed(option.quick or option.default)]
    print(f"Example: mimogc reproduce {' '.join(example)}")


def _caption(study: Study) -> str:
    """The first paragraph of what the study says of itself."""
    return " ".join((inspect.getdoc(study) or "").split("\n\n")[0].replace("`", "").split())


def _entry(option: str, meaning: str, values: str = "", default: str = "", quick: Sequence[str] = ()) -> None:
    """An option in two lines: what it means, and what it takes."""
    print(f"  {option:<{_INDENT - 4}}  {meaning}")
    if values:
        facts = f"{values}; default {default}" + (f", with --quick {', '.join(quick)}" if quick else "")
        print(_wrapped(facts, " " * _INDENT))


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


WIDTH, _INDENT = 80, 20
_OWN = {"methods": " or package.module:NAME", "datasets": " or npz:PATH", "variants": ""}
#: what a file of one's own must have, for the help
NPZ = (
    "npz:PATH is a file with node_features [N, F], node_labels [N] (0, 1, …), edges [E, 2] and train_masks,\n"
    "val_masks, test_masks [S, N], a row for each split. Edges are used in both directions. Two classes are\n"
    "measured by ROC-AUC, more by accuracy."
)


def _has_own(study: Study, kind: str) -> bool:
    return kind.removesuffix("s") in study.own_names


def _plain(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
