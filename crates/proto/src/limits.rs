//! Sizes that several layers agree on.

/// Smallest initial receive window of a channel while at least two thirds of the window memory are left,
/// bytes: two packets of 32 KiB in flight. The memory has room for one channel for each of these.
pub(crate) const LEAST_WINDOW_BYTES: u32 = 64 * 1024;
/// Maximum data in one message that we accept, bytes.
pub(crate) const MAX_DATA_BYTES: u32 = 32 * 1024;
/// Maximum data before the answer that we accept and send, bytes: it is copied out of the receive
/// slabs, and counts against the first window.
pub(crate) const EARLY_DATA_BYTES: u32 = MAX_DATA_BYTES;
/// Most tokens of one side in a GSS-API exchange; Kerberos needs one.
pub(crate) const MAX_GSSAPI_TOKENS: u32 = 16;
/// Longest token of a GSS-API exchange, bytes. A ticket with the groups of a large directory has some
/// tens of thousands.
pub(crate) const MAX_GSSAPI_TOKEN_BYTES: usize = 128 * 1024;
