//! Options of a copy.

/// What to do with a part of the target that exists already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Resume {
    /// Copy from the beginning.
    #[default]
    Never,
    /// Append to the existing part, trusting its size (sftp's `-a`).
    BySize,
    /// Compare the existing part first: by hashes if the server supports them, else by its last
    /// bytes.
    Proven,
}

/// Options of a copy; by default all are off. Fields may be added: write `..Default::default()` for
/// those that you do not set.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Copy directories with their contents, at most 64 levels deep.
    pub recursive: bool,
    /// Preserve times of access and modification, and permission bits.
    pub preserve: bool,
    /// Follow symbolic links within directories; otherwise skip them.
    pub follow_links: bool,
    /// What to do with a part of the target that exists already.
    pub resume: Resume,
    /// Flush the content to the disk before the copy of a file counts as complete.
    pub sync: bool,
    /// Preserve holes: parts of a file that the file system does not store, because they are zeros.
    pub sparse: bool,
    /// Write to a part file and rename it, so that the target appears complete or not at all.
    pub atomic: bool,
    /// Compare the content of both ends after the copy.
    pub verify: bool,
    /// Maximum rate of all files of the copy together, bytes per second; 0 for no limit.
    pub limit_bytes: u64,
}

impl Options {
    /// The options for one file that is copied over `links` connections. A part that several
    /// connections have written, or may have written under the same name, can have gaps; its size
    /// proves nothing, so its content must be compared.
    pub(crate) fn for_one(&self, links: usize) -> Self {
        let mut options = self.clone();
        if options.resume == Resume::BySize && (links > 1 || options.atomic) {
            options.resume = Resume::Proven;
        }
        options
    }
}

/// Maximum nesting of directories, OpenSSH's limit; a deeper tree is probably a loop.
pub const MAX_DEPTH: usize = 64;
