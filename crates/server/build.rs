//! Lists the files of the dashboard, so that they are compiled into the binary.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files = Vec::new();
    collect(&folder, &mut files);
    files.sort();
    let mut table = String::from("[\n");
    for file in &files {
        let name = file.strip_prefix(&folder).expect("it was found there").display();
        let _ = writeln!(table, "    ({:?}, include_bytes!({:?})),", name.to_string(), file);
    }
    table.push_str("]\n");
    #[expect(clippy::disallowed_methods, reason = "where cargo wants what is made here")]
    let made = std::env::var_os("OUT_DIR").expect("cargo sets it");
    std::fs::write(Path::new(&made).join("assets.rs"), table).expect("cargo's folder is ours");
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        println!("cargo::rerun-if-changed={}", path.display());
        if path.is_dir() { collect(&path, files) } else { files.push(path) }
    }
}
