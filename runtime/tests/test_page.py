"""The page at the control port in headless Chromium, against the real server: what it shows, what it sends, and for whom.

`make page` installs Chromium and runs these tests; `make page PICTURES=docs/images` draws the two pictures of the documentation.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from control_fakes import ADMIN, DRAIN
from control_page_feed import HOT_KEY, Feed, busy, served
from page_browser import HEIGHT, WIDTH, Opened, luminance, squares, table
from playwright.sync_api import Browser, expect, sync_playwright

from binshift.errors import MigrationRefused

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PICTURES = os.environ.get("BINSHIFT_PAGE_PICTURES")
"""The folder for the pictures; none are drawn if it is not set."""
pytestmark = [
    pytest.mark.page,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing (Debian: apt-get install chromium)"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    arguments = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def feed() -> Feed:
    return Feed()


@pytest.fixture
def opened(browser: Browser, feed: Feed) -> Iterator[Opened]:
    with served(feed) as url:
        found = Opened(browser, url, reduced_motion="reduce")
        yield found
        assert found.errors == []
        assert found.hosts <= {url}
        found.context.close()


def test_the_field_shows_the_owners(opened: Opened, feed: Feed) -> None:
    """Squares on the canvas and rows of the table are the bins of the API, before and after bins move."""
    page = opened.go()
    page.get_by_text("As a table").first.click()
    assert squares(page) == table(page) == {0: 32, 1: 32}
    feed.registered = [0, 1, 2]
    feed.begin([0, 1, 2])
    feed.flip(6)
    expect(page.locator("#migration")).to_contain_text("6 of 20 bins moved")
    expect(page.locator("#workers-table tbody tr")).to_have_count(3)
    assert table(page) == Counter(feed.owners)
    before = squares(page)
    # Twelve bins have a stage, and show the colour of their next owner inside.
    assert before[0] + before[1] < 58
    assert 6 < before[2] < 18
    feed.flip(14)
    expect(page.locator("#migration")).to_contain_text("settled")
    expect(page.locator("#field-text")).to_contain_text("No bin moves")
    assert squares(page) == table(page) == Counter(feed.owners) == {0: 22, 1: 22, 2: 20}


def test_a_target_is_sent_with_the_token(opened: Opened, feed: Feed) -> None:
    """The slider sets the number, and the button sends the target with the token; the answer is shown."""
    page = opened.go()
    page.locator("#slider").fill("3")
    expect(page.locator("#workers")).to_have_value("3")
    with page.expect_request(lambda request: request.method == "PUT") as sent:
        page.get_by_role("button", name="Rescale").click()
    assert sent.value.url.endswith("/v1/target")
    assert sent.value.headers["authorization"] == f"Bearer {ADMIN}"
    assert sent.value.post_data_json == {"owner": "", "generation": 2, "workers": [0, 1, 2]}
    expect(page.locator("#answer")).to_contain_text("Accepted: migration 1 leads to 3 workers")
    expect(page.locator("#notices")).to_contain_text("Worker 2 of the target: not registered")
    assert [name for name, *_ in feed.writes] == ["put_target"]


def test_a_refusal_is_shown(opened: Opened, feed: Feed) -> None:
    """The server's message is shown as text, whatever characters it has, and the page continues."""
    page = opened.go()
    feed.refusal = MigrationRefused("<b>no</b> & no")
    page.locator("#workers").fill("4")
    page.get_by_role("button", name="Rescale").click()
    expect(page.locator("#answer")).to_have_text("Refused: <b>no</b> & no")
    feed.timings.append(busy(64).timings[-1])
    expect(page.locator("#facts")).to_contain_text(str(feed.timings[-1].epoch))


def test_a_target_of_an_operator_is_left_to_it(opened: Opened, feed: Feed) -> None:
    """If another owner has the target, the page does not replace it and names the command."""
    feed.owner = "6fb1"
    page = opened.go()
    expect(page.get_by_role("button", name="Rescale")).to_be_disabled()
    expect(page.locator("#answer")).to_contain_text("kubectl scale sdf")


def test_a_local_run_is_scaled_by_its_lowest_slots(opened: Opened, feed: Feed) -> None:
    """A target of `binshift run` has the slots from 0, as its owner."""
    feed.owner, feed.registered = "local", [0, 1, 5]
    page = opened.go()
    page.locator("#workers").fill("3")
    with page.expect_request(lambda request: request.method == "PUT") as sent:
        page.locator("#workers").press("Enter")
    assert sent.value.post_data_json == {"owner": "local", "generation": 2, "workers": [0, 1, 2]}


@pytest.mark.parametrize(("token", "message"), [("wrong", "send `Authorization"), (DRAIN, "may only drain")])
def test_a_wrong_token_is_refused_with_a_text(opened: Opened, feed: Feed, token: str, message: str) -> None:
    """With another token the page shows why the server refuses it, forgets it, and accepts the right one."""
    page = opened.go(token)
    expect(page.locator("#refused")).to_contain_text(message)
    assert page.evaluate("sessionStorage.length") == 0
    assert feed.reads == 0
    page.get_by_label("Token").fill(ADMIN)
    page.get_by_role("button", name="Open").click()
    expect(page.locator("#state")).to_have_text("Running")


