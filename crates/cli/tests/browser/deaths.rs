//! What is shown of deaths: the latest crashes, their numbers, and what comes after them.

use relight_core::agent::Cause;
use serde_json::json;

use crate::browser::Browser;
use crate::ground::Ground;
use crate::house::{House, agent, until_shown};
use crate::store;

/// Of a pool: more than the page asks for at first.
const CLEAN_ENDS: usize = 60;
/// In minutes alive, milliseconds away, and the cause of the death.
const CRASHER: [(u64, u64, Cause); 4] = [
    (10, 500, Cause::Signal),
    (10, 500, Cause::Failed),
    (10, 500, Cause::Hung),
    (100, 0, Cause::Completed),
];

fn house_of(name: &str, lives: &[(u64, u64, Cause)]) -> House {
    let ground = Ground::new();
    let past = store::open(&ground);
    store::run(async {
        store::had(&*past, name, lives).await;
        store::had(&*past, "pool", &[(1, 0, Cause::Completed); CLEAN_ENDS]).await;
    });
    drop(past);
    House::on(ground, "")
}

#[test]
fn crashes_are_not_hidden_by_the_clean_ends_of_a_pool() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let house = house_of("crasher", &CRASHER);
    let page = browser.page();
    house.enter(&page);
    page.until("document.querySelector('.recent li:not(.skeleton)')");
    let told = page.see("[...document.querySelectorAll('.recent li')].map((one) => `${one.querySelector('a').textContent} ${one.querySelector('.chip').textContent} ${one.querySelector('.back').textContent}`)");
    assert_eq!(
        told,
        json!([
            "crasher hung back in 500 ms",
            "crasher failed back in 500 ms",
            "crasher signal back in 500 ms"
        ])
    );
    // All causes are named, and the scale of the bars is that of the crashes.
    let tile = page.see("[...document.querySelectorAll('.tile')].find((one) => one.textContent.includes('Died')).querySelector('dd small').textContent");
    assert_eq!(tile, "1 failed, 1 signal, 1 hung; 3 back");
    assert_eq!(page.text(".area-charts svg text"), "3");
}

/// Notes the colour of each dashed line on a canvas.
const DASHED: &str = r"
    window.dashed = [];
    const stroke = CanvasRenderingContext2D.prototype.stroke;
    CanvasRenderingContext2D.prototype.stroke = function (...path) {
      if (this.getLineDash().length) window.dashed.push(this.strokeStyle);
      return stroke.apply(this, path);
    };
";
/// A colour of the theme as a canvas says it.
const WARN: &str = "(() => { const probe = document.createElement('span'); probe.style.color = 'var(--warn)'; document.body.append(probe); const pen = document.createElement('canvas').getContext('2d'); pen.fillStyle = getComputedStyle(probe).color; probe.remove(); return pen.fillStyle; })()";

#[test]
fn an_agent_that_is_deferred_has_a_dashed_line() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let house = house_of("nightly", &[(30, 3_600_000, Cause::Deferred)]);
    let page = browser.page();
    page.before_each_document(DASHED);
    house.enter(&page);
    page.go(&house.at("/agents/nightly"));
    until_shown(&page, "agent");
    page.until_text(".deaths", "deferred");
    page.until(&format!("window.dashed.includes({WARN})"));
}

#[test]
fn an_agent_that_waits_for_a_task_after_its_crash_is_not_missed() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let pool = agent("reader") + "takes = \"start\"\n";
    let house = House::with("kill -9 $$", &pool);
    let add = ["task", "add", "page-1", "--max-retries", "0"];
    assert_eq!(house.ground.call(&add).code, 0);
    house.ground.until_agent("reader", |agent| {
        agent["idle"] == true && agent["attempt"] == 1
    });
    let page = browser.page();
    page.before_each_document(DASHED);
    house.enter(&page);
    page.until_text(".recent .back.soft", "idle");
    page.go(&house.at("/timeline"));
    until_shown(&page, "timeline");
    page.click(".as-table summary");
    page.until_text(".as-table tbody", ", idle");
    assert_eq!(page.see("window.dashed"), json!([]));
}

#[test]
fn times_of_the_day_have_24_hours() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let house = house_of("crasher", &CRASHER);
    let page = browser.page();
    house.enter(&page);
    page.go(&house.at("/agents/crasher"));
    until_shown(&page, "agent");
    page.until("document.querySelectorAll('.deaths summary').length === 4");
    page.click(".deaths summary");
    page.click(".as-table summary");
    page.until(
        "document.querySelector('.post-mortem') && document.querySelector('.as-table tbody tr')",
    );
    let of_twelve = page.see("[...document.querySelectorAll('main *')].filter((one) => /[0-9] ?[AP]M/.test(one.title + one.textContent)).length");
    assert_eq!(of_twelve, 0);
}
