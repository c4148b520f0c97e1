//! Which file systems a store may live on: those whose locks and syncs mean what they say.

use std::path::Path;

/// Names of file systems that are somebody else's disk, as `/proc/self/mountinfo` writes them.
const REMOTE: [&str; 16] = [
    "nfs",
    "nfs4",
    "cifs",
    "smb2",
    "smb3",
    "smbfs",
    "9p",
    "afs",
    "ceph",
    "coda",
    "gfs2",
    "glusterfs",
    "lustre",
    "ocfs2",
    "beegfs",
    "ncpfs",
];

/// Why a store must not be in this folder; nothing when it may.
pub(super) fn refusal(folder: &Path) -> Option<String> {
    if is_surely_local(folder) {
        return None;
    }
    let kind = kind_of(folder)?;
    is_remote(&kind).then(|| {
        format!(
            "it is on a network file system ({kind}), whose locks and syncs cannot be trusted; \
             choose a local folder, or postgres://… for several machines"
        )
    })
}

/// The usual ones, told by one call, for every command opens the store.
fn is_surely_local(folder: &Path) -> bool {
    const EXT: u32 = 0xef53;
    const XFS: u32 = 0x5846_5342;
    const BTRFS: u32 = 0x9123_683e;
    const TMPFS: u32 = 0x0102_1994;
    const F2FS: u32 = 0xf2f5_2010;
    let kind = rustix::fs::statfs(folder).map(|found| found.f_type as u32);
    kind.is_ok_and(|kind| [EXT, XFS, BTRFS, TMPFS, F2FS].contains(&kind))
}

/// The name of the file system that the folder is on.
pub(super) fn kind_of(folder: &Path) -> Option<String> {
    let folder = folder.canonicalize().ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    longest_mount(&mounts, folder.to_str()?)
}

fn is_remote(kind: &str) -> bool {
    let network_fuse = ["sshfs", "rclone", "s3fs", "glusterfs", "gcsfuse", "ceph"];
    match kind.strip_prefix("fuse.") {
        Some(program) => network_fuse.iter().any(|name| program.starts_with(name)),
        None => REMOTE.contains(&kind),
    }
}

/// The mount with the longest path that holds the folder; the last one when two are equal.
fn longest_mount(mounts: &str, folder: &str) -> Option<String> {
    let mut best: Option<(usize, &str)> = None;
    for line in mounts.lines() {
        let Some((left, right)) = line.split_once(" - ") else {
            continue;
        };
        let Some(place) = left.split(' ').nth(4) else {
            continue;
        };
        let inside = folder == place
            || place == "/"
            || folder
                .strip_prefix(place)
                .is_some_and(|rest| rest.starts_with('/'));
        let longer = best.is_none_or(|(length, _)| place.len() >= length);
        if inside && longer {
            best = Some((place.len(), right.split(' ').next()?));
        }
    }
    best.map(|(_, kind)| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_refused_and_local_ones_are_not() {
        for remote in ["nfs4", "cifs", "9p", "fuse.sshfs", "fuse.rclone"] {
            assert!(is_remote(remote), "{remote}");
        }
        for local in [
            "ext4",
            "xfs",
            "btrfs",
            "zfs",
            "tmpfs",
            "overlay",
            "fuse.ntfs-3g",
        ] {
            assert!(!is_remote(local), "{local}");
        }
    }

    #[test]
    fn the_mount_nearest_to_the_folder_counts() {
        let mounts = "1 0 8:1 / / rw - ext4 /dev/a rw\n\
                      2 1 0:9 / /home rw shared:1 - nfs4 host:/home rw\n\
                      3 2 8:2 / /home/me/disk rw - xfs /dev/b rw\n";
        let kind = |folder| longest_mount(mounts, folder);
        assert_eq!(kind("/var").as_deref(), Some("ext4"));
        assert_eq!(kind("/home/me").as_deref(), Some("nfs4"));
        assert_eq!(kind("/home/me/disk/x").as_deref(), Some("xfs"));
        assert_eq!(kind("/homes").as_deref(), Some("ext4"));
    }
}
