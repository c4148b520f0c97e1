//! Text of agents and users that would like to be more than text.

use rustix::process::Signal;
use serde_json::json;

use crate::browser::Browser;
use crate::ground::{Ground, signal};
use crate::house::{House, until_shown};
use crate::page::Page;
use crate::store;

/// Each calls `alert` where it is taken for anything but text.
const CORPUS: [&str; 16] = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    "<svg/onload=alert(3)><animate onbegin=alert(3) attributeName=x dur=1s>",
    "\"><iframe srcdoc='<script>parent.alert(4)</script>'></iframe>",
    "' autofocus onfocus=alert(5) tabindex=1 x='",
    "javascript:alert(6)//",
    "</td></tr></table></script></style></textarea></title><body onload=alert(7)>",
    "${alert(8)} {{constructor.constructor('alert(8)')()}} #{alert(8)} <%= alert(8) %>",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=alert(9)>",
    "<a href=\"javascript:alert(10)\">click</a> [x](javascript:alert(10))",
    "__proto__ constructor toString hasOwnProperty",
    "&lt;img src=x onerror=alert(11)&gt; &#60;script&#62; %3Cscript%3E \\u003cscript\\u003e",
    "data:text/html,<script>alert(12)</script>",
    "<template shadowrootmode=open><script>alert(13)</script></template><!-- --!><base href=//x>",
    "<style>@import 'http://127.0.0.1:9/x';*{background:url(http://127.0.0.1:9/y)}</style>",
    "<form action=//127.0.0.1:9><button formaction=javascript:alert(14)>ok</button><input type=image src=x>",
];

/// What terminals and writing directions obey; only fields that take any character get it.
const OBEYED: &str = "\u{1b}[31mred\u{1b}[0m \u{1b}]8;;javascript:alert(20)\u{7}link\u{1b}]8;;\u{7} \
    \u{1b}]0;title\u{7} \u{202e}gnp.exe\u{202c} \u{2066}x\u{2069} \u{200b}\u{feff} a\u{8}b\u{9b}2J \u{85}end";

/// Whatever came as text, no element came of it.
const NO_ELEMENT: &str = "document.querySelectorAll('main :is(script, iframe, object, embed, style, base, form, \
    template, math, textarea, img, input[type=image], [onload], [onerror], [onfocus], [onbegin], [style]:not(canvas, .tip, .spacer td), \
    a[href*=\"script:\"], a[href^=data])').length";

/// Characters that a browser or a person would be misled by.
const OBEYED_SHOWN: &str = r"/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/.test(document.body.textContent)";

fn all_texts() -> Vec<String> {
    let long = format!("{}<script>alert(30)</script>", "x".repeat(10_000));
    let plain = CORPUS.iter().map(|text| (*text).to_owned());
    plain.chain([OBEYED.to_owned(), long]).collect()
}

/// An agent whose command, output and past are hostile.
fn hostile_house() -> House {
    let ground = Ground::with_agent("cat corpus; exec sleep 1000");
    std::fs::write(ground.work("corpus"), all_texts().join("\n") + "\0\n").unwrap();
    let past = store::open(&ground);
    store::run(store::lived(&*past, "lost-one", 2, &all_texts().join(" ")));
    drop(past);
    let words: Vec<String> = CORPUS.iter().map(|text| format!("'''{text}'''")).collect();
    let words: Vec<String> = words
        .into_iter()
        .filter(|word| word.matches('\'').count() == 6)
        .collect();
    let command = format!("command = [\"./agent\", {}]", words.join(", "));
    House::on(
        ground,
        &format!("[[agent]]\nname = \"writer\"\n{command}\ncooldown = \"50ms\"\n"),
    )
}

