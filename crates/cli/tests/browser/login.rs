//! Coming in: by a link, once.

use crate::browser::Browser;
use crate::ground::Ground;
use crate::house::House;

#[test]
fn a_link_logs_in_once_and_a_bad_one_says_what_to_type() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let house = House::with_writer();
    let page = browser.page();

    page.go(&house.url());
    page.until_text("main", &house.login_command());
    assert!(
        !page.text("body").contains("writer"),
        "a stranger sees no agent"
    );

    let link = house.link();
    page.go(&link);
    page.until("location.pathname === '/' && document.querySelector('tr[data-agent=writer]')");
    assert_eq!(
        page.see("document.cookie"),
        "",
        "no script can read the cookie"
    );
    assert_eq!(
        page.see("location.hash + location.search"),
        "",
        "the code is not in the address"
    );

    page.go("about:blank");
    page.go(&link);
    page.until_text("main", "This link no longer works");
    page.until_text("#command", &house.login_command());
    assert!(
        page.see("document.getElementById('command').checkVisibility()")
            .as_bool()
            .unwrap()
    );

    for bad in [
        "login/nobody-gave-this",
        "login/%3Csvg%20onload=alert(1)%3E",
        "login/%2e%2e%2fapi",
    ] {
        page.go(&format!("{}{bad}", house.url()));
        page.until_text("main", &house.login_command());
        page.assert_nothing_ran(bad);
    }
}

#[test]
fn logging_in_to_one_daemon_does_not_log_out_of_another() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let (one, other) = (House::empty(), House::empty());
    let page = browser.page();
    one.enter(&page);
    other.enter(&page);
    page.go(&one.url());
    page.until("document.getElementById('link')?.dataset.state === 'live'");
}

#[test]
fn a_page_says_which_project_it_shows() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let ground = Ground::new();
    ground.config("");
    let up = ["up", "--listen", "127.0.0.1:0"];
    let daemon = ground.start_with(&up, &[("RELIGHT_HOME", "")]);
    daemon.until_said("up with ");
    let link = ground.json(&["--project", "work", "dashboard", "--print"])["url"].clone();
    let link = link.as_str().unwrap();
    let page = browser.page();
    page.go(link.split("login/").next().unwrap());
    page.until_text("#command", "relight --project work dashboard");
    page.go(link);
    page.until("document.title === 'work · Relight'");
    assert_eq!(page.text("#place"), "work");
    let folder = ground.work("").canonicalize().unwrap();
    assert_eq!(
        page.see("document.getElementById('place').title"),
        folder.to_str().unwrap()
    );
}
