"""The page, as a marimo app: the controls, and the four cards that follow them."""

import marimo

app = marimo.App(width="full", app_title="mimogc explore", css_file="page.css")


@app.cell
def heading():
    import marimo as mo

    # At once: the cells below wait for torch.
    mo.Html(
        '<div class="explore-head"><h1>mimogc explore</h1><p>What one random layer, and many of them, do to the '
        "signals on a graph. All of it is computed on this machine.</p></div>"
    )
    return (mo,)


@app.cell
def tools():
    from mimogc.explore import cards, kept, own
    from mimogc.explore.choices import (
        COMPONENT,
        DATASETS,
        GRAPHS,
        MAX_DEPTH,
        MAX_HEADS,
        MAX_NODES,
        MIN_NODES,
        Choice,
        tour,
    )
    from mimogc.methods import METHODS

    return (
        COMPONENT,
        Choice,
        DATASETS,
        GRAPHS,
        MAX_DEPTH,
        MAX_HEADS,
        MAX_NODES,
        METHODS,
        MIN_NODES,
        cards,
        kept,
        own,
        tour,
    )


@app.cell
def guide(Choice, mo, tour):
    steps = {f"{place}. {title}": (text, choice) for place, (title, text, choice) in enumerate(tour(), 1)}
    free = "On my own"
    step, set_step = mo.state(("", Choice()))
    walk = mo.ui.dropdown(
        [free, *steps],
        free,
        label="Guided tour",
        full_width=True,
        on_change=lambda name: set_step(steps.get(name, ("", Choice()))),
    )
    return step, walk


@app.cell
def upload(mo, own):
    file = mo.ui.file(filetypes=[".npz", ".txt", ".csv", ".edges"], max_size=own.MAX_BYTES, label="A graph of your own")
    return (file,)


@app.cell
def own_graph(file, kept, own):
    own_key, own_error = "", ""
    if file.value:
        kept.wait()
        try:
            own_key = own.remember(file.value[0].name, file.value[0].contents)
        except own.FileError as reason:
            own_error = str(reason)
    return own_error, own_key


@app.cell
def controls(COMPONENT, GRAPHS, MAX_DEPTH, MAX_HEADS, MAX_NODES, METHODS, MIN_NODES, mo, own_key, step):
    first = step()[1]
    graphs = {label: name for name, label in GRAPHS.items()} | ({"your own": own_key} if own_key else {})
    methods = {record.label: name for name, record in METHODS.items()}
    wide = {"full_width": True}
    valued = {"show_value": True, "full_width": True}
    late = {"debounce": True, **valued}
    on_tour = bool(step()[0])  # whose steps are about graphs of their own
    picked_graph = "your own" if own_key and not on_tour else GRAPHS[first.graph]
    ui = mo.ui.dictionary(
        {
            "graph": mo.ui.dropdown(graphs, picked_graph, label="Graph", **wide),
            "nodes": mo.ui.slider(MIN_NODES, MAX_NODES, 2, first.nodes, label="Nodes", **late),
            "loops": mo.ui.checkbox(first.loops, label="Layers add self-loops"),
            "method": mo.ui.dropdown(methods, METHODS[first.method].label, label="Method", **wide),
            "heads": mo.ui.slider(1, MAX_HEADS, 1, first.heads, label="K, computational graphs", **valued),
            "depth": mo.ui.slider(4, MAX_DEPTH, 4, first.depth, label="Depth, layers", **late),
            "seed": mo.ui.number(0, 9999, 1, first.seed, label="Seed", **wide),
            "component": mo.ui.slider(
                0, 100, 1, COMPONENT, label="Component shown, smooth to rough", debounce=True, **wide
            ),
        }
    )
    return (ui,)


@app.cell
def page(Choice, DATASETS, METHODS, cards, file, kept, mo, own_error, own_key, step, ui, walk):
    picked = dict(ui.value)
    component = picked.pop("component") / 100
    shown = cards.made(Choice(**picked), component)
    record = METHODS[picked["method"]]
    heads = record.free_heads
    story = step()[0]
    texts = {
        "nodes_class": "unused" if picked["graph"] in (*DATASETS, own_key) else "",
        "heads_class": "" if heads else "unused",
        "heads_note": "" if heads else f'<p class="took">K is fixed by the definition of {record.label}.</p>',
        "cards": "".join(card.html for card in shown),
        "story": f'<p class="story" id="story" role="status">{story}</p>' if story else "",
        "own_note": cards.message(own_error) if own_error else "",
    }
    seconds = sum(card.seconds for card in shown)
    kept.wanted.set()
    mo.Html(cards.PAGE.format(ui=ui, own=file, tour=walk, seconds=seconds, **texts))
    return


if __name__ == "__main__":
    app.run()
