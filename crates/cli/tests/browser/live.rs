//! What happens is seen at once, without a reload.

use rustix::process::Signal;
use serde_json::json;

use crate::browser::Browser;
use crate::ground::signal;
use crate::house::House;
use crate::page::Page;

const ROW: &str = "tr[data-agent=writer]";

/// Notes what the row of the agent has said, however short.
const WATCH: &str = r"(() => {
    const row = document.querySelector('tr[data-agent=writer]');
    window.marked = row;
    window.said = new Set();
    const look = () => window.said.add(row.querySelector('.chip').textContent);
    new MutationObserver(look).observe(row, { subtree: true, childList: true, characterData: true });
    look();
})()";

fn attempt(page: &Page<'_>) -> String {
    page.text(&format!("{ROW} .col-attempt span"))
}

fn until_attempt(page: &Page<'_>, number: u32) {
    page.until_text(&format!("{ROW} .col-attempt span"), &format!("#{number}"));
    page.until_text(&format!("{ROW} .col-state .chip"), "running");
}

#[test]
fn an_agent_restarted_by_its_button_comes_back_before_our_eyes() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let house = House::with_writer();
    let page = browser.page();
    house.enter(&page);
    until_attempt(&page, 1);
    page.see(WATCH);

    page.click(&format!("{ROW} .verb-restart"));
    page.until("document.getElementById('ask').open");
    assert!(
        page.text("#ask").contains("relight restart writer"),
        "{}",
        page.text("#ask")
    );
    page.press("\u{e00c}");
    page.until("!document.getElementById('ask').open");
    assert_eq!(attempt(&page), "#1", "whoever says no changes nothing");

    page.click(&format!("{ROW} .verb-restart"));
    page.until("document.getElementById('ask').open");
    page.click("#ask .primary");
    until_attempt(&page, 2);
    page.until_text("#toasts", "writer was running");
    assert!(
        page.see("document.contains(window.marked)")
            .as_bool()
            .unwrap(),
        "no reload"
    );
    assert_eq!(house.ground.births(2).len(), 2);
    house.ground.assert_never_doubled();
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn an_agent_that_is_stopped_and_started_says_so() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let house = House::with_writer();
    let page = browser.page();
    house.enter(&page);
    page.click(&format!("{ROW} .verb-stop"));
    page.until("document.getElementById('ask').open");
    page.click("#ask .danger");
    page.until_text(&format!("{ROW} .col-state .chip"), "stopped");
    page.click(&format!("{ROW} .verb-start"));
    page.until("document.getElementById('ask').open");
    page.click("#ask .primary");
    until_attempt(&page, 2);
    page.press("5");
    page.until_text(".journal", "Told to end: stop");
}

#[test]
fn a_killed_agent_is_seen_to_die_and_to_come_back() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let house = House::with_writer();
    let page = browser.page();
    house.enter(&page);
    page.until_text("main", "No agent has crashed");

    signal(house.ground.births(1)[0], Signal::KILL);
    page.until_text(".recent", "signal");
    page.until_text(".recent .is-back", "back in");
    until_attempt(&page, 2);
    page.until_text(&format!("{ROW} .col-last_death"), "SIGKILL");
    page.until("document.querySelector('.tiles').textContent.includes('1 signal')");

    page.click(&format!("{ROW} a.name"));
    page.until_text(".deaths", "SIGKILL");
    page.click(".deaths summary");
    page.until_text(".post-mortem", "Last output");
}

#[test]
fn the_page_outlives_the_daemon_and_misses_nothing() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let mut house = House::with_writer();
    let page = browser.page();
    house.enter(&page);
    page.press("5");
    page.until("document.body.dataset.view === 'events'");
    page.until_text(".journal", "attempt.started");
    page.see("window.marked = document.querySelector('.journal')");

    house.kill_daemon();
    page.until("document.getElementById('link').textContent === 'Disconnected'");
    page.until_text("#banner", "Disconnected since");
    page.screen(1280, 420, false, false);
    page.picture("disconnected");
    page.wide(false);
    assert_eq!(
        house.ground.call(&["task", "add", "made-meanwhile"]).code,
        0
    );
    signal(house.ground.births(1)[0], Signal::KILL);
    house.start_daemon();

    page.until("document.getElementById('link').textContent === 'Live'");
    page.until("document.getElementById('banner').hidden");
    page.until_text(".journal", "made-meanwhile");
    page.until_text(".journal", "attempt.died");
    assert!(
        page.see("document.contains(window.marked)")
            .as_bool()
            .unwrap(),
        "no reload"
    );
    page.press("1");
    page.until("document.body.dataset.view === 'overview'");
    until_attempt(&page, 2);

    let shown = page
        .see("fetch('/api/events?limit=1000').then((a) => a.json()).then((a) => a.items.length)");
    let all = house
        .ground
        .call(&["events", "--json", "-n", "10000"])
        .stdout
        .lines()
        .count();
    assert_eq!(shown, json!(all));
    page.click(&format!("{ROW} .verb-restart"));
    page.until("document.getElementById('ask').open");
    page.click("#ask .primary");
    until_attempt(&page, 3);
}