/// Puts every text into every field that takes one; at least one field takes each.
fn fill(house: &House) {
    let token = house
        .ground
        .call(&["token", "show"])
        .stdout
        .trim()
        .to_owned();
    let post = |path: &str, body| house.post_with(&token, path, &body).0;
    assert_eq!(post("/api/agents", json!({"name": "speaker"})), 201);
    for (number, text) in all_texts().iter().enumerate() {
        let id = format!("t{number}");
        let step = text
            .chars()
            .filter(|c| !c.is_control())
            .take(60)
            .collect::<String>();
        let task = json!({"id": id, "title": text, "steps": [step], "payload": {"text": text},
            "set": {"note": text, "branch": text}});
        post("/api/tasks", task);
        post("/api/tasks", json!({"id": id}));
        let (_, begun) = house.post_with(
            &token,
            &format!("/api/tasks/{id}/start"),
            &json!({"agent": "speaker"}),
        );
        let once = json!({"fence": begun["fence"], "rule": "once"});
        let name: String = step.bytes().map(|byte| format!("%{byte:02X}")).collect();
        post(&format!("/api/tasks/{id}/steps/{name}/begin"), once);
        let why = json!({"fence": begun["fence"], "reason": text});
        assert_eq!(
            post(&format!("/api/tasks/{id}/block"), why),
            200,
            "{text:?}"
        );
        let key = format!("chat-{number}");
        let turn = json!({"id": "s", "set": {"text": text}});
        assert_eq!(post(&format!("/api/sessions/{key}/begin"), turn), 200);
        post(
            &format!("/api/sessions/{key}/suspend"),
            json!({"reason": text}),
        );
        for name in ["speaker", "writer"] {
            post(
                &format!("/api/agents/{name}/heartbeat"),
                json!({"status": text}),
            );
        }
    }
    post(
        "/api/agents/speaker/heartbeat",
        json!({"status": CORPUS[1]}),
    );
    post("/api/agents/writer/heartbeat", json!({"status": CORPUS[2]}));
}

fn assert_only_text(page: &Page<'_>, place: &str) {
    page.assert_nothing_ran(place);
    assert_eq!(page.see(NO_ELEMENT), 0, "{place}");
    assert_eq!(page.see(OBEYED_SHOWN), false, "{place}");
}

fn open_by_text(page: &Page<'_>, text: &str) {
    let text = json!(text);
    page.see(&format!(
        "[...document.querySelectorAll('main a')].find((a) => a.textContent === {text}).click()"
    ));
}

#[test]
fn text_of_agents_is_shown_and_never_obeyed() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let house = hostile_house();
    fill(&house);
    let writer = house.ground.until_runs("writer", 1);
    let page = browser.page();
    house.enter(&page);

    page.until_text(".area-agents", CORPUS[1]);
    page.until("document.querySelector('.area-needs .more').checkVisibility()");
    page.click(".area-needs .more");
    for text in CORPUS {
        page.until_text(".needs", text);
    }
    assert_only_text(&page, "overview");

    for (key, view, shown) in [
        ("2", "timeline", "lost-one"),
        ("3", "tasks", CORPUS[2]),
        ("4", "sessions", CORPUS[3]),
        ("5", "events", CORPUS[12]),
    ] {
        page.press(key);
        until_shown(&page, view);
        page.until_text("main", shown);
        assert_only_text(&page, view);
    }

    for (number, text) in all_texts().iter().enumerate() {
        page.press("3");
        until_shown(&page, "tasks");
        open_by_text(&page, &format!("t{number}"));
        until_shown(&page, "task");
        let start: String = text
            .chars()
            .take_while(|c| !c.is_control())
            .take(40)
            .collect();
        page.until_text("main", &start);
        assert_only_text(&page, text);
    }

    signal(writer, Signal::KILL);
    house.ground.until_runs("writer", 2);
    for (name, shown) in [
        ("writer", CORPUS[0]),
        ("lost-one", CORPUS[15]),
        ("speaker", CORPUS[1]),
    ] {
        page.press("1");
        until_shown(&page, "overview");
        open_by_text(&page, name);
        until_shown(&page, "agent");
        page.see("document.querySelector('.deaths summary')?.click()");
        page.until_text("main", shown);
        assert_only_text(&page, name);
    }

    assert_eq!(page.complaints(), Vec::<String>::new());
    // The witness would have seen it: the same text as markup is noticed.
    page.see("void (document.querySelector('main').innerHTML = '<img src=x onerror=alert(99)>')");
    page.until("window.refused.length > 0");
}
