//! Restricts a process to one directory (Landlock), as a second protection besides
//! [`crate::fs::PathRoot::confined`].

use std::io;
use std::os::fd::BorrowedFd;

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus,
};

/// How far the kernel enforces a Landlock restriction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wall {
    /// All requested rights are enforced.
    Whole,
    /// Only the rights that this kernel knows are enforced.
    Partial,
    /// The kernel has no Landlock.
    None,
}

/// Denies this thread, and processes and threads that it starts, access to all files that are not
/// below `directory`; open files stay usable. With `read_only` it also denies changes below
/// `directory`. Sets no_new_privs.
///
/// # Errors
/// The kernel's error.
pub fn only_below(directory: BorrowedFd<'_>, read_only: bool) -> io::Result<Wall> {
    let rights = if read_only {
        AccessFs::from_read(ABI::V5)
    } else {
        AccessFs::from_all(ABI::V5)
    };
    let restricted = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI::V5))
        .and_then(Ruleset::create)
        .and_then(|set| set.add_rule(PathBeneath::new(directory, rights)))
        .and_then(landlock::RulesetCreated::restrict_self)
        .map_err(io::Error::other)?;
    Ok(match restricted.ruleset {
        RulesetStatus::FullyEnforced => Wall::Whole,
        RulesetStatus::PartiallyEnforced => Wall::Partial,
        RulesetStatus::NotEnforced => Wall::None,
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::super::older;
    use super::*;

    #[test]
    fn an_older_landlock_holds_up_what_it_knows_and_is_told_of() {
        let (inside, outside) = ("/usr", "/etc/passwd");
        // Without any, the kernel says so or does not know the call.
        let kernels = [
            (Err(libc::EOPNOTSUPP), Wall::None),
            (Err(libc::ENOSYS), Wall::None),
            (Ok(1), Wall::Partial),
            (Ok(4), Wall::Partial),
            (Ok(5), Wall::Whole),
        ];
        for (version, wall) in kernels {
            let (built, reached) = older::landlock(version, || {
                let directory = File::open(inside).unwrap();
                let built = only_below(std::os::fd::AsFd::as_fd(&directory), true).unwrap();
                let reached = [inside, outside].map(|path| File::open(path).is_ok());
                (built, reached)
            });
            if built == Wall::None && wall != Wall::None {
                eprintln!("skipped: this kernel has no Landlock");
                return;
            }
            assert_eq!(built, wall, "{version:?}");
            assert_eq!(reached, [true, wall == Wall::None], "{version:?}");
        }
    }
}
