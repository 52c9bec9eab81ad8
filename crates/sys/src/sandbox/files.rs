//! Restricts a process to one directory (Landlock), as a second protection besides
//! [`crate::fs::Place::confined`].

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
