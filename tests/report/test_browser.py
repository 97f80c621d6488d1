"""The page in a real Chromium: answers, keyboard, addresses, attacks, size and access.

Slow; needs chromium, chromium-driver, selenium and npm (see conftest).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patcher import cli
from patcher.report.html.documents import proof_page, scan_page
from tests.conftest import REPOSITORY
from tests.report import made
from tests.report.conftest import Open

pytestmark = [pytest.mark.slow, pytest.mark.network]
MINI = REPOSITORY / "corpus" / "mini" / "0.6.3"


@pytest.fixture(scope="module")
def mini(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _page(tmp_path_factory, MINI)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory, unpacked: Callable[[str, str], Path]) -> Path:
    """The report of FlashInfer 0.7.4; a scan that nobody made before takes minutes."""
    return _page(tmp_path_factory, unpacked("flashinfer-python", "0.7.4"))


def _page(factory: pytest.TempPathFactory, root: Path) -> Path:
    page = factory.mktemp("page") / "report.html"
    assert cli.main(["scan", "flashinfer", "--root", str(root), "--arch", "sm_120a",
                     "--format", "html", "-o", str(page)]) == 0
    return page


def _text(browser: Any, selector: str) -> list[str]:
    script = "return [...document.querySelectorAll(arguments[0])].map((e) => e.innerText)"
    texts: list[str] = browser.execute_script(script, selector)
    return texts


def _click(browser: Any, selector: str, text: str) -> None:
    """One click on what a person sees under that text."""
    for element in browser.find_elements("css selector", selector):
        if element.text.split("\n")[0] == text:
            element.click()
            return
    raise AssertionError(f"no {selector} says {text}: {_text(browser, selector)[:20]}")


@pytest.mark.wheels
def test_what_blocks_moe_on_sm_120a_in_three_clicks(chromium: Open, real: Path) -> None:
    """The list is that of ``gen_cutlass_fused_moe_sm100_module`` in flashinfer/jit/fused_moe.py."""
    assert real.stat().st_size < 5_000_000
    browser = chromium(real)
    timing = browser.execute_script(
        "const [n] = performance.getEntriesByType('navigation'); return n.loadEventEnd")
    assert timing < 2000, "milliseconds until all is there"
    _click(browser, ".topics button", "MoE")
    (answer,) = _text(browser, ".verdict")
    assert answer.startswith("MoE on sm_120a: ")
    _click(browser, ".row .name", "fused_moe_100")
    assert "closed on sm_120a" in _text(browser, "#detail")[0]
    card = next(link for link in browser.find_elements("css selector", ".gatecard")
                if "supported_major_versions=[10, 11]" in link.text)
    card.click()
    detail = _text(browser, "#detail")[0]
    assert "flashinfer/jit/fused_moe.py" in detail
    assert "gen_cutlass_fused_moe_sm100_module" in detail
    assert "supported_major_versions=[10, 11]" in "\n".join(_text(browser, "#detail .source"))
    assert browser.get_log("browser") == []


STATES = ["", "module=trtllm_comm", "view=gates", "view=patches", "view=about", "GATE"]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 500])
def test_an_accessibility_checker_has_no_complaint(
    chromium: Open, axe: str, mini: Path, theme: str, width: int
) -> None:
    browser = chromium(mini, f"theme={theme}", width=width)
    assert _complaints(browser, axe, mini, theme) == []


@pytest.mark.wheels
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_has_none_about_the_largest_report_either(
    chromium: Open, axe: str, real: Path, theme: str
) -> None:
    assert _complaints(chromium(real, f"theme={theme}"), axe, real, theme) == []


def _complaints(browser: Any, axe: str, page: Path, theme: str) -> list[str]:
    """What axe says of each view, with every step of an include chain open."""
    gate = browser.execute_script("return SCAN.gates.find((row) => row[21].length)[0]")
    complaints = []
    for state in STATES:
        state = f"module=trtllm_comm&gate={gate}" if state == "GATE" else state
        browser.get(f"{page.as_uri()}#theme={theme}&{state}")
        for button in browser.find_elements("css selector", ".chain button"):
            button.click()
        browser.execute_script(axe)
        found = browser.execute_async_script(
            "const done = arguments[0]; axe.run(document).then((r) => done(r.violations.map("
            "(v) => `${v.id}: ${v.nodes.map((n) => n.html.slice(0, 120)).slice(0, 3)}`)))")
        complaints += [f"{state}: {text}" for text in found]
        if browser.execute_script("return document.documentElement.scrollWidth > innerWidth"):
            complaints.append(f"{state}: is too wide")
    return complaints


def test_a_chain_opens_the_lines_that_include(chromium: Open, mini: Path) -> None:
    browser = chromium(mini)
    gate = browser.execute_script("return SCAN.gates.find((row) => row[21].length)[0]")
    browser.get(f"{mini.as_uri()}#gate={gate}")
    first, *_, last = browser.find_elements("css selector", ".chain button")
    assert first.text.split("\n")[0].endswith(".cu")
    first.click()
    place = browser.find_element("id", first.get_attribute("aria-controls"))
    assert f'#include "{last.text.split(chr(10))[0]}"' in place.text.replace("flashinfer/comm/", "")
    assert first.get_attribute("aria-expanded") == "true"


def test_the_address_keeps_every_choice(chromium: Open, mini: Path) -> None:
    browser = chromium(mini)
    box = browser.find_element("id", "search")
    box.send_keys("mnnvl")
    assert _text(browser, ".row .name") == ["trtllm_mnnvl_comm\nclosed with a reason"]
    browser.find_element("css selector", "select option[value=design]").click()
    address = browser.current_url
    assert "q=mnnvl" in address
    assert "state=design" in address
    other = chromium(mini, address.partition("#")[2])
    assert _text(other, ".row .name") == ["trtllm_mnnvl_comm\nclosed with a reason"]
    assert other.find_element("id", "search").get_attribute("value") == "mnnvl"
    other.back()


def test_the_keyboard_does_all_of_it(chromium: Open, mini: Path) -> None:
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.wait import WebDriverWait

    browser = chromium(mini)
    soon = WebDriverWait(browser, 5)  # a choice is drawn when the address has changed
    browser.find_element("tag name", "body").send_keys("/")
    assert browser.switch_to.active_element.get_attribute("id") == "search"
    browser.execute_script("document.querySelector('.row .name').focus()")
    browser.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
    assert browser.switch_to.active_element.text.startswith("trtllm_mnnvl_comm")
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    soon.until(lambda b: b.switch_to.active_element.get_attribute("id") == "detail")
    browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    soon.until(lambda b: not b.find_elements("id", "detail"))
    soon.until(lambda b: b.switch_to.active_element.text.startswith("trtllm_mnnvl_comm"))


def test_attacks_stay_text(chromium: Open, tmp_path: Path) -> None:
    page = tmp_path / "hostile.html"
    page.write_text(scan_page(made.hostile(), lambda path: "\n".join(made.HOSTILE).encode()),
                    "utf-8")
    title = "</script><script>document.title='broken'</script> 1.0 on sm_120a"
    for state in ("", "view=gates", "gate=PR-0&view=gates", f"module={made.HOSTILE[1]}",
                  "gate=PR-8", "theme=%22%3E%3Cimg%20src=x%3E&topic=</script>"):
        browser = chromium(page, state)
        assert browser.title == title
        assert not browser.find_elements("css selector", "img, iframe, b, main script")
        links = browser.execute_script(
            "return [...document.links].map((a) => a.getAttribute('href'))")
        assert all(link.startswith("#") for link in links)
        assert browser.get_log("browser") == []
        browser.quit()


def test_ten_thousand_gates_do_not_lag(chromium: Open, tmp_path: Path) -> None:
    gates = [made.gate(f"src/file_{n % 700}.cuh", 10 * n + 1, id=f"PR-{n}")
             for n in range(10_000)]
    modules = [made.module(f"module_{n}", gates[n * 10: n * 10 + 10]) for n in range(1000)]
    page = tmp_path / "large.html"
    page.write_text(scan_page(made.report(gates, modules), lambda path: None), "utf-8")
    browser = chromium(page, "view=gates")
    assert browser.execute_script("const [n] = performance.getEntriesByType('navigation');"
                                  "return n.loadEventEnd") < 2000
    deadline = time.monotonic() + 20
    while browser.execute_script("return document.querySelectorAll('.row').length") < 10_001:
        assert time.monotonic() < deadline, "the rest of the rows never came"
        time.sleep(0.2)
    frames = browser.execute_async_script("""
        const done = arguments[0], times = [];
        let last = performance.now(), y = 0;
        const step = () => {
          const now = performance.now();
          times.push(now - last);
          last = now;
          scrollTo(0, y += 4000);
          times.length < 60 ? requestAnimationFrame(step) : done(times.sort((a, b) => a - b));
        };
        requestAnimationFrame(step);""")
    assert frames[len(frames) // 2] < 100, "milliseconds of a frame while scrolling"
    filtered = browser.execute_script("""
        const begin = performance.now(), box = document.getElementById('search');
        box.focus(); box.value = 'file_77'; box.dispatchEvent(new Event('input'));
        document.body.offsetHeight;
        return performance.now() - begin;""")
    assert filtered < 300, "milliseconds until a filter is drawn"
    count = sum(n % 700 == 77 for n in range(10_000))
    assert _text(browser, ".verdict")[0].startswith(f"{count} rows")


def test_a_proof_and_a_change_have_pages(chromium: Open, tmp_path: Path) -> None:
    half = {"error": "", "kernels": 3, "hollow": []}
    row = {"unit": made.HOSTILE[1], "arch": "sm_120a", "verdict": "hollow", "cached": False,
           "reasons": ["the body was compiled away"], "seconds": 1.0, "unchanged": [],
           "changed": [], "before": {**half, "kernels_with": {}, "resources": None},
           "after": {**half, "hollow": [{"name": "k"}], "kernels_with": {}, "resources": None}}
    page = tmp_path / "proof.html"
    page.write_text(proof_page([row], "quick", "CUDA 13.0"), "utf-8")
    browser = chromium(page)
    assert "NOT proven by CUDA 13.0" in _text(browser, "h2")[0]
    assert "3 kernels, 1 hollow" in _text(browser, "main")[0]
    change = tmp_path / "diff.html"
    assert cli.main(["diff", "flashinfer-sm120", "--root", str(MINI), "--arch", "sm_120a",
                     "--format", "html", "-o", str(change)]) == 0
    browser = chromium(change)
    marks = _text(browser, ".old mark")
    assert "&& (__CUDA_ARCH__ < 1200)" in marks[1].strip()
