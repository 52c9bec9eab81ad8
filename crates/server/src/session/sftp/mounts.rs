//! Detects mounted file systems on which a system call may not return.

use std::fs;

/// The mounts that this process can reach (proc_pid_mountinfo(5)).
const MOUNTS: &str = "/proc/self/mountinfo";

/// File systems on local disks and memory, and those of the kernel itself. Any other may depend on
/// the network (NFS, CIFS, 9p), on a process (FUSE), or on a mount at access (autofs).
const LOCAL: [&str; 41] = [
    "bcachefs",
    "binfmt_misc",
    "bpf",
    "btrfs",
    "cgroup",
    "cgroup2",
    "configfs",
    "cpuset",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "erofs",
    "exfat",
    "ext2",
    "ext3",
    "ext4",
    "f2fs",
    "fusectl",
    "hugetlbfs",
    "iso9660",
    "jfs",
    "mqueue",
    "nsfs",
    "ntfs3",
    "overlay",
    "proc",
    "pstore",
    "ramfs",
    "resctrl",
    "rootfs",
    "securityfs",
    "selinuxfs",
    "squashfs",
    "sysfs",
    "tmpfs",
    "tracefs",
    "udf",
    "vfat",
    "xfs",
    "zfs",
];

/// True if every mounted file system is local. False if that cannot be determined, as in a root
/// directory without /proc.
pub(super) fn are_all_local() -> bool {
    fs::read(MOUNTS).is_ok_and(|mounts| all_local(&mounts))
}

fn all_local(mounts: &[u8]) -> bool {
    let lines = mounts.split(|byte| *byte == b'\n');
    let mut lines = lines.filter(|line| !line.is_empty());
    lines.all(|line| {
        // proc_pid_mountinfo(5): the kind follows the word that ends the optional fields.
        let mut words = line.split(|byte| *byte == b' ').skip(6);
        let kind = words.find(|word| *word == b"-").and_then(|_| words.next());
        kind.is_some_and(|kind| LOCAL.iter().any(|local| local.as_bytes() == kind))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_of_others_is_seen_among_our_own() {
        let own = "22 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw\n\
            23 22 0:22 / /dev/shm rw - tmpfs tmpfs rw\n";
        assert!(all_local(own.as_bytes()));
        for (kind, options) in [
            ("nfs4", "shared:2 "),
            ("fuse.sshfs", ""),
            ("fuse", "shared:1 master:3 "),
            ("cifs", ""),
            ("9p", ""),
            ("autofs", ""),
            ("a-new-one", ""),
        ] {
            let other = format!("{own}24 22 0:30 / /ext4 rw {options}- {kind} ext4 rw\n");
            assert!(!all_local(other.as_bytes()), "{kind}");
        }
        assert!(!all_local(b"22 1 8:2 / / rw\n"));
    }
}
