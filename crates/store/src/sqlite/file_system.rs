//! Which file systems a store may live on: those whose locks and syncs mean what they say.

use std::path::Path;

use super::system::{is_surely_local, kind_of};

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

fn is_remote(kind: &str) -> bool {
    let network_fuse = ["sshfs", "rclone", "s3fs", "glusterfs", "gcsfuse", "ceph"];
    match kind.strip_prefix("fuse.") {
        Some(program) => network_fuse.iter().any(|name| program.starts_with(name)),
        None => REMOTE.contains(&kind),
    }
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
}
