//! Addresses: each page has one that can be sent to somebody else, and text in it stays text.

use serde_json::json;

use crate::browser::Browser;
use crate::house::{House, until_shown};

/// A task with a step, an event, a session, and an agent.
fn house() -> House {
    let house = House::with_writer();
    for words in [
        &["task", "start", "book/7", "--step", "check"][..],
        &[
            "step",
            "run",
            "check",
            "--task",
            "book/7",
            "--",
            "echo",
            "all is well",
        ],
        &["session", "begin", "chat/ana", "--id", "s-1"],
    ] {
        assert_eq!(house.ground.call(words).code, 0, "{words:?}");
    }
    house
}

#[test]
fn every_page_has_an_address_and_a_title() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let house = house();
    let page = browser.page();
    house.enter(&page);
    for (path, view, title, text) in [
        ("/agents", "agents", "Agents · Relight", "writer"),
        (
            "/agents/writer",
            "agent",
            "writer · Agent · Relight",
            "Timeline",
        ),
        ("/timeline", "timeline", "Timeline · Relight", "writer"),
        ("/tasks", "tasks", "Tasks · Relight", "book/7"),
        (
            "/tasks/book%2F7",
            "task",
            "book/7 · Task · Relight",
            "check",
        ),
        (
            "/tasks/book%2F7/steps/check",
            "step",
            "check · book/7 · Step · Relight",
            "all is well",
        ),
        ("/sessions", "sessions", "Sessions · Relight", "chat/ana"),
        (
            "/sessions/chat%2Fana",
            "session",
            "chat/ana · Session · Relight",
            "s-1",
        ),
        ("/events", "events", "Events · Relight", "session.begun"),
        ("/events/1", "event", "1 · Event · Relight", "As recorded"),
        ("/nodes", "nodes", "Nodes · Relight", "There is no fleet"),
        ("/", "overview", "Relight", "Needs me"),
    ] {
        page.go("about:blank");
        page.go(&house.at(path));
        until_shown(&page, view);
        page.until_text("main", text);
        page.until_text("#place", "/home");
        // How many things need a person stands before it.
        let named = "document.title.replace(/^\\(\\d+\\) /, '')";
        let title = title.replace("Relight", &format!("{} · Relight", page.text("#place")));
        page.until(&format!("{named} === {}", json!(title)));
    }
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn back_and_forward_lead_through_the_pages() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let house = house();
    let page = browser.page();
    house.enter(&page);
    page.press("3");
    until_shown(&page, "tasks");
    page.until("document.querySelector('tr[data-task=\"book/7\"]')");
    page.click("tr[data-task='book/7'] a.name");
    until_shown(&page, "task");
    page.until("document.querySelector('tr[data-step=check] a')");
    page.click("tr[data-step=check] a");
    until_shown(&page, "step");
    assert_eq!(page.see("location.pathname"), "/tasks/book%2F7/steps/check");
    for view in ["task", "tasks", "overview"] {
        page.run("history.back()");
        until_shown(&page, view);
    }
    page.run("history.forward()");
    until_shown(&page, "tasks");
}

#[test]
fn what_a_list_is_filtered_by_is_in_its_address() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let house = house();
    assert_eq!(house.ground.call(&["task", "add", "other"]).code, 0);
    let page = browser.page();
    house.enter(&page);
    page.go(&house.at("/tasks?status=in_progress&sort=-id"));
    until_shown(&page, "tasks");
    page.until("document.querySelector('tr[data-task=\"book/7\"]')");
    assert_eq!(
        page.see("document.querySelector('tr[data-task=other]')"),
        json!(null)
    );
    page.until("document.querySelector('.tabs [aria-pressed=true]')?.textContent.startsWith('in progress')");
    page.until("document.querySelector('th[aria-sort=descending]')?.textContent === 'Task'");
    page.click(".tabs button:first-child");
    page.until("document.querySelector('tr[data-task=other]')");
    assert_eq!(page.see("location.search"), "?sort=-id");
    page.go(&house.at("/events?kind=task.created&task=other"));
    until_shown(&page, "events");
    page.until("document.querySelectorAll('.journal tbody tr').length === 1");
}

