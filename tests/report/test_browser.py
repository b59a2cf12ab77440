"""The page as a person sees it, in a real browser."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from stored_results import full_table

from mimogc.report import write_report
from mimogc.runs.run import Record

Show = Callable[..., Chrome]


@pytest.fixture
def show(browser: Chrome, tmp_path: Path, make_store: Callable[[Sequence[Record]], Path]) -> Iterator[Show]:
    """Opens the report of these records at a width, in light or dark."""

    def open_page(records: Sequence[Record], width: int = 1200, dark: bool = False) -> Chrome:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        for log in ("browser", "performance"):
            browser.get_log(log)
        browser.get(write_report(make_store(records), tmp_path / "out").as_uri())
        return browser

    yield open_page
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def cells(page: Chrome, method: str) -> list[str]:
    row = page.find_element(By.XPATH, f"//section[@id='universality']//tr[th='{method}']")
    return [cell.text for cell in row.find_elements(By.TAG_NAME, "td")]


def color(page: Chrome, selector: str, name: str) -> tuple[int, ...]:
    """Red, green and blue of the first element that matches."""
    text = page.find_element(By.CSS_SELECTOR, selector).value_of_css_property(name)
    return tuple(int(float(part)) for part in text[text.index("(") + 1 : -1].split(",")[:3])


def contrast(one: tuple[int, ...], other: tuple[int, ...]) -> float:
    """The contrast ratio of WCAG."""

    def luminance(rgb: tuple[int, ...]) -> float:
        linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in (c / 255 for c in rgb)]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_the_numbers_are_there_to_be_read(show: Show) -> None:
    page = show(full_table())
    assert page.title == "mimogc: results"
    assert page.find_element(By.TAG_NAME, "h1").text == "MIMO graph convolutions: results"
    heads = page.find_elements(By.CSS_SELECTOR, "#universality thead th")
    assert [head.text for head in heads] == ["Method", "Paper", "n = 64", "n = 64, lr decay", "n = 16"]
    assert cells(page, "ACM")[:2] == ["0.49 ± 0.02", "0.492 ± 0.049\nΔ +0.002"]
    assert cells(page, "MIMO-GC")[0] == "not in the paper"
    figures = page.find_elements(By.CSS_SELECTOR, "#universality figure svg")
    assert len(figures) == 3
    assert all(figure.is_displayed() and figure.size["height"] > 150 for figure in figures)
    assert "mean squared error" in figures[0].text


def test_the_best_is_bold_and_the_second_best_underlined(show: Show) -> None:
    page = show(full_table())
    weights = {
        value.text: int(value.value_of_css_property("font-weight"))
        for value in page.find_elements(By.CSS_SELECTOR, "#universality tbody tr td:nth-child(3) .value")
    }
    assert [text for text, weight in weights.items() if weight >= 700] == ["(1.4 ± 0.1)·10⁻⁶"]
    underlined = page.find_elements(By.CSS_SELECTOR, "#universality td:nth-child(3) .second")
    assert [value.text for value in underlined] == ["0.001 ± 0.000"]
    assert "underline" in underlined[0].value_of_css_property("text-decoration-line")


@pytest.mark.parametrize("records", [[], full_table()], ids=["empty", "full"])
@pytest.mark.parametrize("width", [320, 390, 768, 1200])
def test_nothing_sticks_out_to_the_right(show: Show, records: list[Record], width: int) -> None:
    page = show(records, width)
    outside = page.execute_script(
        "return [...document.querySelectorAll('body *:not(svg *)')]"
        ".filter(e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"
    )
    assert outside == []
    assert page.execute_script("return document.documentElement.scrollWidth") <= width


def test_on_a_phone_every_value_stands_beside_its_column(show: Show) -> None:
    page = show(full_table(), 390)
    assert not page.find_element(By.CSS_SELECTOR, "#universality thead").is_displayed()
    cell = page.find_element(By.XPATH, "//section[@id='universality']//tr[th='ACM']/td[2]")
    before = page.execute_script("return getComputedStyle(arguments[0], '::before').content", cell)
    assert before == '"n = 64"'
    assert float(page.find_element(By.TAG_NAME, "body").value_of_css_property("font-size")[:-2]) >= 16


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_and_lines_can_be_read_on_their_background(show: Show, dark: bool) -> None:
    page = show(full_table()[:-3], dark=dark)
    card = color(page, "section", "background-color")
    assert (sum(card) < 200) == dark
    for selector in ("section h2", ".value.best", ".caption", ".small", "summary"):
        assert contrast(color(page, selector, "color"), card) >= 4.5, selector
    for number in range(6):
        assert contrast(color(page, f".legend li:nth-child({number + 1}) i", "background-color"), card) >= 3
    assert contrast(color(page, "figure svg text", "fill"), card) >= 4.5


def test_a_missing_cell_shows_its_command_when_asked(show: Show) -> None:
    page = show(full_table()[:-3])
    (missing,) = page.find_elements(By.CSS_SELECTOR, "#universality details.missing")
    assert missing.text == "missing"
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", missing)
    missing.find_element(By.TAG_NAME, "summary").click()
    assert "mimogc reproduce universality --methods mimogc --variants n16" in missing.text
    gaps = page.find_element(By.CSS_SELECTOR, "#universality .gaps")
    assert gaps.is_displayed()
    assert "1 of 18 cells" in gaps.text


def test_the_page_asks_the_network_for_nothing_and_the_console_is_silent(show: Show) -> None:
    page = show(full_table())
    page.execute_script("window.scrollTo(0, document.body.scrollHeight)")
    events = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    asked = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    assert any(url.startswith("file:") for url in asked)
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert len([url for url in asked if url.startswith("file:")]) == 1
    assert page.get_log("browser") == []
