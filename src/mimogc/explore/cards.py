"""The four parts of the page as HTML: what is seen, in a sentence, its numbers, and the picture."""

import functools
import html
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mimogc.data import DataError, info
from mimogc.explore import kept
from mimogc.explore.choices import COMPONENT, DATASETS, ELEMENTS, TEXTS, Choice, NotShownError, given_graph, tour
from mimogc.methods import method as record_of

if TYPE_CHECKING:  # what needs torch is imported by the functions that compute, so that the page opens without it
    from mimogc.explore.views import Depth
    from mimogc.theory.multisets import Case, Independence, Injectivity


@dataclass(frozen=True)
class Card:
    """A part of the page, and the seconds its numbers and its picture took."""

    html: str
    seconds: float


Body = Callable[..., str]
_one_at_a_time = threading.RLock()


@functools.lru_cache(maxsize=32)
def _reference(choice: Choice) -> "Depth":
    """The GCN beside every method."""
    from mimogc.explore import views

    return views.depth(choice)


_bodies: dict[str, Body] = {}


def _card(body: Body) -> Callable[..., Card]:
    """Makes a function that returns the inside of a card one that returns the card."""
    name = body.__name__
    _bodies[name] = body

    @functools.lru_cache(maxsize=64)  # going back to an earlier choice costs nothing
    def cached(*arguments: object) -> Card:
        start = time.perf_counter()
        keep = (name, arguments) in of_the_tour()
        text = kept.read(name, arguments) if keep else None
        if text is None:
            kept.wait()
            text = inside(name, arguments)
            if keep:
                kept.write(name, arguments, text)
        return Card(framed(name, text), time.perf_counter() - start)

    def make(*arguments: object) -> Card:
        with _one_at_a_time:  # what is being made in advance is not made twice
            return cached(*arguments)

    return make


def inside(name: str, arguments: tuple[object, ...]) -> str:
    """A card without its title, made anew; a reason why there is none becomes a message."""
    try:
        return _bodies[name](*arguments)
    except (NotShownError, DataError) as reason:
        return message(str(reason))


def framed(name: str, text: str) -> str:
    """A card: its inside under its title."""
    return f'<section class="card" id="{name}"><h2>{TEXTS[name][0]}</h2>{text}</section>'


@functools.cache
def of_the_tour() -> dict[tuple[str, tuple[object, ...]], None]:
    """Name and arguments of the cards that the page opens with and that the tour shows, in order."""
    return dict.fromkeys(part for _, _, choice in tour() for part in parts(choice, COMPONENT / 100))


def parts(choice: Choice, component: float) -> list[tuple[str, tuple[object, ...]]]:
    """The four cards of a choice. Each gets only what it depends on, and is not made again when the rest changes."""
    record = record_of(choice.method)
    heads = choice.heads if record.free_heads else Choice.heads
    graph = Choice(choice.graph, choice.nodes, choice.loops, seed=choice.seed)
    layer = replace(graph, method=choice.method, heads=heads)
    return [
        ("spectrum", (graph, component)),
        ("amplification", (layer,)),
        ("depth", (replace(layer, depth=choice.depth),)),
        ("multisets", (Choice(method=choice.method, loops=choice.loops, heads=heads, seed=choice.seed),)),
    ]


def made(choice: Choice, component: float) -> list[Card]:
    """The four cards."""
    makers = {"spectrum": spectrum, "amplification": amplification, "depth": depth, "multisets": multisets}
    return [makers[name](*arguments) for name, arguments in parts(choice, component)]


def message(text: str) -> str:
    """Why something is not shown."""
    return f'<p class="message" role="status">{html.escape(text)}</p>'


@_card
def spectrum(choice: Choice, component: float) -> str:
    """The graph coloured by a component, from the smoothest (0) to the roughest (1)."""
    from mimogc.explore import pictures, views

    graph = given_graph(choice)
    links = int((graph.src != graph.dst).sum()) // (2 if graph.is_undirected else 1)
    edges = "edges" if graph.is_undirected else "directed edges"
    facts = _numbers(nodes=("nodes", str(graph.num_nodes)), edges=(edges, f"{links:,}"))
    if choice.graph in DATASETS:
        listed = f"{info(choice.graph).edges:,.0f}"
        counted = TEXTS["counted"][0].format(listed=listed, links=f"{links:,}")
        facts += f'<p class="note" id="counted">{_prose(counted)}</p>'
    try:
        basis = views.spectrum(choice)
    except NotShownError as reason:
        return facts + message(str(reason)) + _image(pictures.spectrum(choice, None, 0), "The graph")
    k = round(component * (graph.num_nodes - 1))
    alt = f"The graph coloured by component {k + 1}, and its eigenvalues"
    picture = _image(pictures.spectrum(choice, basis, k), alt)
    return facts + picture + _note("spectrum", with_loops="with" if choice.loops else "without")


