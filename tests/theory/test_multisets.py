"""Propositions 3 and 4 by enumeration: who collides, who is dependent, and that the checks can fail."""

import pytest
import torch
from torch_geometric.nn import GATv2Conv, GCNConv

from mimogc.nn import LMGConv
from mimogc.theory import Case, check_injectivity, check_linear_independence

COLLIDING = ["gcn", "fagcn", "acm", "gat", "gatv2"]


@pytest.fixture
def elements():
    torch.manual_seed(0)
    return torch.randn(3, 4).double()


def layer_of(method, heads=4, loops=False, channels=4):
    return LMGConv(4, channels, heads=heads, coefficients=method, add_self_loops=loops).double()


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("heads", [1, 2, 4])
def test_lmgc_is_injective(heads, loops, elements):
    evidence = check_injectivity(layer_of("lmgc", heads, loops), elements, 4)
    assert evidence.counterexample is None
    assert evidence.distance > 1e-4
    cases = 3 * (3 + 6 + 10 + 15)
    assert evidence.pairs == cases * (cases - 1) // 2


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("method", COLLIDING)
def test_normalised_methods_cannot_count(method, loops, elements):
    evidence = check_injectivity(layer_of(method, loops=loops), elements[:1], 2)
    assert evidence.counterexample == (Case(0, (0,)), Case(0, (0, 0)))  # {x} against {x, x}
    assert evidence.distance < 1e-12


def test_the_same_methods_do_not_collide_on_a_star(elements):
    """With one centre only the degrees of the neighbours give the size away: the check must not use stars."""
    layer, x = layer_of("gcn"), elements[:1]
    one = layer(x.expand(2, -1), torch.tensor([[0, 1], [1, 0]]))[0]
    two = layer(x.expand(3, -1), torch.tensor([[0, 1, 0, 2], [1, 0, 2, 0]]))[0]
    assert (one - two).norm() > 0.1


def test_other_peoples_layers(elements):
    for layer in (GCNConv(4, 4), GATv2Conv(4, 4)):
        assert check_injectivity(layer.double(), elements, 2).counterexample is not None


def test_k_greater_one_is_independent_also_on_collinear_elements(elements):
    collinear = torch.cat([elements, 2 * elements[:1]])
    for loops in (False, True):
        evidence = check_linear_independence(layer_of("lmgc", 2, loops), collinear, 3, across_elements=True)
        assert evidence.counterexample is None
        assert evidence.angle > 1e-7


def test_k_one_fails_on_collinear_elements_only(elements):
    layer = layer_of("lmgc", 1)
    general = check_linear_independence(layer, elements, 4)
    assert general.counterexample is None
    assert general.angle > 1e-7
    collinear = torch.cat([elements[:1], 2 * elements[:1]])
    evidence = check_linear_independence(layer, collinear, 1)
    assert evidence.counterexample is not None
    assert {case.multiset for case in evidence.counterexample} == {(0,), (1,)}


def test_k_one_fails_around_different_elements(elements):
    assert check_linear_independence(layer_of("lmgc", 1), elements, 1, across_elements=True).counterexample
    assert not check_linear_independence(layer_of("lmgc", 2), elements, 1, across_elements=True).counterexample


@pytest.mark.parametrize("loops", [False, True])
def test_proportional_multisets_are_dependent_and_left_out(loops, elements):
    """{a,a} and {a,a,a} have the factor 3/2, which is rational and no integer."""
    layer = layer_of("lmgc", 4, loops)
    only = check_linear_independence(layer, elements[:1], 4, across_elements=True)
    assert only.pairs == 0
    assert only.angle == float("inf")
    assert only.closest is None
    # Around one element they are dependent indeed.
    x = elements[:1]

    def out(size):
        nodes = torch.cartesian_prod(torch.arange(size, 2 * size), torch.arange(size)).T
        edges = torch.cat([nodes, nodes.flip(0)], dim=1)
        return layer(x.expand(2 * size, -1), edges)[0] - layer.bias

    angle = torch.nn.functional.cosine_similarity(out(2), out(3), dim=0)
    assert angle.item() == pytest.approx(1, abs=1e-12)


def test_self_loops_count_as_a_member(elements):
    """With loops (p, {q}) is {q, p} and (p, {p, q, q}) is {p, p, q, q}: proportional, hence no counterexample."""
    layer = layer_of("lmgc", 4, loops=True)
    assert check_linear_independence(layer, elements[:2], 3, across_elements=True).counterexample is None
    layer.add_self_loops = True

    class Hidden(torch.nn.Module):
        """The same layer, without saying that it adds loops."""

        def forward(self, x, edge_index):
            return layer(x, edge_index)

    evidence = check_linear_independence(Hidden(), elements[:2], 3, across_elements=True)
    assert evidence.counterexample is not None


def test_a_bias_is_no_part_of_the_statement(elements):
    layer = layer_of("lmgc", 1)
    before = check_linear_independence(layer, elements, 2, across_elements=True)
    torch.nn.init.normal_(layer.bias)
    after = check_linear_independence(layer, elements, 2, across_elements=True)
    assert after.angle == pytest.approx(before.angle, abs=1e-7)


def test_a_zero_output_is_dependent_on_everything(elements):
    layer = layer_of("lmgc")
    torch.nn.init.zeros_(layer.lin.weight)
    evidence = check_linear_independence(layer, elements, 2)
    assert evidence.angle == 0
    assert evidence.counterexample is not None
    assert check_injectivity(layer, elements, 2).counterexample is not None


def test_float32(elements):
    single = elements.float()
    assert check_injectivity(layer_of("lmgc").float(), single, 3).counterexample is None
    assert check_injectivity(layer_of("gatv2").float(), single[:1], 3).counterexample is not None
    assert check_linear_independence(layer_of("lmgc", 1).float(), single, 1, True).counterexample is not None


@pytest.mark.parametrize("check", [check_injectivity, check_linear_independence])
def test_edge_features_are_no_part_of_multisets(check, elements):
    layer, features = LMGConv(elements.size(1), 6, edge_dim=2).to(elements.dtype), torch.ones(2, dtype=elements.dtype)
    with pytest.raises(ValueError, match=r"expected one without edge features.* got edge_dim=2; give every edge"):
        check(layer, elements, 2)
    assert check(lambda x, edges: layer(x, edges, features.expand(edges.size(1), -1)), elements, 2).pairs > 0


def test_wrong_arguments(elements):
    layer = layer_of("lmgc")
    with pytest.raises(ValueError, match="elements: expected non-zero rows"):
        check_injectivity(layer, torch.cat([elements, torch.zeros(1, 4).double()]), 2)
    with pytest.raises(ValueError, match="elements: expected distinct rows"):
        check_injectivity(layer, torch.cat([elements, elements[:1]]), 2)
    with pytest.raises(ValueError, match=r"elements: expected floating-point features \[M, F\], got \[4\]"):
        check_injectivity(layer, elements[0], 2)
    with pytest.raises(ValueError, match="max_size: expected at least 1, got 0"):
        check_linear_independence(layer, elements, 0)
    with pytest.raises(ValueError, match="max_size: 3 elements and multisets up to 60 give more than 20,000 cases"):
        check_injectivity(layer, elements, 60)
    with pytest.raises(ValueError, match=r"layer: expected at least 2 output channels.*got 1"):
        check_linear_independence(layer_of("lmgc", channels=1), elements, 2)
