"""The page at / in headless Chromium: a chat with streaming, the panel, an error, and a picture that shows them. page_client.py URL"""
import io
import os
import shutil
import sys

from PIL import Image
from playwright.sync_api import expect, sync_playwright

SKIPPED = 77
url = sys.argv[1]
browser_program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
if not browser_program:
    print("skipped: no Chromium; install the Debian package chromium")
    sys.exit(SKIPPED)


def colours(page, locator):
    """The pixels of an element as the browser has drawn it, and how many there are of each colour."""
    picture = Image.open(io.BytesIO(locator.screenshot())).convert("RGB")
    return {colour: n for n, colour in picture.getcolors(picture.width * picture.height)}


def near(a, b):
    return all(abs(x - y) <= 24 for x, y in zip(a, b))


def css_colour(page, selector, what):
    words = page.eval_on_selector(selector, f"e => getComputedStyle(e).{what}")
    return tuple(int(x) for x in words[words.index("(") + 1:-1].split(",")[:3])


def ask(page, words):
    page.get_by_label("Your message").fill(words)
    page.keyboard.press("Enter")
    answer = page.locator("li.assistant").last
    expect(answer).to_have_attribute("data-done", "true", timeout=120_000)
    return answer


def main():
    problems, foreign = [], []
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=browser_program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme="light")
        page.on("pageerror", lambda e: problems.append(str(e)))
        page.on("console", lambda m: problems.append(m.text) if "Content Security Policy" in m.text else None)
        page.on("request", lambda r: foreign.append(r.url) if not r.url.startswith((url, "data:")) else None)
        page.goto(url + "/")

        # Without the key the server's own words are shown.
        expect(page.locator("#status")).to_contain_text("API key", timeout=10_000)
        page.get_by_label("API key").fill("key-of-the-test")
        page.get_by_label("API key").press("Tab")
        expect(page.locator("#status")).to_have_text("ready", timeout=10_000)
        expect(page.locator("#model option")).to_have_count(1)

        # An answer comes in pieces, with its figures.
        page.get_by_label("Temperature").fill("0")
        page.get_by_label("Most tokens").fill("48")
        answer = ask(page, "Count from one to five.")
        first = answer.locator(".body").inner_text()
        assert len(first) > 5, first
        expect(answer.locator(".figures")).to_contain_text("tokens/s")
        # The same question in a new chat gives the same answer.
        page.get_by_role("button", name="New chat").click()
        expect(page.locator("#messages li")).to_have_count(0)
        assert ask(page, "Count from one to five.").locator(".body").inner_text() == first

        # Markup in a message stays text.
        page.get_by_role("button", name="New chat").click()
        ask(page, "<img src=x onerror=alert(1)><b>bold</b>")
        assert page.locator("#messages img, #messages b").count() == 0

        # The server's complaint about a setting is shown, and the chat goes on.
        page.locator("#sampling").evaluate("f => f.noValidate = true")
        page.eval_on_selector("[name=top_p]", "e => { e.max = ''; e.value = '7' }")
        expect(ask(page, "And now?").locator(".body")).to_contain_text("top_p")
        page.get_by_role("button", name="Defaults").click()
        page.get_by_label("API key").fill("key-of-the-test")

        # A long answer can be stopped.
        page.get_by_label("Most tokens").fill("1500")
        page.get_by_label("Your message").fill("Write a very long story about the sea.")
        page.get_by_label("Temperature").fill("0")
        # In the page itself, at the first text: on a busy machine the answer would be over before a click from outside arrives.
        page.evaluate("""() => {
          new MutationObserver((_, observer) => {
            const stop = document.querySelector("#stop:not([hidden])");
            if (!stop || !document.querySelector("li.assistant:last-child .body")?.textContent) return;
            observer.disconnect();
            stop.click();
          }).observe(document.body, {childList: true, subtree: true, characterData: true, attributes: true});
        }""")
        page.get_by_role("button", name="Send").click()
        last = page.locator("li.assistant").last
        expect(last).to_have_attribute("data-done", "true", timeout=60_000)
        expect(last.locator(".figures")).to_contain_text("Stopped")

        # The panel has drawn what happened: the curve of the speed is there to be seen, and the answer is ink on paper.
        page.wait_for_timeout(2500)
        accent = css_colour(page, "polyline", "stroke")
        drawn = colours(page, page.locator("figure[data-series=speed] svg"))
        assert sum(n for c, n in drawn.items() if near(c, accent)) > 30, drawn
        assert float(page.locator("#prompt-tokens").inner_text()) > 0
        ink = css_colour(page, "body", "color")
        words = colours(page, page.locator("#messages"))
        assert sum(n for c, n in words.items() if near(c, ink)) > 50, len(words)
        assert page.locator("aside").evaluate("e => e.scrollWidth <= e.clientWidth"), "the settings are cut off"
        if os.environ.get("PAGE_PICTURE"):
            page.screenshot(path=os.environ["PAGE_PICTURE"])

        # A small screen scrolls down, never sideways.
        page.set_viewport_size({"width": 360, "height": 640})
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        browser.close()
    assert not problems, problems
    assert not foreign, foreign
    print("page: all seen")


main()
