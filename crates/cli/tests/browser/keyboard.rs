//! With keys alone, from the login to a restart.

use serde_json::json;

use crate::browser::Browser;
use crate::house::{House, until_shown};
use crate::page::Page;

const TAB: &str = "\u{e004}";
const ENTER: &str = "\u{e007}";
const ESCAPE: &str = "\u{e00c}";
/// No page has more places for the focus before its first agent.
const TABS_MAX: usize = 60;

/// Tab after Tab until the focus is there; each place on the way can be seen.
fn tab_to(page: &Page<'_>, selector: &str) {
    let selector = json!(selector);
    for _ in 0..TABS_MAX {
        page.press(TAB);
        let outline = "getComputedStyle(document.activeElement)";
        let is_seen = page.see(&format!(
            "document.activeElement === document.body || ({outline}.outlineStyle !== 'none' && parseFloat({outline}.outlineWidth) >= 2)"
        ));
        assert_eq!(
            is_seen,
            true,
            "{}",
            page.see("document.activeElement.outerHTML")
        );
        if page.see(&format!("document.activeElement.matches({selector})")) == true {
            return;
        }
    }
    panic!("the focus never came to {selector}");
}

#[test]
fn everything_is_reached_by_keys_alone() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let house = House::with_writer();
    let page = browser.page();
    house.enter(&page);

    page.press(TAB);
    assert_eq!(page.text(":focus"), "Skip to content");
    page.press(ENTER);
    page.until("document.activeElement.id === 'main'");

    tab_to(&page, "tr[data-agent=writer] .verb-restart");
    assert_eq!(
        page.see("document.activeElement.getAttribute('aria-label')"),
        "Restart writer"
    );
    page.press(ENTER);
    page.until("document.getElementById('ask').open");
    assert_eq!(
        page.text(":focus"),
        "Keep as it is",
        "the harmless answer comes first"
    );
    page.press(ESCAPE);
    page.until("!document.getElementById('ask').open");
    page.until("document.activeElement.matches('.verb-restart')");
    page.press(ENTER);
    page.until("document.getElementById('ask').open");
    tab_to(&page, "#ask .primary");
    page.press(ENTER);
    page.until_text("tr[data-agent=writer] .col-attempt", "#2");

    for (key, view) in [
        ("2", "timeline"),
        ("3", "tasks"),
        ("4", "sessions"),
        ("5", "events"),
        ("1", "overview"),
    ] {
        page.press(key);
        until_shown(&page, view);
        page.until("document.activeElement.tagName === 'H1'");
    }
    page.press("?");
    page.until("document.getElementById('keys').open");
    page.press(ESCAPE);
    page.until("!document.getElementById('keys').open");
    page.press("t");
    page.until("document.documentElement.dataset.theme === 'light'");
    page.press("f");
    page.until("document.activeElement.matches('main input[type=search]')");
    page.press("nobody");
    page.until_text(".area-agents", "No agent matches");
    page.press("\u{e003}\u{e003}\u{e003}\u{e003}\u{e003}\u{e003}");
    page.until("document.querySelector('tr[data-agent=writer]')");
    tab_to(&page, "tr[data-agent=writer] a.name");
    page.press(ENTER);
    until_shown(&page, "agent");
    page.until_text("h1", "writer");
}

#[test]
fn everything_that_can_be_pressed_has_a_name() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let house = House::with_writer();
    let page = browser.page();
    house.enter(&page);
    let nameless = "[...document.querySelectorAll('a, button, input, select, canvas, [tabindex=\"0\"]')] \
        .filter((node) => node.checkVisibility() && !(node.getAttribute('aria-label') || node.labels?.length || node.textContent.trim())) \
        .map((node) => node.outerHTML)";
    for (key, view) in [
        ("1", "overview"),
        ("2", "timeline"),
        ("3", "tasks"),
        ("4", "sessions"),
        ("5", "events"),
    ] {
        page.press(key);
        until_shown(&page, view);
        assert_eq!(page.see(nameless), json!([]), "{view}");
        assert_eq!(
            page.see("document.querySelectorAll('h1').length"),
            1,
            "{view}"
        );
    }
}