@_card
def amplification(choice: Choice) -> str:
    """The heat map of one random layer with its ranks and its coupling."""
    from mimogc.explore import pictures, views

    view = views.amplification(choice)
    meaning = f"It takes {view.operator_rank} computational graphs to express this layer."
    if view.operator_rank == 1:
        meaning = "One graph expresses this layer: all channel pairs amplify the components alike."
    numbers = {
        "operator-rank": ("operator rank", str(view.operator_rank)),
        "amplification-rank": ("amplification rank", str(view.amplification_rank)),
        "coupling": ("coupling, not in the picture", f"{view.coupling:.3f}"),
    }
    picture = _image(pictures.amplification(view), "Heat map of components by channel pairs")
    return _numbers(**numbers) + f'<p class="meaning">{meaning}</p>' + picture + _note("amplification")


@_card
def depth(choice: Choice) -> str:
    """Effective rank and distance to rank one over depth, with the GCN for comparison."""
    from mimogc.explore import pictures, views
    from mimogc.plot import decimal

    view = views.depth(choice)
    reference = view if choice.method == "gcn" else _reference(replace(choice, method="gcn", heads=4))
    last = float(view.effective_rank[-1])
    numbers = {"effective-rank": (f"effective rank after {choice.depth} layers", f"{last:.2f}")}
    if view.measured_rate is not None:
        numbers["measured-rate"] = ("slope of log distance, per layer", decimal(view.measured_rate, 3))
    if view.predicted_rate is not None:
        numbers["predicted-rate"] = ("predicted", decimal(view.predicted_rate, 3))
    picture = _image(pictures.depth(choice, view, reference), "Effective rank and distance to rank one over depth")
    prediction = reference.why_not_predicted or TEXTS["predicted"][0]
    return _numbers(**numbers) + picture + _note("depth", prediction=prediction)


@_card
def multisets(choice: Choice) -> str:
    """Whether two (element, multiset) pairs collide, and whether two outputs are multiples of each other."""
    from mimogc.explore import views

    view = views.multisets(choice)
    one, two = view.injectivity, view.independence
    same = f"Of {one.pairs:,} pairs, these two give the same output:"
    apart = f"All {one.pairs:,} pairs are told apart. The closest, at distance {one.distance:.2g}:"
    multiples = f"Of {two.pairs:,} pairs, these two give multiples of one vector:"
    independent = f"No two of {two.pairs:,} are multiples. The smallest angle, {two.angle:.2g} rad:"
    loops = "With self-loops an element is one more member of its own multiset." if choice.loops else ""
    return (
        _finding("injectivity", "collision", one, same, apart)
        + _finding("independence", "dependent outputs", two, multiples, independent)
        + _note("multisets", loops=loops)
    )


def _finding(name: str, what: str, evidence: "Injectivity | Independence", found: str, not_found: str) -> str:
    """Whether there is such a pair, and that pair or the one that comes nearest."""
    verdict, sentence = (f"✗ {what}", found) if evidence.counterexample is not None else (f"✓ no {what}", not_found)
    pair = '<span class="versus">and</span>'.join(_case(case) for case in evidence.closest or ())
    pair = pair and f'<p class="pair">{pair}</p>'
    return f'<div class="finding" id="{name}"><h3>{verdict}</h3><p>{sentence}</p>{pair}</div>'


def _numbers(**entries: tuple[str, str]) -> str:
    """Labelled numbers; each has its name as id."""
    row = '<div><dt>{}</dt><dd id="{}">{}</dd></div>'
    rows = [row.format(label, name, value) for name, (label, value) in entries.items()]
    return f'<dl class="numbers">{"".join(rows)}</dl>'


def _case(case: "Case") -> str:
    members = ", ".join(_element(member) for member in case.multiset)
    return f'<span class="case">{_element(case.element)} among {{{members}}}</span>'


def _element(position: int) -> str:
    return f'<span class="element element-{position}">{ELEMENTS[position]}</span>'


def _image(source: str, description: str) -> str:
    return f'<img src="{source}" alt="{html.escape(description)}">'


def _note(card: str, **fields: str) -> str:
    return f'<p class="note">{_prose(TEXTS[card][1].format(**fields))}</p>'


def _prose(text: str) -> str:
    """A text of ours: what stands between backticks is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
