//! axe-core: the rules of accessibility that a program can check.
//!
//! The npm package is installed once under `target/axe`; without npm or a registry the check says that
//! it is skipped.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::page::{Page, pictures};

/// The version that is looked at by people when it changes.
const PACKAGE: &str = "axe-core@4.10.3";

/// The package's one file; none where it cannot be had.
static AXE: LazyLock<Option<String>> = LazyLock::new(|| {
    let file = folder().join("node_modules/axe-core/axe.min.js");
    if !file.exists() && !install() {
        eprintln!(
            "SKIPPED: axe-core is not in {} and npm cannot get it",
            folder().display()
        );
        return None;
    }
    std::fs::read_to_string(file).ok()
});

fn folder() -> PathBuf {
    pictures().with_file_name("axe")
}

#[expect(
    clippy::disallowed_methods,
    reason = "a tool of the test, not a part of the product"
)]
fn install() -> bool {
    std::fs::create_dir_all(folder()).unwrap();
    let mut npm = Command::new("timeout");
    npm.args([
        "120",
        "npm",
        "install",
        "--no-audit",
        "--no-fund",
        "--prefix",
        ".",
    ]);
    npm.arg(PACKAGE).current_dir(folder());
    npm.stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    npm.status().is_ok_and(|status| status.success())
}

/// Nothing on the page is a serious or critical fault for people who use it in another way.
pub(crate) fn check(page: &Page<'_>, place: &str) {
    let Some(axe) = AXE.as_deref() else { return };
    page.run(axe);
    let found = page.run(
        "return axe.run(document, { resultTypes: ['violations'] }).then((told) => told.violations \
         .filter((one) => ['serious', 'critical'].includes(one.impact)) \
         .map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(' | ')}`));",
    );
    assert_eq!(found, json!([]) as Value, "{place}");
}
