//! A process that from here on reaches one directory only (Landlock), as the second wall behind
//! [`crate::fs::Place::confined`].

use std::io;
use std::os::fd::BorrowedFd;

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus,
};

/// Whether the kernel holds the wall up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wall {
    /// With everything that this version of us asks for.
    Whole,
    /// With what this kernel knows of it.
    Partial,
    /// It has no Landlock.
    None,
}

/// Forbids this thread, and what it starts, every file that is not below `directory`; what is open
/// stays usable. With `read_only` nothing there can be changed either. Sets no_new_privs.
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
