//! What a copy should be like.

/// What is done with a part that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Resume {
    /// The copy begins anew.
    #[default]
    Never,
    /// What is there is taken for the beginning, on the word of its size (sftp's `-a`).
    BySize,
    /// What is there is compared first: by hashes where the server can, else by its last bytes.
    Proven,
}

/// What a copy should be like.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Directories, with all that is in them.
    pub recursive: bool,
    /// Times and modes are kept.
    pub preserve: bool,
    /// Links below a directory are followed; else they are passed over.
    pub follow_links: bool,
    /// What is done with a part that is there already.
    pub resume: Resume,
    /// The content is on the disk before the copy counts as done.
    pub sync: bool,
    /// Holes stay holes.
    pub sparse: bool,
    /// The target appears whole or not at all.
    pub atomic: bool,
    /// Both ends' content is compared at the end.
    pub verify: bool,
    /// Most bytes a second; 0 for no limit.
    pub limit_bytes: u64,
}

impl Options {
    /// Those of one file that goes over so many connections. A part that several have written, or
    /// may have written under the same name, can have gaps: its size says nothing, and it must be
    /// proven.
    pub(crate) fn for_one(&self, links: usize) -> Self {
        let mut options = self.clone();
        if options.resume == Resume::BySize && (links > 1 || options.atomic) {
            options.resume = Resume::Proven;
        }
        options
    }
}

/// Directories within directories, at most: what is deeper is a loop, most likely (OpenSSH's
/// limit).
pub const MAX_DEPTH: usize = 64;
