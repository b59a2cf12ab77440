"""The methods as data: one record for each, which everything reads that lists, names, builds or filters methods.

A method of one's own is a record put into `METHODS`, or named as ``package.module:NAME`` wherever a name is taken.
torch is imported when a layer is built, so that the command line can list methods at once.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mimogc._loading import load_object
from mimogc._texts import read_texts

if TYPE_CHECKING:
    import torch

    from mimogc.graph import Graph
    from mimogc.nn.coefficients import Coefficients
    from mimogc.spectral import FourierBasis

OPTIONS = ("heads", "residual", "add_self_loops", "combine", "edge_dim", "bias", "graph")
#: what the graphs of methods have in common, in the order of the figures
FAMILIES: tuple[str, ...] = ("one graph", "softmax heads", "one eigenbasis", "not linear")
FAMILIES += ("graphs of their own", "LMGC", "all components")
ROLES = ("paper", "reference", "further")
_TEXTS = read_texts(Path(__file__).with_suffix(".md"))  # what it is, its equation, who published it


@dataclass(frozen=True)
class Method:
    """What a method is called, how one of its layers is built, and what can be done with it.

    ``layer(channels, **options)`` gives a module called as ``layer(x, graph)``, `channels` in and out; `options` are
    those of `OPTIONS` that it takes, by default those that its signature names.
    """

    name: str
    label: str  #: in tables and figures
    layer: "Callable[..., torch.nn.Module]"
    options: frozenset[str] = frozenset()
    family: str = ""  #: one of `FAMILIES`; those without one are in no figure
    role: str = "further"  #: "paper": in its tables; "reference": beside them where nodes are classified
    linear: bool = True  #: whether it is a sum Σ Ã X W, with coefficients that may depend on X
    calibrated: bool = False  #: whether models start at unit scale, and residual branches of classifiers at zero
    stacks: bool = False  #: whether several layers with nothing between them can be an `LMGCStack`
    batched: str = ""  #: the form that trains many layers as one, as "module:class"
    cost: float = 5.0  #: of a molecule in training, in 0.1 ms on another machine; the default is guessed
    paper_name: str = ""  #: what the paper calls it, where that is the name of another one here

    def __post_init__(self) -> None:
        for kind, value, known in (("family", self.family, ("", *FAMILIES)), ("role", self.role, ROLES)):
            if value not in known:
                raise ValueError(f"{kind}: expected one of {', '.join(filter(None, known))}, got {value!r}")
        options = self.options or frozenset(inspect.signature(self.layer).parameters).intersection(OPTIONS)
        if unknown := sorted(options.difference(OPTIONS)):
            raise ValueError(f"options: expected some of {', '.join(OPTIONS)}, got {', '.join(unknown)}")
        object.__setattr__(self, "options", options)

    @property
    def about(self) -> str:
        """What it is; of one's own method the first sentence of what its layer says of itself."""
        if self.name in _TEXTS:
            return _TEXTS[self.name][0]
        first, *rest = (inspect.getdoc(self.layer) or "").replace("``", "").split("\n\n")
        return " ".join(f"{first} {rest[0] if first.endswith(':') else ''}".split())

    @property
    def equation(self) -> str:
        """What a layer computes; empty for one's own."""
        return _TEXTS.get(self.name, ("", ""))[1]

    @property
    def source(self) -> str:
        """Who published it, and how it is to be read here; empty for one's own."""
        return " ".join(_TEXTS.get(self.name, ())[2:])

    @property
    def free_heads(self) -> bool:
        """Whether one may choose how many graphs it sums over."""
        return "heads" in self.options

    @property
    def scored(self) -> bool:
        """Whether edge features can add to its score."""
        return "edge_dim" in self.options

    @property
    def self_loops(self) -> bool:
        """Whether it can have self-loops added; the others take the graph as it is."""
        return "add_self_loops" in self.options

    @property
    def one_graph(self) -> bool:
        """Whether a layer belongs to one graph, which is then needed to build it."""
        return "graph" in self.options

    def build(
        self,
        channels: int,
        heads: int = 4,
        residual: bool = False,
        add_self_loops: bool = True,
        combine: str = "sum",
        edge_dim: int | None = None,
        bias: bool = True,
        graph: "Graph | None" = None,
    ) -> "torch.nn.Module":
        """One layer. Options that the method does not take are left out, unless that would change what is meant."""
        import torch

        if combine != "sum" and "combine" not in self.options:
            raise ValueError(f"combine: {self.name} allows 'sum' only, got {combine!r}")
        if edge_dim is not None and not self.scored:
            scored = ", ".join(names(lambda record: record.scored))
            raise ValueError(f"method: edge features need one of {scored}, got {self.name!r}")
        if graph is None and self.one_graph:
            raise ValueError(f"graph: expected the graph that a layer of {self.name} belongs to, got none")
        given = (heads, residual, add_self_loops, combine, edge_dim, bias, graph)
        asked = {name: value for name, value in zip(OPTIONS, given, strict=True) if name in self.options}
        made = self.layer(channels, **asked)
        if not isinstance(made, torch.nn.Module):
            raise ValueError(f"method: expected layers that are torch modules, got {type(made).__name__} ({self.name})")
        return made


