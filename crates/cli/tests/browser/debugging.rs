//! What one finds out with the dashboard: which step was cut off, what it wrote, where something is.

use rustix::process::Signal;
use serde_json::json;

use crate::axe;
use crate::browser::Browser;
use crate::ground::signal;
use crate::house::{House, agent, until_shown};

/// Dies once in the middle of `draft`, fails at it once, and then waits in `review`.
const WRITER: &str = "
    relight task start chapter-3 --title 'Write chapter 3' --step outline --step draft --step review --step publish >/dev/null
    relight step run outline --task chapter-3 -- sh -c 'echo outline of ten pages; echo two sources are missing >&2'
    if [ ! -e first ]; then touch first; relight step begin draft --task chapter-3 >/dev/null; echo in-draft >>ready; exec sleep 1000; fi
    relight task spend chapter-3 --cost 0.25 --turns 3 >/dev/null
    if [ ! -e second ]; then touch second; relight step run draft --task chapter-3 -- sh -c 'echo half of it; echo disk full >&2; exit 3'; fi
    relight step run draft --task chapter-3 -- echo 'the whole draft' >/dev/null
    relight step begin review --task chapter-3 >/dev/null
    echo in-review >>ready
    exec sleep 1000";

fn house_with_a_crash() -> House {
    let house = House::with(WRITER, &agent("writer"));
    house.ground.until_lines("ready", 1);
    signal(house.ground.until_runs("writer", 1), Signal::KILL);
    house.ground.until_lines("ready", 2);
    house
}

#[test]
fn the_waterfall_tells_each_try_of_each_step() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let house = house_with_a_crash();
    let page = browser.page();
    house.enter(&page);
    page.go(&house.at("/tasks/chapter-3"));
    until_shown(&page, "task");
    page.until("document.querySelectorAll('tr[data-step=draft] .try').length === 3");
    let of = |step: &str| {
        page.see(&format!(
            "[...document.querySelectorAll('tr[data-step={step}] .try')].map((one) => one.classList[1])"
        ))
    };
    assert_eq!(of("outline"), json!(["done"]));
    assert_eq!(of("draft"), json!(["cut_off", "failed", "done"]));
    assert_eq!(of("review"), json!(["begun"]));
    assert_eq!(of("publish"), json!([]));
    let states = page.see(
        "[...document.querySelectorAll('tr[data-step]')].map((row) => [row.dataset.step, row.dataset.state])",
    );
    assert_eq!(
        states,
        json!([
            ["outline", "done"],
            ["draft", "done"],
            ["review", "begun"],
            ["publish", "waiting"]
        ])
    );
    let told =
        page.see("document.querySelector('tr[data-step=draft] .wf').getAttribute('aria-label')");
    let told = told.as_str().unwrap();
    for part in [
        "by writer #1",
        "by writer #2",
        "cut off",
        "failed (exit 3)",
        "finished",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert_eq!(page.see("document.querySelectorAll('.hold').length"), 2);
    assert_eq!(
        page.see("document.querySelectorAll('.hold.died').length"),
        1
    );
    assert!(page.see("document.querySelectorAll('tr[data-step=draft] .gap').length") == 1);
    // In words, and no JSON.
    page.until_text(".journal", "writer #1 no longer has the task");
    page.until_text(".journal", "Spent 0.25 in 3 turns");
    page.until_text(".journal", "Step draft failed with exit 3");
    assert!(
        !page.text(".journal").contains('{'),
        "{}",
        page.text(".journal")
    );
    page.until_text("main", "Brief for attempt 2 of agent writer");
    page.until_text("main", "given to attempt 2");
    page.until_text(".facts", "0.25");
    page.picture("waterfall");
}

/// Dies in the middle of `draft`, and works on `review` when it is back.
const LEAVES_DRAFT: &str = "
    relight task start chapter-4 --step draft --step review >/dev/null
    if [ ! -e first ]; then touch first; relight step begin draft --task chapter-4 >/dev/null; echo in-draft >>ready; exec sleep 1000; fi
    relight step begin review --task chapter-4 >/dev/null
    echo in-review >>ready
    exec sleep 1000";

#[test]
fn a_step_of_a_dead_attempt_is_in_doubt_while_the_next_one_works() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let house = House::with(LEAVES_DRAFT, &agent("writer"));
    house.ground.until_lines("ready", 1);
    signal(house.ground.until_runs("writer", 1), Signal::KILL);
    house.ground.until_lines("ready", 2);
    let page = browser.page();
    house.enter(&page);
    page.until_text(".flight tbody", "review");
    page.go(&house.at("/tasks/chapter-4"));
    until_shown(&page, "task");
    page.until("document.querySelector('tr[data-step=review] .try')");
    let of = |step: &str| {
        page.see(&format!(
            "[document.querySelector('tr[data-step={step}]').dataset.state, ...[...document.querySelectorAll('tr[data-step={step}] .try')].map((one) => one.classList[1])]"
        ))
    };
    assert_eq!(of("draft"), json!(["in_doubt", "in_doubt"]));
    assert_eq!(of("review"), json!(["begun", "begun"]));
    // It ends with its holder, before the next one began.
    let end = "document.querySelector('tr[data-step=draft] .try').getBoundingClientRect().right";
    let begin = "document.querySelectorAll('.hold .band')[1].getBoundingClientRect().left";
    assert_eq!(page.see(&format!("{end} <= {begin} + 3")), true);
    // A person's answer would take the task from the one that works on it.
    page.until("!document.querySelector('tr[data-step=draft] button')");
    page.go(&house.at("/tasks"));
    until_shown(&page, "tasks");
    page.until_text("tr[data-task=chapter-4]", "0 of 2, 2 begun");
}

