"""The cards say in words what the views found, and are quick."""

import re

import torch

from mimogc.explore import cards, views
from mimogc.explore.choices import Choice, random_layer, tour


def text(card: cards.Card) -> str:
    """What is to be read, without the tags."""
    return " ".join(re.sub(r"<[^>]*>", " ", card.html).split())


def test_numbers_are_those_of_the_views() -> None:
    choice = Choice(nodes=16, method="gatv2", heads=3)
    view = views.amplification(choice)
    card = cards.amplification(choice)
    assert '<dd id="operator-rank">3</dd>' in card.html
    assert f'<dd id="coupling">{view.coupling:.3f}</dd>' in card.html
    assert "It takes 3 computational graphs" in text(card)
    assert "One graph expresses this layer" in text(cards.amplification(Choice(nodes=16, method="gcn")))
    rank = float(views.depth(choice).effective_rank[-1])
    assert f"effective rank after 64 layers {rank:.2f}" in text(cards.depth(choice))


def test_the_prediction_is_shown_where_there_is_one() -> None:
    rate = views.depth(Choice(nodes=16, method="gcn")).predicted_rate
    assert rate is not None
    assert f"predicted {rate:.3f}".replace("-", "−") in text(cards.depth(Choice(nodes=16, method="gcn")))
    other = cards.depth(Choice(nodes=16, method="fagcn"))
    assert 'id="predicted-rate"' not in other.html
    assert "predicts for the GCN" in text(other)


def test_the_counterexample_is_shown() -> None:
    colliding = Choice(method="gat", loops=False)
    one, two = views.multisets(colliding).injectivity.counterexample or (None, None)
    assert one is not None
    assert two is not None
    shown = " and ".join(
        f"{views.ELEMENTS[case.element]} among {{ {' , '.join(views.ELEMENTS[i] for i in case.multiset)} }}"
        for case in (one, two)
    )
    assert f"✗ collision Of 9,180 pairs, these two give the same output: {shown}" in text(cards.multisets(colliding))
    assert "✓ no collision All 9,180 pairs are told apart." in text(cards.multisets(Choice()))


def test_the_tour_says_what_the_card_of_softmax_shows() -> None:
    """Two elements, each among {a}; and it is true that {a} and {a, a} give one output, too."""
    _, story, choice = tour()[2]
    one, two = views.multisets(choice).injectivity.counterexample or (None, None)
    assert one is not None
    assert two is not None
    assert (one.multiset, two.multiset) == ((0,), (0,))
    assert one.element != two.element
    assert "two elements, each among {a}" in " ".join(story.split())
    layer, x = random_layer(choice, 4), torch.randn(3, 4).double()
    x[2] = x[1]
    once, twice = (layer(x, torch.tensor([sources, [0] * len(sources)]))[0] for sources in ([1], [1, 2]))
    assert torch.allclose(once, twice)


def test_members_of_a_multiset_have_commas_between_them() -> None:
    shown = re.sub(r"<[^>]*>", "", cards.multisets(Choice(heads=1, loops=False)).html)
    assert re.search(r"among \{(a|b|c|2a), (a|b|c|2a)", shown)


def test_a_reason_is_a_message_and_the_graph_is_still_drawn() -> None:
    card = cards.spectrum(Choice("one-way ring", 12), 0.5)
    assert "This graph is directed" in text(card)
    assert "directed edges 12" in text(card)
    assert "data:image/png;base64" in card.html
    refused = cards.amplification(Choice(nodes=12, method="gin"))
    assert '<p class="message" role="status">GIN is not linear' in refused.html
    assert "<img" not in refused.html


def test_the_component_goes_from_the_smoothest_to_the_roughest() -> None:
    assert "component 1," in cards.spectrum(Choice(nodes=12), 0.0).html
    assert "component 12," in cards.spectrum(Choice(nodes=12), 1.0).html
