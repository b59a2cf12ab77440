"""The page, as a marimo app: the controls, and the four cards that follow them."""

import marimo

app = marimo.App(width="full", app_title="mimogc explore", css_file="page.css")


@app.cell
def tools():
    import marimo as mo

    from mimogc.explore import cards
    from mimogc.explore.choices import (
        DATASETS,
        FREE_HEADS,
        GRAPHS,
        MAX_DEPTH,
        MAX_HEADS,
        MAX_NODES,
        METHODS,
        MIN_NODES,
        Choice,
    )

    return (
        Choice, DATASETS, FREE_HEADS, GRAPHS, MAX_DEPTH, MAX_HEADS, MAX_NODES, METHODS, MIN_NODES, cards, mo
    )  # fmt: skip


@app.cell
def controls(Choice, GRAPHS, MAX_DEPTH, MAX_HEADS, MAX_NODES, METHODS, MIN_NODES, mo):
    first = Choice()
    graphs = {label: name for name, label in GRAPHS.items()}
    methods = {label: name for name, label in METHODS.items()}
    ui = mo.ui.dictionary(
        {
            "graph": mo.ui.dropdown(graphs, GRAPHS[first.graph], label="Graph", full_width=True),
            "nodes": mo.ui.slider(
                MIN_NODES,
                MAX_NODES,
                2,
                first.nodes,
                label="Nodes",
                debounce=True,
                show_value=True,
                full_width=True,
            ),
            "loops": mo.ui.checkbox(first.loops, label="Layers add self-loops"),
            "method": mo.ui.dropdown(methods, METHODS[first.method], label="Method", full_width=True),
            "heads": mo.ui.slider(
                1,
                MAX_HEADS,
                1,
                first.heads,
                label="K, computational graphs",
                show_value=True,
                full_width=True,
            ),
            "depth": mo.ui.slider(
                4,
                MAX_DEPTH,
                4,
                first.depth,
                label="Depth, layers",
                debounce=True,
                show_value=True,
                full_width=True,
            ),
            "seed": mo.ui.number(0, 9999, 1, first.seed, label="Seed", full_width=True),
            "component": mo.ui.slider(
                0, 100, 1, 2, label="Component shown, smooth to rough", debounce=True, full_width=True
            ),
        }
    )
    return (ui,)


@app.cell
def page(Choice, DATASETS, FREE_HEADS, METHODS, cards, mo, ui):
    picked = dict(ui.value)
    component = picked.pop("component") / 100
    # A card is asked only with what it depends on, so that it is not made again when something else changes.
    on_graph = Choice(picked["graph"], picked["nodes"], picked["loops"], seed=picked["seed"])
    heads = {"heads": picked["heads"]} if picked["method"] in FREE_HEADS else {}
    layer = {key: picked[key] for key in ("graph", "nodes", "loops", "method", "seed")} | heads
    shown = [
        cards.spectrum(on_graph, component),
        cards.amplification(Choice(**layer)),
        cards.depth(Choice(**layer, depth=picked["depth"])),
        cards.multisets(Choice(method=layer["method"], loops=layer["loops"], seed=layer["seed"], **heads)),
    ]
    seconds = sum(card.seconds for card in shown)
    mo.Html(
        f"""
        <div class="explore">
          <aside>
            <h1>mimogc explore</h1>
            <p>What one random layer, and many of them, do to the signals on a graph. All of it is computed on
            this machine.</p>
            {ui["graph"]}
            <div class="{"unused" if picked["graph"] in DATASETS else ""}">{ui["nodes"]}</div>
            {ui["loops"]}
            {ui["method"]}
            <div class="{"" if heads else "unused"}">{ui["heads"]}</div>
            {"" if heads else f'<p class="took">K is fixed by the definition of {METHODS[picked["method"]]}.</p>'}
            {ui["depth"]}
            {ui["seed"]}
            {ui["component"]}
            <p class="took">The four views took <span id="seconds">{seconds:.2f}</span> s to compute and draw.</p>
          </aside>
          <main>{"".join(card.html for card in shown)}</main>
        </div>
        """
    )
    return


if __name__ == "__main__":
    app.run()
