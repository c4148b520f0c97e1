//! What the figures were measured on.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

use serde::Serialize;

use crate::samples::Samples;

/// The facts without which a figure means nothing.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Machine {
    cores: usize,
    processor: String,
    kernel: String,
    file_system: String,
    /// The middle cost of appending 1 KiB and syncing it, taken just before the bench.
    disk_sync_us_p50: f64,
    disk_sync_us_p90: f64,
    /// Of the last minute, before the bench began.
    load_average: f64,
}

impl Machine {
    /// Looks at this machine, and at the disk that holds `folder`.
    pub(crate) fn look(folder: &Path) -> anyhow::Result<Machine> {
        let disk = sync_samples(folder, 200)?;
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let system = rustix::system::uname();
        Ok(Machine {
            cores: std::thread::available_parallelism()?.get(),
            processor: processor().unwrap_or_else(|| system.machine().to_string_lossy().into()),
            kernel: system.release().to_string_lossy().into(),
            file_system: file_system(folder).unwrap_or_else(|| "unknown".into()),
            disk_sync_us_p50: disk.p50(),
            disk_sync_us_p90: disk.p90(),
            load_average: load
                .split(' ')
                .next()
                .and_then(|one| one.parse().ok())
                .unwrap_or(0.0),
        })
    }

    pub(crate) fn text(&self) -> String {
        format!(
            "{} × {}, Linux {}, {}, 1 KiB append+fdatasync {:.0} µs (p90 {:.0}), load {:.2}",
            self.cores,
            self.processor,
            self.kernel,
            self.file_system,
            self.disk_sync_us_p50,
            self.disk_sync_us_p90,
            self.load_average,
        )
    }
}

fn sync_samples(folder: &Path, count: usize) -> anyhow::Result<Samples> {
    let mut file = File::create(folder.join("disk"))?;
    let mut all = Vec::with_capacity(count);
    for _ in 0..count {
        let began = Instant::now();
        file.write_all(&[b'x'; 1024])?;
        file.sync_data()?;
        all.push(began.elapsed().as_secs_f64() * 1e6);
    }
    Ok(Samples::new(all))
}

fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().into())
}

/// The type of the deepest mount above `folder`.
fn file_system(folder: &Path) -> Option<String> {
    let folder = folder.canonicalize().ok()?;
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let above = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (point, kind) = (fields.next()?, fields.next()?);
        folder.starts_with(point).then_some((point.len(), kind))
    });
    above
        .max_by_key(|(depth, _)| *depth)
        .map(|(_, kind)| kind.into())
}