#[test]
fn a_login_leads_to_where_one_wanted_to_go() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let house = house();
    let page = browser.page();
    page.go(&house.at("/tasks/book%2F7?x=1"));
    page.until_text("#command", &house.login_command());
    assert!(
        !page.text("body").contains("check"),
        "a stranger sees no step"
    );
    page.go(&house.link());
    page.until("location.pathname === '/tasks/book%2F7' && location.search === '?x=1'");
    until_shown(&page, "task");
    // Once: the next login begins at the overview.
    page.go(&house.link());
    page.until("location.pathname === '/'");
}

#[test]
fn a_link_on_another_page_leads_in() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let house = house();
    let page = browser.page();
    house.enter(&page);
    // Another host, as a chat would be: the browser keeps the strict cookie to itself on the way in.
    let there = house.at("/tasks/book%2F7");
    let elsewhere = format!(
        "http://localhost:{}/openapi.json",
        house.address.split(':').next_back().unwrap()
    );
    page.go(&elsewhere);
    page.run(&format!("location.href = {}", json!(there)));
    until_shown(&page, "task");
    page.until_text("main", "check");
}

#[test]
fn the_order_in_an_address_is_that_of_its_sign() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let house = House::empty();
    for words in [
        &["task", "start", "cheap"][..],
        &["task", "spend", "cheap", "--cost", "0.5"],
        &["task", "start", "dear"],
        &["task", "spend", "dear", "--cost", "2"],
        &["task", "add", "without"],
    ] {
        assert_eq!(house.ground.call(words).code, 0, "{words:?}");
    }
    let page = browser.page();
    house.enter(&page);
    page.go(&house.at("/tasks?sort=-cost"));
    until_shown(&page, "tasks");
    let is = |order: &str, names: &[&str]| {
        page.until(&format!(
            "document.querySelector('th[aria-sort={order}]')?.textContent === 'Cost'"
        ));
        let shown = "JSON.stringify([...document.querySelectorAll('tr[data-task]')].map((row) => row.dataset.task))";
        page.until(&format!("{shown} === {}", json!(json!(names).to_string())));
    };
    is("descending", &["dear", "cheap", "without"]);
    page.click("th.col-cost button");
    is("ascending", &["cheap", "dear", "without"]);
    assert_eq!(page.see("location.search"), "?sort=cost");
}

#[test]
fn an_address_without_a_page_leads_back() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let house = house();
    let page = browser.page();
    house.enter(&page);
    for (path, view, text, back) in [
        ("/nopage", "nowhere", "There is nothing at /nopage", "/"),
        (
            "/tasks/a/b",
            "nowhere",
            "There is nothing at /tasks/a/b",
            "/",
        ),
        ("/tasks/none", "task", "There is no such task", "/tasks"),
        ("/agents/none", "agent", "There is no such agent", "/agents"),
        (
            "/sessions/none",
            "session",
            "There is no such session",
            "/sessions",
        ),
    ] {
        page.go(&house.at(path));
        page.until(&format!("document.body.dataset.view === '{view}'"));
        page.until_text("main", text);
        page.until(&format!(
            "document.querySelector('main .crumbs a')?.getAttribute('href') === {}",
            json!(back)
        ));
    }
}

#[test]
fn text_in_an_address_stays_text() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let house = house();
    let page = browser.page();
    house.enter(&page);
    for path in [
        "/agents/%3Cimg%20src=x%20onerror=alert(1)%3E",
        "/tasks/javascript:alert(2)",
        "/tasks/x/steps/%22%3E%3Csvg%20onload=alert(3)%3E",
        "/sessions/%E2%80%AEgnp",
        "/events/__proto__",
        "/nodes/constructor",
        "/tasks?status=__proto__&sort=constructor&find=%3Cscript%3Ealert(4)%3C/script%3E",
        "/tasks/%ff",
        "/agents/..%2F..%2Fapi",
    ] {
        page.go("about:blank");
        page.go(&house.at(path));
        page.until(
            "document.body.dataset.view && document.querySelector('main .empty, main .card')",
        );
        page.assert_nothing_ran(path);
        assert_eq!(
            page.see("document.querySelectorAll('main :is(script, img, iframe, [onload], [onerror])').length"),
            0,
            "{path}"
        );
    }
}
