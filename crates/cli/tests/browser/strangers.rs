//! Pages from elsewhere, in a browser that is logged in.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};

use serde_json::json;

use crate::browser::Browser;
use crate::driver::BENT_NAME;
use crate::house::House;

/// Tries all that a page can try against another origin; `tried` tells what came of each.
const ATTACK: &str = r#"<!doctype html><meta charset="utf-8"><title>a stranger</title><body><script>
const there = new URL(location.href).searchParams.get("at");
const restart = `${there}/api/agents/writer/restart`;
window.tried = {};
const note = (name) => (what) => { window.tried[name] ??= String(what); };
const within = (name, promise) => promise.then((answer) => note(name)(answer.type === "opaque" ? "opaque" : answer.status), () => note(name)("refused"));
within("read", fetch(`${there}/api/agents`, { credentials: "include" }));
within("read without cors", fetch(`${there}/api/agents`, { credentials: "include", mode: "no-cors" }));
within("simple write", fetch(restart, { method: "POST", credentials: "include", mode: "no-cors", body: "{}" }));
within("json write", fetch(restart, { method: "POST", credentials: "include", headers: { "Content-Type": "application/json", "X-Relight-Csrf": "x" }, body: "{}" }));
within("beacon", Promise.resolve({ status: navigator.sendBeacon(restart, "{}") }));
function element(tag, name, props) {
  const node = document.createElement(tag);
  node.onload = () => note(name)("loaded");
  node.onerror = () => note(name)("refused");
  Object.assign(node, props);
  document.body.append(node);
  return node;
}
element("img", "image", { src: `${there}/api/agents` });
element("img", "icon", { src: `${there}/assets/icon.svg` });
element("script", "script", { src: `${there}/assets/js/theme.js` });
element("link", "style", { rel: "stylesheet", href: `${there}/assets/theme.css` });
element("iframe", "frame", { src: `${there}/`, name: "frame" });
const target = element("iframe", "form", { name: "target" });
const form = Object.assign(document.createElement("form"), { action: restart, method: "post", enctype: "text/plain", target: "target" });
form.append(Object.assign(document.createElement("input"), { name: "{\"a\":\"", value: "\"}" }));
document.body.append(form);
form.submit();
const stream = new EventSource(`${there}/api/events?after=0`, { withCredentials: true });
stream.onopen = () => note("stream")("opened");
stream.onerror = () => { note("stream")("refused"); stream.close(); };
const socket = new WebSocket(`${there.replace("http", "ws")}/api/events`);
socket.onopen = () => note("socket")("opened");
socket.onerror = () => note("socket")("refused");
</script>"#;

/// Serves the stranger's page until the test is over; answers where.
fn stranger() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.read(&mut [0; 4096]);
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{ATTACK}",
                ATTACK.len()
            );
        }
    });
    address
}

#[test]
fn a_page_from_elsewhere_gets_nothing_and_changes_nothing() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let house = House::with_writer();
    house.ground.until_runs("writer", 1);
    let page = browser.page();
    house.enter(&page);
    // What the dashboard itself still asks for is none of the answers below.
    page.go("about:blank");

    // Another port of the same host: the browser sends the cookie, strict as it is.
    for host in ["127.0.0.1", "localhost", BENT_NAME] {
        let port = stranger().port();
        page.answers("");
        page.go(&format!(
            "http://{host}:{port}/?at={}",
            house.url().trim_end_matches('/')
        ));
        page.until("Object.keys(window.tried ?? {}).length >= 13");
        let tried = page.see("window.tried");
        for (name, what) in tried.as_object().unwrap() {
            let is_nothing = match name.as_str() {
                // It is not said what came of these; what they changed is looked at below.
                "beacon" | "form" | "frame" => true,
                "read without cors" | "simple write" => what == "opaque" || what == "refused",
                _ => what == "refused",
            };
            assert!(is_nothing, "{host}: {name} is {what}");
        }
        let inside = "(() => { try { return frames.frame.document.body.textContent; } catch { return 'refused'; } })()";
        assert_eq!(page.see(inside), "refused", "{host}");
        page.go("about:blank");
        let answers = page.answers(&house.address);
        // What the page left before it was answered is not among them.
        assert!(answers.len() >= 5, "{answers:?}");
        let others: Vec<_> = answers
            .iter()
            .filter(|(_, status)| *status != 403)
            .collect();
        assert!(others.is_empty(), "{host}: {others:?}");
    }
    assert_eq!(house.ground.births(1).len(), 1, "no attempt was added");
    assert_eq!(house.ground.agent("writer")["attempt"], 1);
    let audit = house.ground.events("audit");
    assert!(!audit.is_empty(), "refusals are noted");

    page.go(&house.url());
    page.until("document.querySelector('tr[data-agent=writer]')");
}

#[test]
fn a_name_that_was_bent_to_this_machine_is_refused() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let house = House::with_writer();
    let page = browser.page();
    house.enter(&page);
    let port = house.address.split(':').next_back().unwrap();
    for path in [
        "",
        "api/agents",
        "api/health",
        "assets/js/main.js",
        "login/x",
    ] {
        page.go(&format!("http://{BENT_NAME}:{port}/{path}"));
        page.until_text("body", "this host is not served here");
        assert!(!page.text("body").contains("writer"), "{path}");
    }
    let same_origin = "fetch('/api/agents').then((answer) => answer.status)";
    assert_eq!(page.see(same_origin), json!(403));
    let restart = "fetch('/api/agents/writer/restart', { method: 'POST', headers: { 'Content-Type': 'application/json' }, \
        body: '{}' }).then((answer) => answer.status)";
    assert_eq!(page.see(restart), json!(403));
    assert_eq!(house.ground.agent("writer")["attempt"], 1);
}
