"""The story of the paper as a marimo notebook: what one graph does to the components of a signal, and what several do.

It shows the amplification of GCN, LMGC and MIMO-GC as pictures, and how the rank of the features falls over depth.
As a script it prints the numbers behind them: operator rank 1 for GCN, K for LMGC; GCN's features collapse to rank one
at the predicted rate, LMGC's keep theirs.

marimo edit examples/story.py    (pip install "mimogc[notebooks]")
python examples/story.py
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="What several graphs can do that one cannot")


@app.cell
def _():
    import argparse

    import marimo as mo
    import torch
    from matplotlib import pyplot as plt

    from mimogc import Graph
    from mimogc.nn import LMGConv, MIMOConv
    from mimogc.spectral import component_amplification, coupling, fourier_basis, operator_rank
    from mimogc.theory import collapse_rate, decay_rate, depth_study

    if mo.app_meta().mode == "script":
        parser = argparse.ArgumentParser(description="Prints the numbers of the notebook examples/story.py.")
        parser.parse_args()
    return (
        Graph,
        LMGConv,
        MIMOConv,
        collapse_rate,
        component_amplification,
        coupling,
        decay_rate,
        depth_study,
        fourier_basis,
        mo,
        operator_rank,
        plt,
        torch,
    )


@app.cell
def _(mo):
    mo.md(r"""
    # What several graphs can do that one cannot

    A graph convolution with many channels could treat every component of a signal (every eigenvector of the Laplacian)
    in its own way for every pair of an input and an output channel. The GCN, $X' = \tilde A X W$, multiplies component
    k by its eigenvalue $\lambda_k$ and then by the same $W$, whatever k is. LMGC adds up K graphs with weights of their
    own,

    $$X' = \sum_{k=1}^K \tilde A^{(k)} X W^{(k)}.$$

    Below, a ring of 24 nodes with random chords.
    """)
    return


@app.cell
def _(Graph, fourier_basis, torch):
    torch.manual_seed(0)
    nodes, channels = 24, 4
    ring = torch.stack([torch.arange(nodes), (torch.arange(nodes) + 1) % nodes])
    chords = torch.randint(nodes, (2, 16))
    edge_index = torch.cat([ring, chords[:, chords[0] != chords[1]]], dim=1)
    graph = Graph.from_edge_index(edge_index, nodes).to_undirected()
    basis = fourier_basis(graph)
    x = torch.randn(nodes, channels).double()
    return basis, channels, graph, x


@app.cell
def _(mo):
    heads = mo.ui.slider(1, 8, value=4, label="K, the number of graphs of LMGC", show_value=True)
    mo.vstack([heads])
    return (heads,)


@app.cell
def _(LMGConv, MIMOConv, basis, channels, component_amplification, coupling, graph, heads, operator_rank, torch, x):
    torch.manual_seed(1)
    layers = {
        "GCN": LMGConv(channels, channels, coefficients="gcn", add_self_loops=False),
        f"LMGC, K = {heads.value}": LMGConv(channels, channels, heads=heads.value, add_self_loops=False),
        "MIMO-GC": MIMOConv(channels, channels, basis),
    }
    amplification, ranks = {}, {}  # each [N, C, F]
    for name, layer in layers.items():
        layer = layer.double()
        amplification[name] = component_amplification(layer, x, graph).detach()
        ranks[name] = operator_rank(layer, x, graph)
        print(f"{name}: operator rank {ranks[name]}, coupling {coupling(layer, x, graph):.2f}")
    return amplification, ranks


@app.cell
def _(amplification, basis, mo, plt, ranks):
    def heat_maps():
        figure, axes = plt.subplots(1, len(amplification), figsize=(9, 3.6), sharey=True, layout="constrained")
        for panel, (name, values) in zip(axes, amplification.items(), strict=True):
            matrix = values.flatten(1)  # [N, C·F]
            matrix = matrix / matrix.norm(dim=0)
            panel.imshow(matrix, cmap="RdBu_r", vmin=-0.6, vmax=0.6, aspect="auto", interpolation="nearest")
            panel.set_title(f"{name}: rank {ranks[name]}")
            panel.set_xlabel("pairs of channels")
        ticks = range(0, len(basis.values), 6)
        axes[0].set_yticks(ticks, [f"{basis.adjacency_values[tick]:.2f}" for tick in ticks])
        axes[0].set_ylabel("component, by its λ")
        return figure

    mo.vstack(
        [
            mo.as_html(heat_maps()),
            mo.md("""
            A column is a pair of channels, scaled to length 1: how much each component of the one goes into the other.
            The columns of the GCN are equal up to their sign: all pairs treat the components alike, and the rank is 1.
            LMGC has K patterns to mix, and MIMO-GC, the exact convolution, one for every pair. LMGC is no MIMO-GC: it
            also moves energy between components, which the picture leaves out and the printed *coupling* measures.
            """),
        ]
    )
    return


@app.cell
def _(LMGConv, collapse_rate, decay_rate, depth_study, fourier_basis, graph, torch, x):
    def repeated(method):
        def build(level):
            layer = LMGConv(x.size(1), x.size(1), coefficients=method, bias=False).double()
            torch.nn.init.orthogonal_(layer.lin.weight)
            return layer

        return build

    torch.manual_seed(2)
    depth = 150
    curves = {
        "GCN": depth_study(repeated("gcn"), x, graph, depth),
        "ACM": depth_study(repeated("acm"), x, graph, depth),
        "LMGC": depth_study(repeated("eq12"), x, graph, depth),
    }
    for method, study in curves.items():
        first, last = study.effective_rank[0], study.effective_rank[-1]
        print(f"{method}: effective rank {first:.2f} at the start, {last:.2f} after {depth} layers")
    predicted = collapse_rate(fourier_basis(graph.with_self_loops()).adjacency_values)
    measured = decay_rate(curves["GCN"].rank_one_distance)
    print(f"GCN: log distance to rank one per layer {measured:.3f}, predicted {predicted:.3f}")
    return curves, predicted


@app.cell
def _(curves, mo, plt, predicted, torch):
    def rank_over_depth():
        figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
        for name, study in curves.items():
            axes[0].plot(study.effective_rank, label=name)
            axes[1].semilogy(study.rank_one_distance.clamp(min=1e-16), label=name)
        start = curves["GCN"].rank_one_distance[20]
        level = torch.arange(20, 100)
        line = start * torch.exp(predicted * (level - 20))
        axes[1].semilogy(level, line, "k--", linewidth=0.8, label="predicted for GCN")
        axes[0].set_title("effective rank")
        axes[1].set_title("distance to rank one")
        for panel in axes:
            panel.set_xlabel("layers")
            panel.legend(frameon=False)
        return figure

    mo.vstack(
        [
            mo.as_html(rank_over_depth()),
            mo.md("""
            The same layers on top of each other, with random orthogonal weights. Under one graph the component of the
            largest eigenvalue wins, and all channels become multiples of one vector, at a rate known beforehand. The
            two graphs of ACM share their eigenvectors and only delay it. The graphs of LMGC do not, and the rank stays.
            """),
        ]
    )
    return


if __name__ == "__main__":
    app.run()
