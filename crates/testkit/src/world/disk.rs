//! A disk that can be cut off, filled up and made read-only: an ext4 image on a loop device.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::Context as _;

use super::clock::pause;
use super::product::{finish, plain};

/// Large enough for a trial, small enough to be filled in a moment.
const BYTES: u64 = 48 << 20;
/// How often a disk that is in use is looked at again.
const BUSY_LOOKS_MAX: u32 = 100;
const BUSY_PAUSE: Duration = Duration::from_millis(50);
/// How often a file system that another mount namespace keeps is looked at again.
const KEPT_LOOKS_MAX: u32 = 600;
const KEPT_PAUSE: Duration = Duration::from_millis(200);
/// What a file system says that was shut down.
const EIO: i32 = 5;

/// A mounted image; unmounted when it is dropped.
#[derive(Debug)]
pub struct Disk {
    image: PathBuf,
    place: PathBuf,
}

/// Why there can be no disk here; none when there can.
pub fn refusal(folder: &Path) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("not root".to_owned());
    }
    if let Err(error) = std::fs::create_dir_all(folder) {
        return Some(error.to_string());
    }
    let tried = Disk::make(folder, "try").and_then(|disk| disk.switch()?.cut());
    match tried {
        Ok(()) => None,
        Err(error) => Some(format!("{error:#}")),
    }
}

impl Disk {
    /// A new, empty disk.
    pub fn make(folder: &Path, name: &str) -> anyhow::Result<Self> {
        let image = folder.join(format!("{name}.img"));
        let place = folder.join(format!("{name}.mnt"));
        std::fs::create_dir_all(&place)?;
        File::create(&image)?.set_len(BYTES)?;
        let path = image.display().to_string();
        let lazy = "lazy_itable_init=0,lazy_journal_init=0";
        run("mkfs.ext4", &["-q", "-F", "-m", "0", "-E", lazy, &path])?;
        let disk = Self { image, place };
        disk.mount()?;
        Ok(disk)
    }

    /// Where it is mounted.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Mounts it; the journal is replayed as after a power cut. The journal is written only when
    /// somebody syncs, so that nothing is saved by luck.
    ///
    /// A mount namespace that somebody made meanwhile keeps the file system as it was, shut down, and a
    /// mount gives the same one again: that is waited for.
    pub fn mount(&self) -> anyhow::Result<()> {
        let (image, place) = (
            self.image.display().to_string(),
            self.place.display().to_string(),
        );
        let probe = self.place.join(".probe");
        for _ in 0..KEPT_LOOKS_MAX {
            run("mount", &["-o", "loop,commit=300", &image, &place])?;
            match std::fs::write(&probe, "").and_then(|()| std::fs::remove_file(&probe)) {
                Err(error) if error.raw_os_error() == Some(EIO) => {
                    self.unmount()?;
                    pause(KEPT_PAUSE);
                }
                probed => return probed.with_context(|| format!("cannot write to {place}")),
            }
        }
        anyhow::bail!("{place} is still kept by another mount namespace")
    }

    /// Takes it away. Whoever was killed on it a moment ago may still be closing its files.
    pub fn unmount(&self) -> anyhow::Result<()> {
        let place = self.place.display().to_string();
        for _ in 0..BUSY_LOOKS_MAX {
            match run("umount", &[&place]) {
                Err(error) if error.to_string().contains("busy") => pause(BUSY_PAUSE),
                done => return done,
            }
        }
        run("umount", &[&place])
    }

    /// A switch under the finger: started ahead, so that nothing but the cut takes time.
    pub fn switch(&self) -> anyhow::Result<Switch> {
        let place = self.place.display().to_string();
        let mut command = plain(Path::new("xfs_io"), &["-x", &place]);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let xfs_io = command.spawn().context("cannot start xfs_io")?;
        Ok(Switch {
            xfs_io,
            place: self.place.clone(),
        })
    }

    /// Makes it read-only, or writable again.
    pub fn set_read_only(&self, read_only: bool) -> anyhow::Result<()> {
        let how = if read_only {
            "remount,ro"
        } else {
            "remount,rw"
        };
        run("mount", &["-o", how, &self.place.display().to_string()])
    }

    /// Writes until there is no room; the file that takes it.
    pub fn fill(&self) -> anyhow::Result<PathBuf> {
        let path = self.place.join("filler");
        let mut file = File::create(&path)?;
        for size in [1 << 20, 4096] {
            let block = vec![7; size];
            // The bound: the disk has no more blocks than this.
            for _ in 0..BYTES / size as u64 {
                if file
                    .write_all(&block)
                    .and_then(|()| file.sync_data())
                    .is_err()
                {
                    break;
                }
            }
        }
        Ok(path)
    }
}

/// What cuts the power of one disk, once.
#[derive(Debug)]
pub struct Switch {
    xfs_io: Child,
    place: PathBuf,
}

impl Switch {
    /// The power goes: what is not on the disk now never gets there, not even the journal.
    pub fn cut(mut self) -> anyhow::Result<()> {
        let mut words = self
            .xfs_io
            .stdin
            .take()
            .context("standard input is a pipe")?;
        words.write_all(b"shutdown\n")?;
        drop(words);
        self.xfs_io.wait()?;
        let lives = File::create(self.place.join("after-the-cut")).is_ok();
        anyhow::ensure!(
            !lives,
            "{} is still there after its shutdown",
            self.place.display()
        );
        Ok(())
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        drop(self.xfs_io.stdin.take());
        // It ends when nobody talks to it any more, and lets the disk go.
        let _ = self.xfs_io.wait();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Gone already where a trial took it away itself.
        let _ = self.unmount();
        let _ = std::fs::remove_file(&self.image);
    }
}

fn run(program: &str, words: &[&str]) -> anyhow::Result<()> {
    let answer = finish(&mut plain(Path::new(program), words)).context("a tool is missing")?;
    anyhow::ensure!(
        answer.code == 0,
        "{program} {words:?}: {}",
        answer.stderr.trim()
    );
    Ok(())
}
