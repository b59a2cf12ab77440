"""Serves the page to this machine alone, until Ctrl-C."""

import contextlib
import os
import signal
import socket
import threading
import webbrowser
from pathlib import Path
from typing import NoReturn

import marimo
import uvicorn
from starlette.middleware.trustedhost import TrustedHostMiddleware

HOST = "127.0.0.1"


def serve(port: int, browser: bool) -> NoReturn:
    """Serve on a port, or on any free one if it is 0; open a browser if asked to. Ctrl-C ends the process."""
    listener = _listener(port)
    _warm_up()
    address = f"http://{HOST}:{listener.getsockname()[1]}/"
    page = marimo.create_asgi_app(quiet=True).with_app(path="/", root=str(Path(__file__).with_name("app.py")))
    # A page elsewhere cannot reach this one by giving its own name the address of this machine.
    guarded = TrustedHostMiddleware(page.build(), allowed_hosts=[HOST, "localhost"])
    server = uvicorn.Server(
        uvicorn.Config(guarded, log_level="error", timeout_graceful_shutdown=1, lifespan="off")
    )
    print(f"mimogc: the page is at {address} (Ctrl-C ends it)", flush=True)
    if browser:  # requests wait in the socket's queue until the server is there
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[listener])
    os._exit(0)  # a page that was open left a thread behind which waits for it and would never end


def _warm_up() -> None:
    """Draw the smallest page once, so that the first one to be looked at need not wait for fonts and libraries."""
    from mimogc.explore import cards  # torch takes its time, and a port in use should be said at once
    from mimogc.explore.choices import MIN_NODES, Choice

    smallest = Choice(nodes=MIN_NODES, depth=4)
    cards.spectrum(smallest, 0.0)
    for card in (cards.amplification, cards.depth, cards.multisets):
        card(smallest)


def _listener(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except OSError as error:
        listener.close()
        raise RuntimeError(
            f"--port: cannot listen on {HOST}:{port} ({error.strerror}); name another port, or none for a free one"
        ) from error
    listener.listen()
    return listener
