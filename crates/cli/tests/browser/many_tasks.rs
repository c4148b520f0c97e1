//! A hundred thousand tasks.

use serde_json::Value;

use crate::browser::Browser;
use crate::ground::Ground;
use crate::house::{House, until_shown};
use crate::store;

const TASKS: usize = 100_000;
/// However many there are, only so many are in the document.
const ROWS_MAX: u64 = 80;

#[test]
fn a_hundred_thousand_tasks_are_scrolled_sorted_and_searched() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let ground = Ground::with_agent("exec sleep 1000");
    let past = store::open(&ground);
    store::run(store::many_tasks(&past, TASKS));
    drop(past);
    let house = House::on(ground, "");
    let page = browser.page();
    house.enter(&page);
    page.go(&house.at("/tasks"));
    page.until("performance.getEntriesByName('relight-tasks').length > 0");
    until_shown(&page, "tasks");
    let first = page.see("performance.getEntriesByName('relight-tasks')[0].startTime");
    println!("{TASKS} tasks: the first are there after {first:.0} ms");
    // How soon is for a release build on an idle machine; here they come at all.
    page.until("document.querySelector('tr[data-task][aria-rowindex=\"2\"]')");
    page.until_text(".tabs", "all 100,000");
    let rows = || -> Value { page.see("document.querySelectorAll('main tr').length") };
    assert!(rows().as_u64().unwrap() <= ROWS_MAX, "{}", rows());
    let height = page.see("document.querySelector('.tasks table').clientHeight / 52");
    assert!(height.as_f64().unwrap() > 99_000.0, "{height} rows high");

    page.run("scrollTo(0, 52 * 1500)");
    page.until("document.querySelector('tr[data-task][aria-rowindex=\"1502\"]')");
    assert!(rows().as_u64().unwrap() <= ROWS_MAX, "{}", rows());

    page.run("scrollTo(0, 0)");
    page.press("f");
    page.run("const box = document.querySelectorAll('.tasks input[type=search]')[1]; box.value = 'sk-000042'; box.dispatchEvent(new Event('input'));");
    page.until("document.querySelectorAll('tr[data-task]').length === 1 && document.querySelector('tr[data-task=task-000042]')");
    assert_eq!(page.see("location.search"), "?find=sk-000042");
}
