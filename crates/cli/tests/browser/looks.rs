//! How it looks: on a phone and at a desk, in light and dark, empty and full. Leaves pictures.

use relight_core::agent::Cause;
use rustix::process::Signal;
use serde_json::json;

use crate::axe;
use crate::browser::Browser;
use crate::ground::{Ground, signal};
use crate::house::{House, until_shown};
use crate::page::{Page, pictures};
use crate::store;

const VIEWS: [(&str, &str); 5] = [
    ("1", "overview"),
    ("2", "timeline"),
    ("3", "tasks"),
    ("4", "sessions"),
    ("5", "events"),
];

/// Pages that are not in the bar.
const PLACES: [(&str, &str); 6] = [
    ("/agents", "agents"),
    ("/tasks/chapter-3/steps/sources", "step"),
    ("/sessions/chat%2Fana", "session"),
    ("/events/1", "event"),
    ("/nodes", "nodes"),
    ("/", "overview"),
];

/// More than this can be seen to jump.
const JUMP_MAX: f64 = 0.02;

/// Texts whose contrast with what is behind them is too small to be read by everybody.
const FAINT: &str = r"(() => {
  const numbers = (text) => text.startsWith('color(') ? text.match(/[\d.]+/g).map((n, i) => (i < 3 ? n * 255 : Number(n))) : text.match(/[\d.]+/g).map(Number);
  const over = (top, bottom) => { const a = top[3] ?? 1; return [0, 1, 2].map((i) => top[i] * a + bottom[i] * (1 - a)); };
  const light = (c) => { const [r, g, b] = c.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (node) => { const layers = []; for (let at = node; at; at = at.parentElement) { const c = numbers(getComputedStyle(at).backgroundColor); layers.push(c); if ((c[3] ?? 1) === 1) break; } return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]); };
  const opacity = (node) => { let all = 1; for (let at = node; at; at = at.parentElement) all *= Number(getComputedStyle(at).opacity); return all; };
  const faint = [];
  for (const node of document.querySelectorAll('body *')) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    if (!own || !node.checkVisibility({ checkVisibilityCSS: true }) || node.closest('svg, .unseen, .skip, option, .loading, button:disabled')) continue;
    const style = getComputedStyle(node);
    const back = behind(node);
    const ink = numbers(style.webkitTextFillColor || style.color);
    const front = over([ink[0], ink[1], ink[2], (ink[3] ?? 1) * opacity(node)], back);
    const [high, low] = [light(front), light(back)].sort((a, b) => b - a);
    const ratio = (high + 0.05) / (low + 0.05);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.5 && style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) faint.push(`${ratio.toFixed(2)} ${node.className} ${node.textContent.slice(0, 30)}`);
  }
  return faint;
})()";

/// Buttons that a thumb cannot reach: outside of the screen's width, too small, or under something.
const UNREACHABLE: &str = r"[...document.querySelectorAll('main button, #nav a, .top button')].filter((node) => {
  if (!node.checkVisibility({ checkVisibilityCSS: true }) || node.disabled) return false;
  node.scrollIntoView({ block: 'center', inline: 'center' });
  const box = node.getBoundingClientRect();
  const top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
  return box.left < 0 || box.right > innerWidth || box.height < 20 || box.width < 20 || !(node.contains(top) || top?.contains(node));
}).map((node) => `${node.outerHTML.slice(0, 120)}`)";

/// Rows whose content is higher than they are.
const CUT: &str = "[...document.querySelectorAll('tr[data-task]')].filter((row) => row.scrollHeight > row.clientHeight).map((row) => row.dataset.task)";

/// Yesterday and today, in minutes alive, milliseconds away, and the cause of the death.
const WRITER: [(u64, u64, Cause); 6] = [
    (300, 70, Cause::Signal),
    (150, 90, Cause::Oom),
    (45, 60_000, Cause::Oom),
    (380, 120, Cause::Failed),
    (210, 65, Cause::Signal),
    (95, 900, Cause::Hung),
];
const RESEARCHER: [(u64, u64, Cause); 3] = [
    (700, 80, Cause::Timeout),
    (310, 75, Cause::Lost),
    (160, 60, Cause::Failed),
];
const DEPLOYER: [(u64, u64, Cause); 2] = [
    (40, 45 * 60_000, Cause::Completed),
    (20, 3 * 3_600_000, Cause::Completed),
];

