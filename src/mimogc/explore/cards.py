"""The four parts of the page as HTML: what is seen, in a sentence, its numbers, and the picture."""

import functools
import html
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from mimogc.data import DataError
from mimogc.explore import pictures, views
from mimogc.explore.choices import Choice, NotShownError, given_graph
from mimogc.theory.multisets import Case, Pair


@dataclass(frozen=True)
class Card:
    """A part of the page, and the seconds its numbers and its picture took."""

    html: str
    seconds: float


Body = Callable[..., str]
_reference = functools.lru_cache(maxsize=32)(views.depth)  # the GCN beside every method


def _card(name: str, title: str) -> Callable[[Body], Callable[..., Card]]:
    """Makes a function that returns the inside of a card one that returns the card; reasons become messages."""

    def wrap(body: Body) -> Callable[..., Card]:
        @functools.lru_cache(maxsize=64)  # going back to an earlier choice costs nothing
        def make(*arguments: object) -> Card:
            start = time.perf_counter()
            try:
                inside = body(*arguments)
            except (NotShownError, DataError) as reason:
                inside = message(str(reason))
            seconds = time.perf_counter() - start
            return Card(f'<section class="card" id="{name}"><h2>{title}</h2>{inside}</section>', seconds)

        return make

    return wrap


def message(text: str) -> str:
    """Why something is not shown."""
    return f'<p class="message" role="status">{html.escape(text)}</p>'


@_card("spectrum", "The graph and its spectrum")
def spectrum(choice: Choice, component: float) -> str:
    """The graph coloured by a component, from the smoothest (0) to the roughest (1)."""
    graph = given_graph(choice)
    links = int((graph.src != graph.dst).sum()) // (2 if graph.is_undirected else 1)
    facts = _numbers(
        nodes=("nodes", str(graph.num_nodes)),
        edges=("directed edges" if not graph.is_undirected else "edges", f"{links:,}"),
    )
    try:
        basis = views.spectrum(choice)
    except NotShownError as reason:
        picture = _image(pictures.spectrum(choice, None, 0), "The graph")
        return facts + message(str(reason)) + picture
    k = round(component * (graph.num_nodes - 1))
    picture = pictures.spectrum(choice, basis, k)
    return (
        facts
        + _image(picture, f"The graph coloured by component {k + 1}, and its eigenvalues")
        + _note(
            "A signal on the nodes is a sum of components, the eigenvectors of the normalised adjacency matrix "
            f"{'with' if choice.loops else 'without'} self-loops. Neighbours agree where λ is near 1 and differ "
            "where it is low. Red and blue are the signs of the one picked."
        )
    )


@_card("amplification", "What one layer does to each component")
def amplification(choice: Choice) -> str:
    """The heat map of one random layer with its ranks and its coupling."""
    view = views.amplification(choice)
    if view.operator_rank == 1:
        meaning = "One graph expresses this layer: all channel pairs amplify the components alike."
    else:
        meaning = f"It takes {view.operator_rank} computational graphs to express this layer."
    return (
        _numbers(
            **{
                "operator-rank": ("operator rank", str(view.operator_rank)),
                "amplification-rank": ("amplification rank", str(view.amplification_rank)),
                "coupling": ("coupling, not in the picture", f"{view.coupling:.3f}"),
            }
        )
        + f'<p class="meaning">{meaning}</p>'
        + _image(pictures.amplification(view), "Heat map of components by channel pairs")
        + _note(
            "A column is one pair of channels, scaled to length 1. Equal columns are shared component "
            "amplification. Coupling is the part of the layer, between 0 and 1, that moves energy from one "
            "component to another; the map has no place for it."
        )
    )


@_card("depth", "Many layers, one after another")
def depth(choice: Choice) -> str:
    """Effective rank and distance to rank one over depth, with the GCN for comparison."""
    view = views.depth(choice)
    reference = view if choice.method == "gcn" else _reference(replace(choice, method="gcn", heads=4))
    last = float(view.effective_rank[-1])
    numbers = {"effective-rank": (f"effective rank after {choice.depth} layers", f"{last:.2f}")}
    if view.measured_rate is not None:
        numbers["measured-rate"] = ("slope of log distance, per layer", _decimal(view.measured_rate))
    if view.predicted_rate is not None:
        numbers["predicted-rate"] = ("predicted", _decimal(view.predicted_rate))
    return (
        _numbers(**numbers)
        + _image(
            pictures.depth(choice, view, reference), "Effective rank and distance to rank one over depth"
        )
        + _note(
            "Each layer has new random weights and 16 channels. At effective rank 1 all nodes are multiples of one "
            "vector. "
            + (
                reference.why_not_predicted
                or "The dotted line has the slope that theory predicts for the GCN once two components are left; "
                "where many λ are near 1 that takes more layers."
            )
        )
    )


@_card("multisets", "Which neighbourhoods look the same")
def multisets(choice: Choice) -> str:
    """Whether two (element, multiset) pairs collide, and whether two outputs are multiples of each other."""
    view = views.multisets(choice)
    one, two = view.injectivity, view.independence
    same = one.counterexample is not None
    dependent = two.counterexample is not None
    return (
        f'<div class="finding" id="injectivity"><h3>{_verdict("collision", same)}</h3>'
        + (
            f"<p>Of {one.pairs:,} pairs, these two give the same output:</p>"
            if same
            else f"<p>All {one.pairs:,} pairs are told apart. The closest, at distance {one.distance:.2g}:</p>"
        )
        + _pair(one.closest)
        + f'</div><div class="finding" id="independence"><h3>{_verdict("dependent outputs", dependent)}</h3>'
        + (
            f"<p>Of {two.pairs:,} pairs, these two give multiples of one vector:</p>"
            if dependent
            else f"<p>No two of {two.pairs:,} are multiples. The smallest angle, {two.angle:.2g} rad:</p>"
        )
        + _pair(two.closest)
        + "</div>"
        + _note(
            "An element and the multiset of its neighbours, of at most three; 2a has the features of a, doubled. "
            "The second question leaves out multisets that are multiples of each other, such as {b} and {b, b}, "
            "which no layer makes independent. "
            + ("With self-loops an element is one more member of its own multiset." if choice.loops else "")
        )
    )


def _numbers(**entries: tuple[str, str]) -> str:
    """Labelled numbers; each has its name as id."""
    rows = "".join(
        f'<div><dt>{label}</dt><dd id="{name}">{value}</dd></div>' for name, (label, value) in entries.items()
    )
    return f'<dl class="numbers">{rows}</dl>'


def _verdict(what: str, found: bool) -> str:
    return f"{'✗' if found else '✓'} {'' if found else 'no '}{what}"


def _pair(pair: Pair | None) -> str:
    if pair is None:
        return ""
    return f'<p class="pair">{_case(pair[0])}<span class="versus">and</span>{_case(pair[1])}</p>'


def _case(case: Case) -> str:
    members = "".join(_element(member) for member in case.multiset)
    return f'<span class="case">{_element(case.element)} among {{{members}}}</span>'


def _element(position: int) -> str:
    return f'<span class="element element-{position}">{views.ELEMENTS[position]}</span>'


def _image(source: str, description: str) -> str:
    return f'<img src="{source}" alt="{html.escape(description)}">'


def _note(text: str) -> str:
    return f'<p class="note">{text}</p>'


def _decimal(value: float) -> str:
    return f"{value:.3f}".replace("-", "−")
