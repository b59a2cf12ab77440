"""The real command: what it serves, to whom, how it ends, and the page as a person uses it in a real browser."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import psutil
import pytest
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select, WebDriverWait

from mimogc.explore import own

COMMAND = [sys.executable, "-m", "mimogc", "explore", "--no-browser"]


class Server(NamedTuple):
    process: "subprocess.Popen[str]"
    port: int

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(port: int, data: Path) -> Server:
    """The command on a port, on a machine without datasets; returns when it has said where the page is."""
    environment = {key: value for key, value in os.environ.items() if key != "MIMOGC_MIRROR"}
    process = subprocess.Popen(
        [*COMMAND, "--port", str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment, "MIMOGC_DATA": str(data)},
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    if line != f"mimogc: the page is at http://127.0.0.1:{port}/ (Ctrl-C ends it)\n":
        process.kill()
        pytest.fail(f"expected the address, got {line!r} and {process.communicate()}")
    return Server(process, port)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = start(free_port(), tmp_path_factory.mktemp("no data"))
    yield running
    running.process.kill()
    running.process.communicate()


@pytest.fixture
def page(browser: Chrome, server: Server) -> Iterator[Chrome]:
    """The page as it opens."""
    size = {"width": 1440, "height": 1100, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    for log in ("browser", "performance"):
        browser.get_log(log)
    browser.get(server.address)
    wait_for(browser, "#multisets .pair")
    yield browser
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def wait_for(page: Chrome, selector: str, text: str = "", other_than: str | None = None) -> str:
    """The text of the first such element, once it has this text in it and is not that one."""

    def look(page: Chrome) -> str | None:
        found = [element.text for element in page.find_elements(By.CSS_SELECTOR, selector)]
        return found[0] if found and text in found[0] and found[0] != other_than else None

    waiting = WebDriverWait(page, 60, 0.1, [StaleElementReferenceException])
    return str(waiting.until(look, f"{selector} never showed {text!r}"))


def control(page: Chrome, label: str) -> WebElement:
    """The control with this label."""
    selector = "*[self::select or self::input]"
    return page.find_element(By.XPATH, f"//form//label[contains(., '{label}')]//{selector}")


def pick(page: Chrome, label: str, choice: str) -> None:
    Select(control(page, label)).select_by_visible_text(choice)


def move(page: Chrome, label: str, key: str) -> None:
    control(page, label).send_keys(key)


def test_another_method_and_another_depth_give_other_numbers(page: Chrome) -> None:
    assert wait_for(page, "#operator-rank") == "4"
    assert "no collision" in wait_for(page, "#injectivity h3")
    before, coupled = wait_for(page, "#effective-rank"), wait_for(page, "#coupling")
    picture = page.find_element(By.CSS_SELECTOR, "#amplification img").get_attribute("src")

    move(page, "Depth", Keys.ARROW_LEFT)
    assert wait_for(page, "#depth dt", "effective rank after 60 layers")
    assert wait_for(page, "#effective-rank", other_than=before) != before
    assert wait_for(page, "#coupling") == coupled

    move(page, "K, comp", Keys.ARROW_RIGHT)
    assert wait_for(page, "#operator-rank", other_than="4") == "5"

    pick(page, "Method", "GCN")
    assert wait_for(page, "#operator-rank", other_than="5") == "1"
    assert wait_for(page, "#coupling") == "0.000"
    assert wait_for(page, "#predicted-rate").startswith("−0.")
    assert "✗ collision" in wait_for(page, "#injectivity h3")
    assert page.find_element(By.CSS_SELECTOR, "#amplification img").get_attribute("src") != picture

    pick(page, "Graph", "ring")
    assert wait_for(page, "#edges", other_than="194") == "64"
    assert float(wait_for(page, "#seconds")) < 20  # seconds, on a machine with other work to do
    assert "aria-busy" not in page.find_element(By.TAG_NAME, "main").get_property("outerHTML")[:40]


def test_the_tour_leads_from_four_graphs_to_one(page: Chrome) -> None:
    pick(page, "Guided tour", "2. From LMGC to GCN: the rank falls")
    assert "One graph with fixed weights" in wait_for(page, "#story")
    assert wait_for(page, "#operator-rank", other_than="4") == "1"
    assert wait_for(page, "#effective-rank").startswith("1.0")
    pick(page, "Guided tour", "3. What softmax cannot count")
    assert wait_for(page, "#story", "GAT without self-loops")
    assert "✗ collision" in wait_for(page, "#injectivity h3", "✗")
    assert page.find_element(By.TAG_NAME, "main").get_attribute("data-meant") == "multisets"
    card = page.find_element(By.CSS_SELECTOR, "#multisets")
    assert card.value_of_css_property("outline-style") == "solid"
    seen = "const box = arguments[0].getBoundingClientRect(); return box.top < innerHeight - 50 && box.bottom > 50;"
    assert page.execute_script(seen, card)  # it was scrolled to
    pick(page, "Guided tour", "4. Why more than one graph")
    assert wait_for(page, "#story", "LMGC with K = 1")
    assert "✗ dependent outputs" in wait_for(page, "#independence h3", "✗")
    move(page, "K, comp", Keys.ARROW_RIGHT)
    assert "✓" in wait_for(page, "#independence h3", "✓")
    pick(page, "Guided tour", "1. Four graphs")
    assert wait_for(page, "#operator-rank", "4") == "4"


def test_a_graph_of_ones_own(page: Chrome, tmp_path: Path) -> None:
    given = tmp_path / "mine.txt"
    given.write_text("# a triangle and a tail\n0 1\n1,2\n2 0\n2 3\n3 3\n")
    send(page, given)
    assert wait_for(page, "#nodes", other_than="64") == "4"
    assert wait_for(page, "#edges") == "4"
    wrong = tmp_path / "wrong.txt"
    wrong.write_text("0 1\n1 two\n")
    send(page, wrong)
    assert wait_for(page, "#problem", "wrong") == "wrong.txt, line 2: expected two node numbers, got '1 two'"


def send(page: Chrome, file: Path) -> None:
    control(page, "A graph of your own").send_keys(str(file))


def test_controls_and_pictures_have_names_for_a_screen_reader(page: Chrome) -> None:
    named = {element.accessible_name for element in page.find_elements(By.CSS_SELECTOR, "form select, form input")}
    wanted = ("Guided tour", "Graph", "A graph of your own", "Nodes", "Layers add self-loops", "Method")
    wanted += ("K, computational graphs", "Depth, layers", "Seed", "Component shown, smooth to rough")
    assert named == set(wanted)
    spoken = page.find_elements(By.CSS_SELECTOR, "[role=status]")
    assert {element.get_attribute("id") for element in spoken} >= {"story", "problem", "fixed", "state"}
    pictures = page.find_elements(By.CSS_SELECTOR, "main img")
    assert len(pictures) == 3
    assert all(picture.get_attribute("alt") for picture in pictures)


def test_what_cannot_be_shown_is_a_message(page: Chrome) -> None:
    pick(page, "Method", "GIN")
    assert wait_for(page, "#amplification .message").startswith("GIN is not linear")
    assert page.find_elements(By.CSS_SELECTOR, "#depth img")
    pick(page, "Graph", "one-way ring (directed)")
    assert wait_for(page, "#spectrum .message").startswith("This graph is directed")
    pick(page, "Graph", "Texas")
    assert "Texas is not on this machine" in wait_for(page, "#depth .message")
    assert "Traceback" not in page.find_element(By.TAG_NAME, "body").text
    pick(page, "Graph", "grid")
    assert wait_for(page, "#nodes") == "64"


def test_the_page_asks_no_other_host_and_logs_no_error(page: Chrome, server: Server) -> None:
    pick(page, "Method", "GAT")
    wait_for(page, "#injectivity h3", "✗")
    events = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    asked = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    ours = (server.address, "data:")
    assert any(url.startswith(server.address + "cards?") for url in asked)
    assert [url for url in asked if not url.startswith(ours)] == []
    assert page.get_log("browser") == []


@pytest.mark.parametrize("width", [390, 1440])
def test_nothing_sticks_out_to_the_right(page: Chrome, width: int) -> None:
    size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": width < 500}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    outside = page.execute_script(
        "return [...document.querySelectorAll('body *')]"
        ".filter(e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"
    )
    assert outside == []


def test_only_this_machine_is_listened_to(server: Server) -> None:
    process = psutil.Process(server.process.pid)
    found = {
        (open_socket.laddr.ip, open_socket.laddr.port)
        for each in [process, *process.children(recursive=True)]
        for open_socket in each.net_connections("inet")
        if open_socket.status == psutil.CONN_LISTEN
    }
    assert found == {("127.0.0.1", server.port)}


def test_another_name_for_this_machine_is_refused(server: Server) -> None:
    for host, status in (("evil.example", 400), (f"localhost:{server.port}", 200)):
        assert ask(server, "GET", "/", headers={"Host": host})[0] == status


def ask(server: Server, method: str, path: str, **more: Any) -> tuple[int, str]:
    """Status and text of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request(method, path, **more)
    answer = connection.getresponse()
    try:
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ({"nodes": "5"}, "nodes: expected 6 to 128, got 5"),
        ({"depth": "x"}, "depth: expected a whole number, got 'x'"),
        ({"seed": "10000"}, "seed: expected 0 to 9999, got 10000"),
        ({"component": "101"}, "component: expected 0 to 100, got 101"),
        ({"graph": "own:none"}, "graph: expected one of random, ring"),
        ({"method": "os:path"}, "method: expected one of "),  # nothing is imported because a page elsewhere says so
    ],
)
def test_a_wrong_query_is_refused_in_a_sentence(server: Server, query: dict[str, str], problem: str) -> None:
    fields = {"graph": "ring", "nodes": "8", "loops": "1", "method": "gcn", "heads": "4", "depth": "4", "seed": "0"}
    status, text = ask(server, "GET", "/cards?" + urlencode({**fields, "component": "2", **query}))
    assert (status, text[: len(problem)]) == (400, problem)


