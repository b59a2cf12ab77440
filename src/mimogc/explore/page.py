"""The page as it opens: the controls with what can be picked, and the cards of the first choice.

python -m mimogc.explore.page    # makes those cards, for `opening.json`: the first start shows them without torch
"""

import base64
import io
import json
import re
from dataclasses import asdict
from html import escape
from pathlib import Path

from mimogc.explore import cards, kept, own
from mimogc.explore.choices import (
    COMPONENT,
    DATASETS,
    GRAPHS,
    MAX_DEPTH,
    MAX_HEADS,
    MAX_NODES,
    MAX_SEED,
    MIN_NODES,
    TOUR_CARDS,
    Choice,
    tour,
)
from mimogc.methods import METHODS

_FOLDER = Path(__file__).parent
FILES = {"page.css": "text/css", "page.js": "text/javascript"}


def text_of(file: str) -> str:
    return (_FOLDER / file).read_text(encoding="utf-8")


def opening() -> str:
    """The whole page for the choice that it opens with."""
    choice = Choice()
    steps = [("On my own", "", Choice(), "")]
    for number, ((title, text, picked), card) in enumerate(zip(tour(), TOUR_CARDS, strict=True), 1):
        steps.append((f"{number}. {title}", text, picked, card))
    return text_of("page.html").format(
        choice=choice,
        component=COMPONENT,
        tour="".join(
            _option(str(place or ""), title, False, story=story, choice=json.dumps(asdict(picked)), card=card)
            for place, (title, story, picked, card) in enumerate(steps)
        ),
        graphs="".join(
            _option(name, label, name == choice.graph, nodes="fixed" if name in DATASETS else "free")
            for name, label in GRAPHS.items()
        ),
        methods="".join(
            _option(name, record.label, name == choice.method, heads="free" if record.free_heads else "fixed")
            for name, record in METHODS.items()
        ),
        cards="".join(_cards()),
        max_bytes=own.MAX_BYTES,
        min_nodes=MIN_NODES,
        max_nodes=MAX_NODES,
        max_heads=MAX_HEADS,
        max_depth=MAX_DEPTH,
        max_seed=MAX_SEED,
    )


def _cards() -> list[str]:
    """The four cards: as they were kept here, or as they came with the package."""
    shipped = json.loads(text_of("opening.json"))
    wanted = cards.parts(Choice(), COMPONENT / 100)
    return [cards.framed(name, kept.read(name, arguments) or shipped[name]) for name, arguments in wanted]


def remade() -> dict[str, str]:
    """The insides of the four cards, made anew, with pictures of few colours, which are small."""
    return {
        name: re.sub(r"(?<=data:image/png;base64,)[^\"]*", _small, cards.inside(name, arguments))
        for name, arguments in cards.parts(Choice(), COMPONENT / 100)
    }


def _small(png: re.Match[str]) -> str:
    from PIL import Image

    buffer = io.BytesIO()
    picture = Image.open(io.BytesIO(base64.b64decode(png[0]))).convert("RGB")
    picture.quantize(64, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(buffer, "PNG", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode()


def _option(value: str, label: str, selected: bool, **data: str) -> str:
    facts = "".join(f' data-{name}="{escape(text)}"' for name, text in data.items())
    return f'<option value="{escape(value)}"{facts}{" selected" if selected else ""}>{escape(label)}</option>'


if __name__ == "__main__":
    (_FOLDER / "opening.json").write_text(json.dumps(remade(), indent=1) + "\n", encoding="utf-8")
