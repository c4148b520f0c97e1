//! A thousand agents with a long past.

use serde_json::Value;

use crate::browser::Browser;
use crate::ground::Ground;
use crate::house::{House, until_shown};
use crate::store;

const AGENTS: usize = 1_000;
/// With three events each, a hundred thousand in all.
const ATTEMPTS: u32 = 33;
/// What the first load may send.
const BYTES_MAX: u64 = 120_000;
/// No list puts more on the screen at once, the tables behind the charts among them.
const ROWS_MAX: u64 = 160;

const USABLE: &str = "performance.getEntriesByName('relight-usable')[0]?.startTime ?? 0";
/// Scripts and styles are sent once, with the first page; the rest is its data.
const FILES_SENT: &str = "performance.getEntriesByType('resource').filter((one) => one.name.includes('/assets/')) \
    .reduce((sum, one) => sum + one.transferSize, 0)";
const SENT: &str = "[...performance.getEntriesByType('resource'), ...performance.getEntriesByType('navigation')] \
    .reduce((sum, one) => sum + one.transferSize, 0)";

fn house_of_many() -> House {
    let ground = Ground::with_agent("exec sleep 1000");
    let past = store::open(&ground);
    store::run(store::lived_all(&past, AGENTS, ATTEMPTS));
    drop(past);
    House::on(ground, "")
}

#[test]
fn a_thousand_agents_are_shown_at_once() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let house = house_of_many();
    let page = browser.page();
    page.go(&house.link());
    page.until("location.pathname === '/'");
    page.until(&format!("{USABLE} > 0"));
    page.until("document.getElementById('link')?.dataset.state === 'live' && !document.querySelector('.skeleton, .loading')");
    let sent = page.see(SENT).as_u64().unwrap();
    let files = page.see(FILES_SENT).as_u64().unwrap();
    let first = page.see(USABLE).as_f64().unwrap();
    assert!(page.text("main").contains("of 1,000"), "all are counted");

    // The second load has nothing to fetch but the data.
    page.go("about:blank");
    page.go(&house.url());
    page.until(&format!("{USABLE} > 0"));
    let again = page.see(USABLE).as_f64().unwrap();
    let events = page.see(
        "fetch('/api/events?newest=true&limit=1').then((a) => a.json()).then((a) => a.items[0].id)",
    );
    println!(
        "{AGENTS} agents, {events} events: usable after {first:.0} ms with {sent} bytes, then after {again:.0} ms"
    );
    assert!(events.as_u64().unwrap() >= 100_000);
    assert!(sent <= BYTES_MAX, "{sent} bytes");
    // How soon is for a release build on an idle machine; here it comes at all.
    assert!(first > 0.0 && again > 0.0, "{first} ms, then {again} ms");

    for (path, view) in [
        ("/agents/agent-0000", "agent"),
        ("/agents", "agents"),
        ("/tasks", "tasks"),
    ] {
        page.go(&house.at(path));
        until_shown(&page, view);
        page.until("!document.querySelector('.skeleton, .loading')");
        let (all, again) = (
            page.see(SENT).as_u64().unwrap(),
            page.see(FILES_SENT).as_u64().unwrap(),
        );
        let sent = files + all - again;
        println!("{path}: {sent} bytes, {} of them data", all - again);
        assert!(sent <= BYTES_MAX, "{path}: {sent} bytes");
    }

    for (key, view) in [("2", "timeline"), ("5", "events"), ("1", "overview")] {
        page.press(key);
        until_shown(&page, view);
        let rows: Value =
            page.see("document.querySelectorAll('main tr, main li, .lane-names a').length");
        assert!(rows.as_u64().unwrap() <= ROWS_MAX, "{view} has {rows} rows");
    }
}
