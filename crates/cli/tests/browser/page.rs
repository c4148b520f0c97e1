//! One page of the browser: what a person does with it, and what can be seen of it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::MutexGuard;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::driver::Driver;
use crate::ground::until;

/// Notes in every document, before its first script: whatever ran that should not, whatever the policy
/// refused, and by how much the layout jumped.
const WITNESS: &str = r"
    window.ran = [];
    window.refused = [];
    window.jumped = 0;
    for (const name of ['alert', 'confirm', 'prompt']) window[name] = (text) => { window.ran.push(String(text)); };
    addEventListener('securitypolicyviolation', (event) => window.refused.push(`${event.effectiveDirective} ${event.blockedURI}`));
    new PerformanceObserver((list) => {
      for (const shift of list.getEntries()) if (!shift.hadRecentInput) window.jumped += shift.value;
    }).observe({ type: 'layout-shift', buffered: true });
";

/// A page of its own for one test.
pub(crate) struct Page<'a> {
    driver: &'a Driver,
    first: String,
    _turn: MutexGuard<'a, ()>,
}

impl<'a> Page<'a> {
    pub(crate) fn open(driver: &'a Driver, turn: MutexGuard<'a, ()>) -> Self {
        let first = driver.get("/window").as_str().unwrap().to_owned();
        let made = driver.post("/window/new", &json!({"type": "tab"}));
        driver.post("/window", &json!({"handle": made["handle"]}));
        driver.devtools("Network.clearBrowserCookies", &json!({}));
        let page = Self {
            driver,
            first,
            _turn: turn,
        };
        page.before_each_document(WITNESS);
        page.complaints();
        page.wide(false);
        page
    }

    // What a person does

    pub(crate) fn go(&self, url: &str) {
        self.driver.post("/url", &json!({"url": url}));
    }

    /// Clicks it as a person would: not below the frame of the page, which stays in its place.
    pub(crate) fn click(&self, selector: &str) {
        let found = self.find(selector);
        self.run(&format!(
            "document.querySelector({})?.scrollIntoView({{block: 'nearest', behavior: 'instant'}})",
            json!(selector)
        ));
        self.driver
            .post(&format!("/element/{found}/click"), &json!({}));
    }

    /// Keys, as they come from the keyboard to whatever has the focus.
    pub(crate) fn press(&self, keys: &str) {
        let strokes = keys.chars().flat_map(|key| {
            ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key.to_string()}))
        });
        let strokes: Vec<Value> = strokes.collect();
        let actions = json!({"actions": [{"type": "key", "id": "keyboard", "actions": strokes}]});
        self.driver.post("/actions", &actions);
    }

    /// A desk's screen.
    pub(crate) fn wide(&self, dark: bool) {
        self.screen(1280, 900, false, dark);
    }

    /// A small phone.
    pub(crate) fn phone(&self, dark: bool) {
        self.screen(360, 740, true, dark);
    }

    pub(crate) fn screen(&self, width: u32, height: u32, is_phone: bool, dark: bool) {
        let screen =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_phone});
        self.driver
            .devtools("Emulation.setDeviceMetricsOverride", &screen);
        let colours = if dark { "dark" } else { "light" };
        let features = json!({"features": [
            {"name": "prefers-color-scheme", "value": colours},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]});
        self.driver
            .devtools("Emulation.setEmulatedMedia", &features);
    }

    /// Runs a script of the test in each document, before its own.
    pub(crate) fn before_each_document(&self, script: &str) {
        self.driver.devtools(
            "Page.addScriptToEvaluateOnNewDocument",
            &json!({"source": script}),
        );
    }

    // What can be seen

    /// The value of an expression.
    pub(crate) fn see(&self, expression: &str) -> Value {
        self.run(&format!("return {expression};"))
    }

    /// Runs a script; what it returns, once it is there.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.driver
            .post("/execute/sync", &json!({"script": script, "args": []}))
    }

    pub(crate) fn text(&self, selector: &str) -> String {
        let words = self.see(&format!(
            "document.querySelector({})?.textContent ?? ''",
            json!(selector)
        ));
        words.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until an expression is true; a page that just changes says no.
    pub(crate) fn until(&self, expression: &str) {
        let script = json!({"script": format!("return Boolean({expression});"), "args": []});
        let holds = || {
            self.driver
                .try_post("/execute/sync", &script)
                .is_ok_and(|value| value == true)
        };
        until(expression, || holds().then_some(()));
    }

    pub(crate) fn until_text(&self, selector: &str, part: &str) {
        let (selector, part) = (json!(selector), json!(part));
        self.until(&format!(
            "document.querySelector({selector})?.textContent.includes({part})"
        ));
    }

    /// A picture, kept for people.
    pub(crate) fn picture(&self, name: &str) -> PathBuf {
        let taken = self.driver.get("/screenshot");
        let bytes = BASE64_STANDARD.decode(taken.as_str().unwrap()).unwrap();
        let folder = pictures();
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join(format!("{name}.png"));
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// What the console complained of since it was last asked.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let log = self.driver.post("/se/log", &json!({"type": "browser"}));
        let entries = log.as_array().cloned().unwrap_or_default();
        let bad = entries
            .iter()
            .filter(|entry| entry["level"] == "SEVERE" || entry["level"] == "WARNING");
        bad.map(|entry| entry["message"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// What the daemon at this address answered to each request since it was last asked, also to those
    /// whose answer no page may see.
    pub(crate) fn answers(&self, address: &str) -> Vec<(String, u64)> {
        let log = self.driver.post("/se/log", &json!({"type": "performance"}));
        let told = log.as_array().unwrap().iter().map(|entry| {
            let told: Value = serde_json::from_str(entry["message"].as_str().unwrap()).unwrap();
            told["message"].clone()
        });
        let told: Vec<Value> = told.collect();
        let of = |method: &'static str| told.iter().filter(move |told| told["method"] == method);
        // An answer may be told of before its request is.
        let asked = of("Network.requestWillBeSent").map(|told| &told["params"]);
        let asked: HashMap<&str, &str> = asked
            .filter_map(|told| {
                Some((
                    told["requestId"].as_str()?,
                    told["request"]["url"].as_str()?,
                ))
            })
            .collect();
        let answers = of("Network.responseReceivedExtraInfo").map(|told| &told["params"]);
        let answers = answers.filter_map(|told| {
            let url = *asked.get(told["requestId"].as_str()?)?;
            Some((url.to_owned(), told["statusCode"].as_u64()?))
        });
        let is_there = |url: &str| {
            url.split("://")
                .nth(1)
                .is_some_and(|rest| rest.starts_with(address))
        };
        answers.filter(|(url, _)| is_there(url)).collect()
    }

    /// Nothing ran that came as text, and nothing was even tried.
    pub(crate) fn assert_nothing_ran(&self, place: &str) {
        assert_eq!(self.see("window.ran"), json!([]), "{place}");
        assert_eq!(self.see("window.refused"), json!([]), "{place}");
    }

    fn find(&self, selector: &str) -> String {
        let wanted = json!({"using": "css selector", "value": selector});
        let found = self.driver.post("/element", &wanted);
        found
            .as_object()
            .unwrap()
            .values()
            .next()
            .unwrap()
            .as_str()
            .unwrap()
            .to_owned()
    }
}

impl Drop for Page<'_> {
    fn drop(&mut self) {
        self.driver.delete("/window");
        let _ = self
            .driver
            .try_post("/window", &json!({"handle": self.first}));
    }
}

/// Where pictures are kept.
pub(crate) fn pictures() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .unwrap()
        .join("browser")
}