def test_the_token_stays_in_its_tab(opened: Opened) -> None:
    """It leaves the address bar at once, survives a reload, and is neither in a cookie nor in another tab."""
    page = opened.go()
    assert page.url == f"{opened.url}/"
    page.reload()
    expect(page.locator("#state")).to_have_text("Running")
    assert opened.context.cookies() == []
    assert page.evaluate("localStorage.length") == 0
    other = opened.context.new_page()
    other.goto(opened.url)
    expect(other.get_by_label("Token")).to_be_focused()


def test_the_keyboard_is_enough(opened: Opened, feed: Feed) -> None:
    """Token, number of workers, button and tables are reached by keys alone, in the order of the page."""
    page = opened.go(None)
    expect(page.get_by_label("Token")).to_be_focused()
    page.keyboard.insert_text(ADMIN)
    page.keyboard.press("Enter")
    expect(page.locator("#field[data-cell]")).to_be_visible()
    page.locator("h1").click()
    page.keyboard.press("Tab")
    expect(page.locator("#slider")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#workers")).to_have_value("3")
    page.keyboard.press("Tab")
    expect(page.locator("#workers")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    expect(page.locator("#answer")).to_contain_text("Accepted")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#workers-table")).to_be_visible()
    assert feed.target is not None
    assert feed.target.workers == [0, 1, 2]


def test_screen_readers_get_the_same(opened: Opened, feed: Feed) -> None:
    """Field and charts have a text, and a migration is announced as it begins and ends, not with each epoch."""
    page = opened.go()
    for name in ("Bins by worker", "Record latency", "Epochs by part"):
        expect(page.get_by_role("img", name=name)).to_be_visible()
    expect(page.locator("#field-text")).to_have_text("worker 0: 32, worker 1: 32. No bin moves.")
    expect(page.locator("#latency-text")).to_contain_text("No epoch with records")
    feed.begin([0])
    expect(page.locator("#summary")).to_contain_text("0 of 32 bins moved")
    feed.flip(2)
    expect(page.locator("#migration")).to_contain_text("2 of 32 bins moved")
    expect(page.locator("#summary")).to_contain_text("0 of 32 bins moved")
    feed.flip(30)
    expect(page.locator("#summary")).to_contain_text("settled")
    expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "100")


def test_trouble_is_shown(opened: Opened, feed: Feed) -> None:
    """A stopped or unreachable query is reported, and the page continues when it answers again."""
    page = opened.go()
    feed.known = {"reason": "the source is away", "hot_keys": [HOT_KEY]}
    expect(page.locator("#notices")).to_contain_text("the source is away")
    expect(page.locator("#notices")).to_contain_text(f"One key has 63 % of the rows of op0: {HOT_KEY.key}, in bin 7 on")
    page.route("**/v1/**", lambda route: route.abort())
    expect(page.locator("#notices")).to_contain_text("does not answer")
    page.unroute("**/v1/**")
    feed.known = {}
    expect(page.locator("#notices li")).to_have_count(0)


def test_one_of_several_queries_is_shown(browser: Browser) -> None:
    """The names of several queries are offered; the chosen one is shown, and a target goes to all of them."""
    one, other = Feed(known={"name": "one", "id": "1"}), Feed(known={"name": "other", "id": "2"}, owners=[0] * 9)
    with served(one, other) as url:
        opened = Opened(browser, url)
        page = opened.go()
        expect(page.locator("#field-text")).to_have_text("worker 0: 32, worker 1: 32. No bin moves.")
        page.get_by_label("Query").select_option("other")
        expect(page.locator("#field-text")).to_have_text("worker 0: 9, worker 1: 0. No bin moves.")
        expect(page.locator("h1")).to_have_text("other")
        page.locator("#workers").fill("2")
        page.locator("#workers").press("Enter")
        expect(page.locator("#answer")).to_contain_text("Accepted")
        assert [each.target and each.target.workers for each in (one, other)] == [[0, 1], [0, 1]]
        assert opened.errors == []
        opened.context.close()


@pytest.mark.parametrize("bins", [1, 4096, 65_536, 70_000])
@pytest.mark.parametrize("width", [360, WIDTH])
def test_every_size_fits(browser: Browser, bins: int, width: int) -> None:
    """From one bin to more than 65,536, nothing is wider than the page, and what is not shown is stated."""
    feed = Feed(owners=[bin % 5 for bin in range(bins)], registered=list(range(5)))
    with served(feed) as url:
        opened = Opened(browser, url, viewport={"width": width, "height": HEIGHT})
        page = opened.go()
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.locator("#field").bounding_box()["height"] < 2500  # type: ignore[index]
        assert ("The first 65,536 of 70,000 bins" in page.locator("#field-text").inner_text()) == (bins > 65_536)
        assert opened.errors == []
        opened.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_colour_schemes_are_readable(browser: Browser, scheme: Literal["light", "dark"]) -> None:
    """The page follows the system's scheme; in both, the text has a contrast of at least 7 to its background."""
    with served(busy(4096)) as url:
        opened = Opened(browser, url, color_scheme=scheme, reduced_motion="reduce")
        page = opened.go()
        expect(page.locator("#latency .span")).to_have_count(2)
        colours = page.evaluate(
            "(({ color, backgroundColor }) => [color, backgroundColor])(getComputedStyle(document.body))"
        )
        text, back = (luminance(each) for each in colours)
        assert (text > back) == (scheme == "dark")
        assert (max(text, back) + 0.05) / (min(text, back) + 0.05) >= 7
        if PICTURES:
            page.screenshot(path=Path(PICTURES) / f"page-{scheme}.png", full_page=True)
        assert opened.errors == []
        opened.context.close()
