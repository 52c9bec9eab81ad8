//! User authentication, RFC 4252, RFC 4256 and RFC 4462 §3 and §4: client side and server side. [`wire::userauth`] has the
//! data that a public key signs.

pub(crate) mod client;
pub(crate) mod server;

/// Maximum prompts or responses in one keyboard-interactive message.
const MAX_PROMPTS: u32 = 64;
/// Maximum length of a user name, bytes.
const MAX_USER_BYTES: usize = 1024;
/// Maximum length of a password or response, bytes.
const MAX_SECRET_BYTES: usize = 64 * 1024;
/// Longest MIC of `gssapi-keyex`, bytes; those of Kerberos have about 30.
const MAX_MIC_BYTES: usize = 4096;