#[test]
fn a_step_shows_its_output_and_its_errors() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let house = house_with_a_crash();
    let page = browser.page();
    house.enter(&page);
    page.go(&house.at("/tasks/chapter-3/steps/outline"));
    until_shown(&page, "step");
    page.until_text("section[aria-label=Output] pre", "outline of ten pages");
    page.until_text(
        "section[aria-label='Standard error'] pre",
        "two sources are missing",
    );
    page.run("window.saved = []; URL.createObjectURL = (blob) => { blob.text().then((text) => window.saved.push(text)); return 'blob:none'; }; HTMLAnchorElement.prototype.click = function () { window.saved.push(this.download); };");
    page.click("section[aria-label=Output] header button:last-child");
    page.until("window.saved.length === 2");
    assert_eq!(
        page.see("window.saved.toSorted()"),
        json!(["chapter-3-outline.txt", "outline of ten pages\n"])
    );
    page.go(&house.at("/tasks/chapter-3/steps/draft"));
    until_shown(&page, "step");
    page.until_text("section[aria-label=Tries]", "cut off");
    page.until_text("section[aria-label=Tries]", "exit 3");
    page.until_text("section[aria-label=Output] pre", "the whole draft");
    page.until_text("main", "relight step show draft --task chapter-3");
    page.until_text("main", "relight step output draft --task chapter-3");
    page.picture("step");
    page.go(&house.at("/tasks/chapter-3/steps/nothing"));
    page.until_text("main", "has no step nothing");
}

#[test]
fn the_output_of_a_step_is_redacted_and_cut_at_its_limit() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let house = House::empty();
    let secret = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    for words in [
        &["task", "start", "t"][..],
        &["step", "run", "s", "--task", "t", "--", "echo", &secret],
        &[
            "step",
            "run",
            "long",
            "--task",
            "t",
            "--",
            "sh",
            "-c",
            "yes x | head -c 3000000",
        ],
    ] {
        assert_eq!(house.ground.call(words).code, 0);
    }
    let page = browser.page();
    house.enter(&page);
    page.go(&house.at("/tasks/t/steps/s"));
    until_shown(&page, "step");
    page.until_text("section[aria-label=Output]", "secrets were removed");
    assert!(!page.text("body").contains(&secret));
    page.go(&house.at("/tasks/t/steps/long"));
    until_shown(&page, "step");
    page.until_text(
        "section[aria-label=Output]",
        "beginning and end of 3,000,000 bytes",
    );
    page.until_text("section[aria-label=Output] pre", "bytes left out");
}

#[test]
fn an_agent_shows_its_attempts_its_log_and_its_configuration() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let house = House::with(
        "echo \"begin of life $RELIGHT_ATTEMPT_NUMBER\"; echo needle-$RELIGHT_ATTEMPT_NUMBER; exec sleep 1000",
        &agent("writer"),
    );
    let ground = &house.ground;
    signal(ground.until_runs("writer", 1), Signal::KILL);
    ground.until_runs("writer", 2);
    let page = browser.page();
    house.enter(&page);
    page.go(&house.at("/agents/writer"));
    until_shown(&page, "agent");
    page.until_text(".log", "needle-2");
    page.until_text(".log", "needle-1");
    page.until("document.querySelectorAll('.log-card option').length === 3");
    page.run("const box = document.querySelector('.log-card select'); box.value = '1'; box.dispatchEvent(new Event('change'));");
    page.until("document.querySelector('.log').textContent.includes('needle-1') && !document.querySelector('.log').textContent.includes('needle-2')");
    page.run("const box = document.querySelector('.log-card input[type=search]'); box.value = 'NEEDLE'; box.dispatchEvent(new Event('input'));");
    page.until("document.querySelector('.log').textContent === 'needle-1'");
    page.until_text(".config", "cooldown");
    page.until_text(".config", "50ms");
    page.until_text(".deaths", "SIGKILL");
    page.until("document.querySelector('.bars .use')");
    page.until_text("main", "It has had no task yet");
}

#[test]
fn everything_is_found_by_a_search() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let house = house_with_a_crash();
    let begin = ["session", "begin", "chat/chapter", "--id", "s-1"];
    assert_eq!(house.ground.call(&begin).code, 0);
    let page = browser.page();
    house.enter(&page);
    for (text, kind, label, path) in [
        ("writ", "Agents", "writer", "/agents/writer"),
        ("chapter-3", "Tasks", "chapter-3", "/tasks/chapter-3"),
        (
            "publi",
            "Steps",
            "publish",
            "/tasks/chapter-3/steps/publish",
        ),
        (
            "chat",
            "Sessions",
            "chat/chapter",
            "/sessions/chat%2Fchapter",
        ),
        ("go to tim", "Commands", "Go to Timeline", "/timeline"),
    ] {
        page.press("/");
        page.until("document.getElementById('find').open");
        page.press(text);
        let (kind, label) = (json!(kind), json!(label));
        page.until(&format!(
            "document.querySelector('.found-kind')?.textContent === {kind} && document.querySelector('#find [aria-selected=true]')?.textContent.includes({label})"
        ));
        page.press("\u{e007}");
        page.until(&format!("location.pathname === {}", json!(path)));
    }
    for (text, label) in [("stop", "Stop writer"), ("restart wri", "Restart writer")] {
        page.press("/");
        page.until("document.getElementById('find').open");
        page.press(text);
        page.until_text("#find [aria-selected=true]", label);
        if text == "stop" {
            page.run("document.getElementById('find').close()");
        }
    }
    axe::check(&page, "search");
    page.press("\u{e007}");
    page.until("document.getElementById('ask').open");
    page.until_text("#ask", "relight restart writer");
    page.press("\u{e00c}");
}