def _gin(channels: int) -> "torch.nn.Module":
    from mimogc.nn.nonlinear import GINLayer

    return GINLayer(channels, channels)


def _mlp(channels: int, bias: bool) -> "torch.nn.Module":
    from mimogc.nn.nonlinear import NoMessages

    return NoMessages(channels, bias)


def _acm(channels: int, residual: bool, **options: Any) -> "torch.nn.Module":
    from mimogc.nn import LMGConv
    from mimogc.nn.coefficients import ACM

    return LMGConv(channels, channels, coefficients=ACM(identity=residual), **options)


def _chebyshev(channels: int, add_self_loops: bool, bias: bool) -> "torch.nn.Module":
    from mimogc.nn import PolynomialConv

    return PolynomialConv(channels, channels, 2, "chebyshev", add_self_loops, bias)


def _free(channels: int, heads: int, graph: "Graph", add_self_loops: bool, **options: Any) -> "torch.nn.Module":
    from mimogc.nn import LMGConv
    from mimogc.nn.coefficients import Free

    edges = graph.with_self_loops().num_edges if add_self_loops else graph.num_edges
    weights = Free(heads=heads, num_edges=edges)
    return LMGConv(channels, channels, coefficients=weights, add_self_loops=add_self_loops, **options)


def _mimo(channels: int, graph: "Graph", bias: bool) -> "torch.nn.Module":
    from mimogc.nn import MIMOConv

    return MIMOConv(channels, channels, _basis(graph), bias=bias)


@functools.lru_cache(maxsize=2)
def _basis(graph: "Graph") -> "FourierBasis":
    from mimogc.spectral import fourier_basis

    return fourier_basis(graph)


def _conv(coefficients: str) -> "Callable[..., torch.nn.Module]":
    def layer(channels: int, **options: Any) -> "torch.nn.Module":
        from mimogc.nn import LMGConv

        return LMGConv(channels, channels, coefficients=coefficients, **options)

    return layer


_CONV = frozenset({"add_self_loops", "bias"})
_SCORED = _CONV | {"edge_dim"}
_HEADS = _SCORED | {"heads", "combine"}
_FORMS = "mimogc.training.batched"
_EQUATION: dict[str, Any] = {"batched": f"{_FORMS}.attention:LMGC", "paper_name": "lmgc"}

_BUILT_IN = (
    Method("gcn", "GCN", _conv("gcn"), _CONV, "one graph", "reference"),
    Method("gat", "GAT", _conv("gat"), _HEADS, "softmax heads"),
    Method("gatv2", "GATv2", _conv("gatv2"), _HEADS, "softmax heads", "paper", batched=f"{_FORMS}.gatv2:GATv2", cost=6),
    Method("fagcn", "FAGCN", _conv("fagcn"), _SCORED, "one graph", "paper", batched=f"{_FORMS}.attention:FAGCN"),
    Method("acm", "ACM", _acm, _CONV | {"residual"}, "one eigenbasis", "paper", batched=f"{_FORMS}.fixed:ACM"),
    Method("gin", "GIN", _gin, frozenset(), "not linear", "paper", linear=False, batched=f"{_FORMS}.fixed:GIN", cost=4),
    Method("lmgc", "LMGC", _conv("lmgc"), _HEADS, "LMGC", "paper", calibrated=True, stacks=True, cost=2),
    Method("eq12", "LMGC (eq. 12)", _conv("eq12"), _HEADS, "LMGC", stacks=True, cost=2, **_EQUATION),
    Method("lmgc-sym", "LMGC × A_sym", _conv("lmgc-sym"), _HEADS, calibrated=True),
    Method("chebyshev", "Chebyshev, degree 2", _chebyshev, family="one eigenbasis"),
    Method("gated", "GatedGCN", _conv("gated"), _CONV, "graphs of their own"),
    Method("sheaf", "Sheaf, s = 2", _conv("sheaf"), _CONV, "graphs of their own"),
    Method("mlp", "MLP", _mlp, role="reference"),
    Method("mimogc", "MIMO-GC", _mimo, family="all components", batched=f"{_FORMS}.fixed:MIMO"),
    Method("free", "Free", _free, _CONV | {"heads", "combine", "graph"}),
)
#: Name → record. The order is that of tables and lists; it may be added to.
METHODS: dict[str, Method] = {record.name: record for record in _BUILT_IN}
#: the names that ``LMGConv(coefficients=...)`` takes
COEFFICIENTS = ("lmgc", "eq12", "gcn", "gat", "gatv2", "fagcn", "acm", "gated", "sheaf", "free", "lmgc-sym")


