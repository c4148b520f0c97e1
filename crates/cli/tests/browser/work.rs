//! What a person decides about tasks, and where the journal leads.

use serde_json::json;

use crate::browser::Browser;
use crate::house::{House, until_shown};

#[test]
fn a_step_in_doubt_is_resolved_by_its_button() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let house = House::empty();
    let ground = &house.ground;
    for words in [
        &["task", "start", "pay-8", "--step", "pay", "--step", "file"][..],
        &[
            "step", "begin", "pay", "--task", "pay-8", "--repeat", "once",
        ],
        &["task", "release", "pay-8", "--force"],
        &["task", "block", "pay-8", "--reason", "did the bank get it?"],
    ] {
        assert_eq!(ground.call(words).code, 0, "{words:?}");
    }
    let page = browser.page();
    house.enter(&page);
    page.until_text(".needs", "in doubt");
    let command = "relight step resolve pay --task pay-8";
    page.until_text(".needs", &format!("{command} --happened"));
    page.until_text(".needs", &format!("{command} --did-not"));
    page.click(".need-do button");
    page.until("document.getElementById('ask').open");
    page.until_text("#ask", &format!("{command} --happened"));
    page.click("#ask .primary");
    page.until_text("#toasts", "Step pay is resolved");
    page.until("!document.querySelector('.needs')?.textContent.includes('in doubt')");
    assert_eq!(ground.json(&["task", "show", "pay-8"])["next_step"], "file");
}

#[test]
fn a_retry_offers_to_resolve_the_step_in_doubt_first() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let house = House::empty();
    for words in [
        &["task", "start", "pay-8", "--step", "pay"][..],
        &[
            "step", "begin", "pay", "--task", "pay-8", "--repeat", "once",
        ],
        &["task", "release", "pay-8", "--force"],
        &["task", "block", "pay-8", "--reason", "did the bank get it?"],
    ] {
        assert_eq!(house.ground.call(words).code, 0, "{words:?}");
    }
    let page = browser.page();
    house.enter(&page);
    page.go(&house.at("/tasks/pay-8"));
    until_shown(&page, "task");
    let retry = "[aria-label='Retry: pay-8']";
    page.until(&format!("document.querySelector(\"{retry}\")"));
    page.click(retry);
    page.until_text("#ask h2", "Resolve step pay first?");
    page.click("#ask .primary");
    page.until_text("#ask h2", "Did step pay happen?");
    page.click("#ask .primary");
    page.until_text("#toasts", "Step pay is resolved");
}

#[test]
fn turns_are_in_flight_and_those_without_an_owner_are_told() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let house = House::empty();
    let lines = "relight task start pay-8; relight task start pay-9; relight task block pay-9 --reason x; \
        relight session begin chat/ben --id s-1; sleep 1000 & \
        relight session begin chat/ana --id s-2 --owner-pid $!; kill $!";
    assert_eq!(house.ground.shell(lines).code, 0);
    let page = browser.page();
    house.enter(&page);
    page.until("[...document.querySelectorAll('.tile')].some((one) => one.textContent === 'In flight31 task, 2 turns; 1 task blocked')");
    page.press("4");
    until_shown(&page, "sessions");
    page.until_text("tr[data-session='chat/ben'] .chip.good", "active");
    page.until_text(
        "tr[data-session='chat/ana'] .chip.warn",
        "active (owner gone)",
    );
}

#[test]
fn events_go_back_to_the_first() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let house = House::empty();
    assert_eq!(house.ground.call(&["task", "add", "first"]).code, 0);
    let token = house
        .ground
        .call(&["token", "show"])
        .stdout
        .trim()
        .to_owned();
    for number in 0..250 {
        let task = json!({"id": format!("t{number}")});
        assert_eq!(house.post_with(&token, "/api/tasks", &task).0, 201);
    }
    let page = browser.page();
    house.enter(&page);
    page.press("5");
    until_shown(&page, "events");
    page.until_text(".journal", "t249");
    let rows = "document.querySelectorAll('.journal tbody tr').length";
    let mut seen = 0;
    let older = ".pager button:last-child";
    while page.see(&format!("document.querySelector('{older}').disabled")) == false {
        assert_eq!(page.see(rows), 100, "a page is full unless it is the last");
        seen += 100;
        let top = page.text(".journal tbody tr:first-child small");
        page.click(older);
        page.until(&format!(
            "document.querySelector('.journal tbody tr:first-child small').textContent !== {}",
            json!(top)
        ));
    }
    page.until_text(".journal", "first");
    seen += page.see(rows).as_u64().unwrap();
    let all = house
        .ground
        .call(&["events", "--json", "-n", "10000"])
        .stdout
        .lines()
        .count();
    assert_eq!(seen, all as u64);
    assert_eq!(house.ground.call(&["task", "add", "meanwhile"]).code, 0);
    for _ in 0..2 {
        page.click(".pager button:first-child");
        until_shown(&page, "events");
    }
    page.until_text(".journal", "meanwhile");
}
