"""Serves the page to this machine alone, until Ctrl-C."""

import contextlib
import os
import signal
import socket
import threading
import webbrowser
from typing import Any, NoReturn

from mimogc.explore import cards, kept, own, page
from mimogc.explore.choices import COMPONENT, MIN_NODES, Choice, tour
from mimogc.methods import METHODS

HOST = "127.0.0.1"
OPENING_SECONDS = 30.0  # after which torch is imported though nobody has opened the page
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'self'; img-src data:; object-src 'none'; frame-ancestors 'none'",
}


def serve(port: int, browser: bool) -> NoReturn:
    """Serve on a port, or on any free one if it is 0; open a browser if asked to. Ctrl-C ends the process."""
    listener = _listener(port)
    import uvicorn

    address = f"http://{HOST}:{listener.getsockname()[1]}"
    config = uvicorn.Config(_app(), log_level="error", timeout_graceful_shutdown=1, lifespan="off")
    server = uvicorn.Server(config)
    print(f"mimogc: the page is at {address}/ (Ctrl-C ends it)", flush=True)
    kept.ready.clear()
    threading.Thread(target=_warm_up, daemon=True).start()  # torch is imported while the page is looked at
    if browser:  # requests wait in the socket's queue until the server is there
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[listener])
    os._exit(0)  # a page that was open left a thread behind which waits for it and would never end


def _app() -> Any:
    """The page, its files, the cards of what is picked, and graphs of one's own."""
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
    from starlette.routing import Route

    def opening(request: Request) -> Response:
        made = page.opening()
        kept.wanted.set()
        return HTMLResponse(made, headers=_HEADERS)

    def file(request: Request) -> Response:
        name = request.url.path[1:]
        return Response(page.text_of(name), media_type=page.FILES[name], headers=_HEADERS)

    def cards_of(request: Request) -> Response:
        try:
            choice, component = picked(dict(request.query_params))
        except ValueError as reason:
            return PlainTextResponse(str(reason), 400, _HEADERS)
        shown = cards.made(choice, component)
        seconds = sum(card.seconds for card in shown)
        return JSONResponse({"cards": [card.html for card in shown], "seconds": seconds}, headers=_HEADERS)

    async def own_graph(request: Request) -> Response:
        ours = f"http://{request.headers['host']}"
        if request.headers.get("origin", ours) != ours:  # another page must not send files here
            return PlainTextResponse("only this page may send graphs", 403)
        content = b""
        async for part in request.stream():
            content += part
            if len(content) > own.MAX_BYTES:
                break
        try:
            return PlainTextResponse(
                await run_in_threadpool(_remember, request.query_params.get("name", "file"), content), headers=_HEADERS
            )
        except own.FileError as reason:
            return PlainTextResponse(str(reason), 400, _HEADERS)

    routes = [Route("/", opening), Route("/cards", cards_of), Route("/own", own_graph, methods=["POST"])]
    routes += [Route(f"/{name}", file) for name in page.FILES]
    # A page elsewhere cannot reach this one by giving its own name the address of this machine.
    return Starlette(routes=routes, middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"])])


def _remember(name: str, content: bytes) -> str:
    kept.wait()
    return own.remember(name, content)


def picked(values: dict[str, str]) -> tuple[Choice, float]:
    """The choice that a query is, and the component; what is wrong with it is a ValueError."""
    numbers = {}
    for name in ("nodes", "loops", "heads", "depth", "seed", "component"):
        try:
            numbers[name] = int(values[name])
        except (KeyError, ValueError):
            raise ValueError(f"{name}: expected a whole number, got {values.get(name, '')!r}") from None
    method = values.get("method", "")
    if method not in METHODS:  # a name with a colon would be imported, and any page can send a query
        raise ValueError(f"method: expected one of {', '.join(METHODS)}, got {method!r}")
    component = numbers.pop("component")
    if not 0 <= component <= 100:
        raise ValueError(f"component: expected 0 to 100, got {component}")
    loops = bool(numbers.pop("loops"))
    return Choice(graph=values.get("graph", ""), method=method, loops=loops, **numbers), component / 100


def _warm_up() -> None:
    """Import what cards are made with once the page is there, and make the smallest and those of the tour."""
    kept.wanted.wait(OPENING_SECONDS)
    try:
        from mimogc.explore import pictures, views  # noqa: F401
    finally:
        kept.ready.set()
    for choice in (Choice(nodes=MIN_NODES, depth=4), *(choice for _, _, choice in tour())):
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
