//! Lists the files of the dashboard, each as it is and made small, so that they are compiled into
//! the binary. None without the feature `dashboard`.

use std::fmt::Write as _;
#[cfg(feature = "dashboard")]
use std::io::Write as _;
use std::path::{Path, PathBuf};

#[cfg(feature = "dashboard")]
use flate2::Compression;
#[cfg(feature = "dashboard")]
use flate2::write::GzEncoder;

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files = Vec::new();
    if cfg!(feature = "dashboard") {
        collect(&folder, &mut files);
    }
    files.sort();
    #[expect(
        clippy::disallowed_methods,
        reason = "where cargo wants what is made here"
    )]
    let made = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    let mut table = String::from("[\n");
    for (number, file) in files.iter().enumerate() {
        let name = file
            .strip_prefix(&folder)
            .expect("it was found there")
            .display()
            .to_string();
        let small = made.join(format!("{number}.gz"));
        compress(file, &small);
        let (plain, small) = (
            format!("include_bytes!({file:?})"),
            format!("include_bytes!({small:?})"),
        );
        let _ = writeln!(
            table,
            "    File {{ name: {name:?}, plain: {plain}, gzip: {small} }},"
        );
    }
    table.push_str("]\n");
    std::fs::write(made.join("assets.rs"), table).expect("cargo's folder is ours");
}

#[cfg(feature = "dashboard")]
fn compress(file: &Path, small: &Path) {
    let bytes = std::fs::read(file).expect("it was just found");
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&bytes).expect("memory takes it");
    let made = gzip.finish().expect("memory takes it");
    std::fs::write(small, made).expect("cargo's folder is ours");
}

#[cfg(not(feature = "dashboard"))]
fn compress(_: &Path, _: &Path) {}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        println!("cargo::rerun-if-changed={}", path.display());
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.push(path);
        }
    }
}