def test_only_the_page_itself_may_send_a_graph(server: Server) -> None:
    send_one = {"body": b"0 1\n", "headers": {"Origin": "http://evil.example"}}
    assert ask(server, "POST", "/own?name=a.txt", **send_one)[0] == 403
    send_one["headers"] = {"Origin": server.address[:-1]}
    assert ask(server, "POST", "/own?name=a.txt", **send_one)[0] == 200
    too_long = {**send_one, "body": b"#" * (own.MAX_BYTES + 1)}
    assert ask(server, "POST", "/own?name=a.txt", **too_long)[1].startswith("a.txt: expected at most 1,000,000 bytes")


def test_a_port_in_use_is_one_line(server: Server) -> None:
    done = subprocess.run([*COMMAND, "--port", str(server.port)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"mimogc: --port: cannot listen on 127.0.0.1:{server.port} (Address already in use)")


def test_without_its_packages_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['uvicorn'] = None; from mimogc.cli import run; sys.exit(run(['explore']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == 'mimogc: explore needs uvicorn; install it with: pip install "mimogc[explore]"\n'


def test_ctrl_c_ends_it_quietly_also_while_a_page_is_open(page: Chrome, server: Server) -> None:
    """The last one, since it ends the server."""
    server.process.send_signal(signal.SIGINT)
    out, err = server.process.communicate(timeout=30)
    assert (server.process.returncode, out, err) == (0, "", "")
