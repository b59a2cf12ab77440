"""What methods and datasets are called in the paper."""

PAPER_METHODS = ("gatv2", "fagcn", "acm", "gin", "lmgc")
LABELS = {
    "gatv2": "GATv2", "fagcn": "FAGCN", "acm": "ACM", "gin": "GIN", "lmgc": "LMGC", "eq12": "LMGC (eq. 12)",
    "mimogc": "MIMO-GC",
    "gcn": "GCN", "mlp": "MLP", "gat": "GAT", "gated": "GatedGCN", "sheaf": "Sheaf", "free": "Free",
    "texas": "Texas", "cornell": "Cornell", "wisconsin": "Wisconsin", "film": "Film", "chameleon": "Chameleon",
    "squirrel": "Squirrel", "minesweeper": "Minesweeper", "zinc": "ZINC", "zinc12k": "ZINC12k",
}  # fmt: skip


def label(name: str) -> str:
    return LABELS.get(name, name)
