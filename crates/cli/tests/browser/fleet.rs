//! Several nodes on one page: which are there, where each agent is, and what moves.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::browser::Browser;
use crate::ground::{Supervisor, is_alive, now, signal, until};
use crate::house::{House, agent};
use crate::looks;
use crate::page::Page;

/// With a short lease.
const NODE_A: &str =
    "[node]\nname = \"a\"\nlease = \"4s\"\nrenew = \"500ms\"\nlabels = [\"gpu\"]\n";
/// Within this time node a has looked at its fleet again.
const RENEWED: Duration = Duration::from_secs(1);
const WRITER: &str = "tr[data-agent=writer]";

/// Another node on the same store, with a home of its own.
fn node_b(house: &House) -> Supervisor {
    let folder = house.ground.stage.folder.path();
    let home = folder.join("home-b").display().to_string();
    let store = format!("sqlite:{}", house.ground.home("relight.db").display());
    let variables = [
        ("RELIGHT_HOME", home.as_str()),
        ("RELIGHT_STORE", store.as_str()),
    ];
    let node = house
        .ground
        .start_with(&["up", "--no-http", "--node", "b"], &variables);
    node.until_said("is up with ");
    node
}

fn until_node(page: &Page<'_>, node: &str, state: &str) {
    page.until_text(&format!("tr[data-node={node}] .chip"), state);
}

/// Presses a node's button, and agrees.
fn press(page: &Page<'_>, node: &str) {
    page.click(&format!("tr[data-node={node}] button"));
    page.until("document.getElementById('ask').open");
    page.click("#ask .primary");
}

/// Whether a login of this scope is offered to drain a node.
fn may_drain(page: &Page<'_>, scope: &str) -> bool {
    let button = format!(
        "Promise.all(['api', 'verbs'].map(name => import(`/assets/js/${{name}}.js`)))
        .then(([api, verbs]) => {{
            const was = api.me.scope;
            api.me.scope = '{scope}';
            const button = verbs.nodeButton({{ name: 'a', state: 'live' }});
            api.me.scope = was;
            return !button.disabled;
        }})"
    );
    page.see(&button) == json!(true)
}

/// At a desk and on a phone. Leaves pictures.
fn look(page: &Page<'_>) {
    page.until("document.querySelector('.toast') === null");
    for (name, dark) in [("fleet", false), ("fleet-dark", true)] {
        page.wide(dark);
        looks::check(page, name, false);
        page.picture(name);
    }
    page.phone(false);
    looks::check(page, "fleet-phone", true);
    page.see("document.querySelector('.nodes').closest('.card').scrollIntoView()");
    page.picture("fleet-phone");
    page.wide(false);
}

#[test]
fn an_agent_is_seen_to_move_from_node_to_node() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    // A busy machine may lose it once more.
    let config = format!("{NODE_A}{}max_attempts = 20\n", agent("writer"));
    let house = House::with("echo $$ >>births\nexec sleep 1000", &config);
    let page = browser.page();
    house.enter(&page);
    page.until_text(&format!("{WRITER} .place"), "on a");
    page.until_text("tr[data-node=a]", "this one");
    page.until_text("tr[data-node=a] .lease", "of 4.0 s");
    page.until_text("tr[data-node=a]", "gpu");
    let offered = ["read", "operate", "admin"].map(|scope| may_drain(&page, scope));
    assert_eq!(offered, [false, false, true], "as the API has it");
    let b = node_b(&house);
    until_node(&page, "b", "live");

    press(&page, "a");
    until_node(&page, "a", "draining");
    let told = now();
    until("a has renewed since", || {
        (told.elapsed() > RENEWED).then_some(())
    });
    // On a machine that is too busy to renew it has left by itself.
    let writer = house.ground.births(1)[0];
    if is_alive(writer) {
        signal(writer, Signal::KILL);
    }
    page.until_text(&format!("{WRITER} .place"), "on b");
    b.kill();
    until_node(&page, "b", "gone");
    page.until(&format!(
        "document.querySelector('{WRITER} .place.bad') !== null"
    ));
    assert_eq!(
        page.see("document.querySelector('tr[data-node=b] button')"),
        json!(null)
    );
    look(&page);

    press(&page, "a");
    until_node(&page, "a", "live");
    page.until_text(&format!("{WRITER} .place"), "on a");
    page.until_text(".recent", "lost");
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn without_a_fleet_there_is_nothing_of_it() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let house = House::with_writer();
    let page = browser.page();
    house.enter(&page);
    page.until("document.querySelector('.waiting') === null");
    assert_eq!(page.see("document.querySelector('.nodes')"), json!(null));
    assert_eq!(page.text(&format!("{WRITER} .place")), "");
}
