//! The table of agents and the page of one: states, counts, filters, names of any length.

use serde_json::json;

use crate::browser::Browser;
use crate::house::{House, agent, until_shown};

/// As long as a name may become.
const LONG_NAME: &str = "a-very-long-agent-name/that-people:really_use@some-host.example.org/with-many-parts-in-it-0123456789";

const CHIPS: &str = "[...document.querySelectorAll('.area-agents .tabs button')].map((chip) => chip.textContent).filter((text) => !text.endsWith(' 0'))";
const NAMES: &str =
    "[...document.querySelectorAll('tr[data-agent]')].map((row) => row.dataset.agent)";

#[test]
fn agents_that_wait_for_a_task_are_counted_and_listed_as_idle() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let pool = agent("reader") + "takes = \"start\"\nconcurrency = 2\n";
    let script = "[ -z \"$RELIGHT_TASK\" ] && exec sleep 1000\nexec relight task done";
    let house = House::with(script, &(agent("writer") + &pool));
    for words in [&["task", "add", "page-1"][..], &["stop", "writer"]] {
        assert_eq!(house.ground.call(words).code, 0, "{words:?}");
    }
    for name in ["reader-1", "reader-2"] {
        house
            .ground
            .until_agent(name, |agent| agent["idle"] == true);
    }
    let page = browser.page();
    house.enter(&page);
    page.go(&house.at("/agents"));
    until_shown(&page, "agents");
    let chips = json!(["all 3", "idle 2", "stopped 1"]);
    page.until(&format!(
        "JSON.stringify({CHIPS}) === {}",
        json!(chips.to_string())
    ));
    for (state, names) in [
        ("idle", json!(["reader-1", "reader-2"])),
        ("stopped", json!(["writer"])),
    ] {
        page.go(&house.at(&format!("/agents?state={state}")));
        until_shown(&page, "agents");
        page.until(&format!(
            "JSON.stringify({NAMES}) === {}",
            json!(names.to_string())
        ));
        assert_eq!(
            page.see(
                "document.querySelector('.tabs [aria-pressed=true]').textContent.split(' ')[0]"
            ),
            state
        );
    }
    page.go(&house.at("/events"));
    until_shown(&page, "events");
    for told in [
        "Given the task page-1",
        "No longer has a task",
        "ended: completed",
    ] {
        page.until_text(".journal", told);
    }
    let journal = page.text(".journal");
    for wrong in ["Configuration changed", "died: ", "running → running"] {
        assert!(!journal.contains(wrong), "{wrong} in {journal}");
    }
}

#[test]
fn a_long_name_stays_inside_its_card() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let house = House::with("exec sleep 1000", &agent(LONG_NAME));
    let page = browser.page();
    house.enter(&page);
    let path = format!("/agents/{}", LONG_NAME.replace('/', "%2F"));
    for is_phone in [false, true] {
        if is_phone {
            page.phone(false);
        }
        page.go(&house.at(&path));
        until_shown(&page, "agent");
        page.until_text(".command", LONG_NAME);
        let width = page.see("document.documentElement.scrollWidth - innerWidth");
        assert!(
            width.as_i64().unwrap() <= 0,
            "phone: {is_phone}, by {width}"
        );
        let outside = page.see("[...document.querySelectorAll('.command')].filter((one) => one.getBoundingClientRect().right > one.closest('.card').getBoundingClientRect().right).length");
        assert_eq!(outside, 0, "phone: {is_phone}");
        let cut = page.see("[...document.querySelectorAll('.config dt')].filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent)");
        assert_eq!(cut, json!([]), "phone: {is_phone}");
        page.click(".page-top .verb-restart");
        page.until("document.getElementById('ask').open");
        let outside = page.see("[...document.querySelectorAll('#ask button')].filter((one) => one.scrollWidth > one.clientWidth || one.getBoundingClientRect().right > one.closest('dialog').getBoundingClientRect().right).length");
        assert_eq!(outside, 0, "phone: {is_phone}");
        page.press("\u{e00c}");
    }
}