def method(choice: str | Method) -> Method:
    """The record: itself, of a known name, or of one's own, ``package.module:NAME``.

    NAME is a `Method`, a `Coefficients` class, or a factory of layers: a function of the number of channels, and of
    those `OPTIONS` that it names. The module may lie in the current folder.
    """
    if isinstance(choice, Method):
        return choice
    if choice in METHODS:
        return METHODS[choice]
    if not isinstance(choice, str) or ":" not in choice:
        raise ValueError(f"method: expected one of {', '.join(METHODS)}, or package.module:NAME, got {choice!r}")
    from mimogc.nn.coefficients import Coefficients

    found, own_name = load_object("method", choice), choice.rpartition(":")[2]
    if isinstance(found, Method):
        return replace(found, name=choice)
    if isinstance(found, type) and issubclass(found, Coefficients):
        return _of_coefficients(choice, own_name, found)
    if not callable(found):
        raise ValueError(
            f"method: expected a Method, a Coefficients class or a factory of layers, got {choice!r}, "
            f"which is of type {type(found).__name__}"
        )
    return Method(choice, own_name, found, linear=False)


def _of_coefficients(name: str, label: str, kind: "type[Coefficients]") -> Method:
    """The method of LMGConv layers with coefficients of this class, made with the arguments that it names."""
    takes = inspect.signature(kind).parameters
    options = _CONV | (takes.keys() & {"heads"})
    if kind.layout == "free":  # else they fix the transformations, and how the graphs are combined
        options |= takes.keys() & {"edge_dim"} | ({"combine"} if "heads" in takes else set())

    def layer(channels: int, heads: int | None = None, edge_dim: int | None = None, **others: Any) -> "torch.nn.Module":
        from mimogc.nn import LMGConv

        sizes: dict[str, Any] = {"in_channels": channels, "out_channels": channels}
        given = {**sizes, "heads": heads, "edge_dim": edge_dim}
        made = kind(**{key: value for key, value in given.items() if key in takes})
        return LMGConv(channels, channels, coefficients=made, edge_dim=edge_dim, **others)

    layer.__doc__ = kind.__doc__
    return Method(name, label, layer, options)


def names(of: Callable[[Method], bool] = lambda record: True) -> tuple[str, ...]:
    """The names of the methods that are such, in order."""
    return tuple(name for name, record in METHODS.items() if of(record))


def trained() -> tuple[str, ...]:
    """The methods that models for any graph can be made of, which is what studies train."""
    return names(lambda record: not record.one_graph)


def of_the_paper() -> Mapping[str, Method]:
    """The methods by the paper's names: what it calls LMGC is its equation 12."""
    return {record.paper_name or name: record for name, record in METHODS.items()}


def place(name: str) -> tuple[int, str]:
    """Where a method stands in lists: in the order of `METHODS`, then those that it does not have, by name."""
    return list(METHODS).index(name) if name in METHODS else len(METHODS), name


def in_order(found: Iterable[str]) -> list[str]:
    """Each method once, in the order of lists."""
    return sorted(set(found), key=place)


def find(name: str) -> Method | None:
    """The record, or None where there is none, as of a module that is gone."""
    try:
        return method(name)
    except ValueError:
        return None


def label(name: str) -> str:
    """What tables call a method; one that cannot be found goes by its raw name."""
    record = find(name)
    return name if record is None else record.label