/// A workshop in the middle of its day: agents that work, died, came back, gave up, wait.
fn lively() -> House {
    let ground = Ground::new();
    ground.script(
        "researcher",
        "relight task start chapter-3 --title 'Write chapter 3' --step outline --step sources --step draft --step review >/dev/null\n\
         for step in outline sources; do relight step run $step --task chapter-3 -- echo $step is done; done\n\
         relight step begin draft --task chapter-3 >/dev/null\n\
         for n in $(seq 40); do echo \"read source $n, kept $((n % 7)) quotes\"; done\n\
         echo ready >>ready\n\
         exec sleep 1000",
    );
    ground.script(
        "writer",
        "echo 'thinking about the first sentence'; exec sleep 1000",
    );
    ground.script(
        "indexer",
        "echo 'index is locked by another process' >&2; exit 3",
    );
    ground.script("nightly", "echo 'rate limit, later'; exit 75");
    ground.script("deployer", "exec sleep 1000");
    let past = store::open(&ground);
    store::run(async {
        store::had(&*past, "writer", &WRITER).await;
        store::had(&*past, "researcher", &RESEARCHER).await;
        store::had(&*past, "deployer", &DEPLOYER).await;
    });
    drop(past);
    let agent = |name: &str, more: &str| {
        format!(
            "[[agent]]\nname = \"{name}\"\ncommand = [\"./{name}\"]\ncooldown = \"50ms\"\n{more}\n"
        )
    };
    let house = House::on(
        ground,
        &[
            agent("researcher", ""),
            agent("writer", ""),
            agent("indexer", "max_attempts = 2"),
            agent("nightly", "defer = \"2h\""),
            agent("deployer", ""),
        ]
        .concat(),
    );
    let ground = &house.ground;
    let first = u32::try_from(WRITER.len()).unwrap() + 1;
    signal(ground.until_runs("writer", first), Signal::KILL);
    ground.until_runs("writer", first + 1);
    ground.until_state("indexer", "terminated");
    ground.until_state("nightly", "suspended");
    assert_eq!(ground.call(&["stop", "deployer"]).code, 0);
    work(&house);
    ground.until_lines("ready", 1);
    house
}

/// Tasks and sessions in all kinds of states.
fn work(house: &House) {
    let token = house
        .ground
        .call(&["token", "show"])
        .stdout
        .trim()
        .to_owned();
    let post = |path: &str, body| {
        let (status, answer) = house.post_with(&token, path, &body);
        assert!((200..300).contains(&status), "{path}: {answer}");
        answer
    };
    post(
        "/api/agents",
        json!({"name": "mail-gateway", "skills": ["mail"]}),
    );
    post(
        "/api/agents/mail-gateway/heartbeat",
        json!({"status": "waits for new mail"}),
    );
    post(
        "/api/agents/writer/heartbeat",
        json!({"status": "thinks about the first sentence"}),
    );
    let pay = json!({"title": "Pay invoice 4711", "steps": ["check", "pay", "file"], "agent": "mail-gateway"});
    let fence = post("/api/tasks/pay-8/start", pay)["fence"].clone();
    post(
        "/api/tasks/pay-8/steps/check/begin",
        json!({"fence": fence}),
    );
    post("/api/tasks/pay-8/steps/check/end", json!({"fence": fence}));
    for _ in 0..2 {
        post(
            "/api/tasks/pay-8/steps/pay/begin",
            json!({"fence": fence, "rule": "once"}),
        );
    }
    let fence = post(
        "/api/tasks/release-2.1/start",
        json!({"title": "Release 2.1", "steps": ["build", "sign"]}),
    )["fence"]
        .clone();
    post(
        "/api/tasks/release-2.1/block",
        json!({"fence": fence, "reason": "needs the signing key"}),
    );
    for (id, title) in [
        ("report-17", "Weekly report"),
        ("report-18", "Weekly report"),
        ("translate-de", "Translate to German"),
    ] {
        post(
            "/api/tasks",
            json!({"id": id, "title": title, "steps": ["fetch", "write", "send"]}),
        );
    }
    for (key, id) in [
        ("chat/ana", "s-1"),
        ("chat/ben", "s-2"),
        ("chat/cleo", "s-3"),
    ] {
        post(
            &format!("/api/sessions/{}/begin", key.replace('/', "%2F")),
            json!({"id": id}),
        );
    }
    post(
        "/api/sessions/chat%2Fben/suspend",
        json!({"reason": "cut off three times in a row"}),
    );
    post("/api/sessions/chat%2Fcleo/end", json!({"generation": 1}));
}

fn show(page: &Page<'_>, key: &str, view: &str) {
    page.press(key);
    until_shown(page, view);
    page.see("scrollTo(0, 0)");
}

fn open(page: &Page<'_>, view: &str, name: &str) {
    let name = json!(name);
    page.see(&format!(
        "[...document.querySelectorAll('main a')].find((a) => a.textContent === {name}).click()"
    ));
    until_shown(page, view);
}

