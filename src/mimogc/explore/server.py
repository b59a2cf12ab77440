"""Serves the page to this machine alone, until Ctrl-C."""

import asyncio
import contextlib
import os
import signal
import socket
import threading
import webbrowser
from pathlib import Path
from typing import Any, NoReturn

from mimogc.explore import kept

HOST = "127.0.0.1"
OPENING_SECONDS = 30.0  # after which torch is imported though nobody has opened the page


def serve(port: int, browser: bool) -> NoReturn:
    """Serve on a port, or on any free one if it is 0; open a browser if asked to. Ctrl-C ends the process."""
    listener = _listener(port)
    import marimo
    import uvicorn
    from starlette.middleware.trustedhost import TrustedHostMiddleware

    address = f"http://{HOST}:{listener.getsockname()[1]}/"
    page = marimo.create_asgi_app(quiet=True).with_app(path="/", root=str(Path(__file__).with_name("app.py")))
    # A page elsewhere cannot reach this one by giving its own name the address of this machine.
    guarded = TrustedHostMiddleware(_patient(page.build()), allowed_hosts=[HOST, "localhost"])
    server = uvicorn.Server(uvicorn.Config(guarded, log_level="error", timeout_graceful_shutdown=1, lifespan="off"))
    print(f"mimogc: the page is at {address} (Ctrl-C ends it)", flush=True)
    kept.ready.clear()
    threading.Thread(target=_warm_up, daemon=True).start()  # torch is imported while the page is looked at
    if browser:  # requests wait in the socket's queue until the server is there
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[listener])
    os._exit(0)  # a page that was open left a thread behind which waits for it and would never end


def _patient(page: Any) -> Any:
    """The same page, whose sessions wait while torch is imported: marimo imports it too, and breaks one half done."""

    async def serve_one(scope: Any, receive: Any, send: Any) -> None:
        while scope["type"] == "websocket" and kept.importing.is_set():
            await asyncio.sleep(0.05)
        await page(scope, receive, send)

    return serve_one


def _warm_up() -> None:
    """Import what cards are made with, and make the smallest and those of the tour, if they are not kept already.

    Where the cards of the opening page are kept it is drawn first: importing torch would only hold it up.
    """
    if kept.folder().is_dir():
        kept.wanted.wait(OPENING_SECONDS)
    kept.importing.set()
    try:
        from mimogc.explore import cards, pictures, views  # noqa: F401
        from mimogc.explore.choices import COMPONENT, MIN_NODES, Choice, tour
    finally:
        kept.importing.clear()
        kept.ready.set()
    for choice in (tour()[0][2], Choice(nodes=MIN_NODES, depth=4), *(choice for _, _, choice in tour())):
        cards.made(choice, COMPONENT / 100)


def _listener(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except OSError as error:
        listener.close()
        remedy = "name another port, or none for a free one"
        raise RuntimeError(f"--port: cannot listen on {HOST}:{port} ({error.strerror}); {remedy}") from error
    listener.listen()
    return listener
