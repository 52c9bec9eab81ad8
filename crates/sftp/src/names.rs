//! The names of the vendor extensions.

use wire::EXTENSION_DOMAIN;

/// Returns `name@domain` as bytes; `N` must be the length of the result.
const fn joined<const N: usize>(name: &str) -> [u8; N] {
    let (name, domain) = (name.as_bytes(), EXTENSION_DOMAIN.as_bytes());
    let mut out = [b'@'; N];
    let mut at = 0;
    while at < name.len() {
        out[at] = name[at];
        at += 1;
    }
    let mut from = 0;
    while from < domain.len() {
        out[at + 1 + from] = domain[from];
        from += 1;
    }
    out
}

macro_rules! names {
    ($( $(#[$doc:meta])* $name:ident = $text:literal; )*) => {$(
        $(#[$doc])*
        pub const $name: &str = {
            const BYTES: [u8; $text.len() + 1 + EXTENSION_DOMAIN.len()] = joined($text);
            match core::str::from_utf8(&BYTES) {
                Ok(name) => name,
                Err(_) => panic!("names are ASCII"),
            }
        };
    )*};
}

names! {
    /// Times with nanosecond resolution. The name of an extended attribute (access, then
    /// modification time, each an `int64` of seconds and a `uint32` of nanoseconds) and of the
    /// request that makes the server send that attribute. A server accepts the attribute in
    /// requests without that request.
    EXACT_TIMES = "exact-times";
    /// The name of an extended attribute of OPEN, with empty data: nobody else may write the file
    /// until CLOSE. If somebody does, WRITE, FSETSTAT and CLOSE of this handle fail.
    SOLE_WRITER = "sole-writer";
    /// Ends a request that is answered by several messages: its STATUS follows soon, then the
    /// STATUS of CANCEL.
    CANCEL = "cancel";
    /// BLAKE3 hash of a range of a file, answered by EXTENDED_REPLY ([`Hashes`](super::Hashes)).
    HASH_RANGE = "hash-range";
    /// Reads a range of a file. The answers are DATA in ascending order without gaps, with
    /// [`Hole`](super::Hole)
    /// in EXTENDED_REPLY in place of a hole if [`HOLES`](super::read_flag::HOLES) is set.
    READ_RANGE = "read-range";
    /// Opens a file and reads it from its beginning: answered by
    /// [`OpenedFile`](super::OpenedFile) in EXTENDED_REPLY,
    /// then by the content as for [`READ_RANGE`]. The handle remains open.
    OPEN_READ = "open-read";
    /// Creates a file, writes it and closes it; answered by STATUS.
    PUT_FILE = "put-file";
    /// Lists a directory tree as a sequence of [`WalkEntry`](super::WalkEntry) in one or more EXTENDED_REPLY, in
    /// depth-first order: a directory, its contents, then its next sibling.
    WALK = "walk";
    /// Enlarges the window of a [`WALK`]; answered by STATUS.
    WALK_ON = "walk-on";
}