#[test]
fn all_pages_in_light_dark_and_on_a_phone() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let house = lively();
    let page = browser.page();
    house.enter(&page);
    for (screen, dark) in [
        ("light", false),
        ("dark", true),
        ("phone", false),
        ("phone-dark", true),
    ] {
        let is_phone = screen.starts_with("phone");
        if is_phone {
            page.phone(dark);
        } else {
            page.wide(dark);
        }
        for (key, view) in VIEWS {
            show(&page, key, view);
            check(&page, &format!("{view} {screen}"), is_phone);
            page.picture(&format!("{view}-{screen}"));
        }
        show(&page, "1", "overview");
        open(&page, "agent", "writer");
        page.until_text(".deaths", "SIGKILL");
        page.click(".deaths summary");
        page.until_text(".post-mortem", "Last output");
        check(&page, &format!("agent {screen}"), is_phone);
        // Of the test's own making, and another one each time.
        page.see("[...document.querySelectorAll('.config dt')].find((name) => name.textContent === 'folder').parentElement.remove()");
        page.picture(&format!("agent-{screen}"));
        show(&page, "3", "tasks");
        open(&page, "task", "pay-8");
        page.until_text("main", "Resolve");
        check(&page, &format!("task {screen}"), is_phone);
        page.picture(&format!("task-{screen}"));
        for (path, view) in PLACES {
            page.go(&house.at(path));
            until_shown(&page, view);
            check(&page, &format!("{view} {screen}"), is_phone);
            page.picture(&format!("{view}-{screen}"));
        }
    }
    page.wide(true);
    show(&page, "1", "overview");
    page.click("tr[data-agent=writer] .verb-restart");
    page.until("document.getElementById('ask').open");
    assert_eq!(page.see(FAINT), json!([]), "the question");
    page.picture("question-dark");
    assert_eq!(page.complaints(), Vec::<String>::new());
    println!("pictures are in {}", pictures().display());
}

/// What is shown can be read and reached by everybody.
pub(crate) fn check(page: &Page<'_>, place: &str, is_phone: bool) {
    axe::check(page, place);
    assert_eq!(page.see(FAINT), json!([]), "{place}");
    let width = page.see("document.documentElement.scrollWidth - innerWidth");
    assert!(
        width.as_i64().unwrap() <= 0,
        "{place} scrolls sideways by {width}"
    );
    if is_phone {
        assert_eq!(page.see(UNREACHABLE), json!([]), "{place}");
        assert_eq!(page.see(CUT), json!([]), "{place}");
        page.see("document.querySelectorAll('.tabs').forEach((tabs) => { tabs.scrollLeft = 0; })");
        page.see("scrollTo(0, 0)");
    }
}

#[test]
fn an_empty_place_tells_what_to_type() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let house = House::empty();
    let page = browser.page();
    house.enter(&page);
    for (key, view, command) in [
        ("1", "overview", "relight run "),
        ("2", "timeline", "relight run "),
        ("3", "tasks", "relight task add "),
        ("4", "sessions", "relight session begin "),
    ] {
        show(&page, key, view);
        page.until(&format!(
            "[...document.querySelectorAll('main .empty code')].some((code) => code.textContent.startsWith({}) && code.checkVisibility())",
            json!(command)
        ));
        page.picture(&format!("{view}-empty"));
    }
    page.until_text("main", "No sessions yet");
    show(&page, "1", "overview");
    page.until_text("main", "Nothing needs you");
    page.until_text("main", "all is well");
}

/// Notes every number and every empty state that was on the screen, however short.
const FLASHES: &str = r"
    window.flashed = new Set();
    new MutationObserver(() => {
      const running = document.querySelectorAll('.tile')[1]?.querySelector('b:not(.loading)');
      if (running) window.flashed.add(`running ${running.textContent}`);
      for (const node of document.querySelectorAll('main .empty')) if (node.checkVisibility()) window.flashed.add(node.firstChild.textContent);
    }).observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
";

#[test]
fn nothing_jumps_and_nothing_wrong_flashes_by() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let house = lively();
    let page = browser.page();
    page.before_each_document(FLASHES);
    for is_phone in [false, true] {
        if is_phone {
            page.phone(false);
        } else {
            page.wide(false);
        }
        house.enter(&page);
        page.until("document.querySelector('.recent .is-back')");
        page.until("document.querySelector('.charts svg')");
        let flashed = page.see("[...window.flashed].sort()");
        // The writer, the researcher, and the mail gateway, which reports by itself.
        assert_eq!(flashed, json!(["running 3"]), "phone: {is_phone}");
        for (key, view) in VIEWS {
            show(&page, key, view);
        }
        let jumped = page.see("window.jumped").as_f64().unwrap();
        assert!(
            jumped <= JUMP_MAX,
            "phone: {is_phone}, it jumped by {jumped}"
        );
    }
}

#[test]
fn the_bar_fits_into_every_width() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let house = House::with_writer();
    let page = browser.page();
    house.enter(&page);
    for width in [360, 390, 721, 768, 901, 1001, 1100] {
        page.screen(width, 900, width < 500, false);
        let outside = page.see("Math.max(document.documentElement.scrollWidth, document.getElementById('help').getBoundingClientRect().right) - innerWidth");
        assert!(outside.as_f64().unwrap() <= 0.0, "{width}: by {outside}");
    }
}
