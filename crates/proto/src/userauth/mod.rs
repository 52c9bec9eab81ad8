//! User authentication, RFC 4252, RFC 4256 and RFC 4462 §3: client side and server side. [`wire::userauth`] has the
//! data that a public key signs.

pub(crate) mod client;
pub(crate) mod server;

/// Maximum prompts or responses in one keyboard-interactive message.
const MAX_PROMPTS: u32 = 64;
/// Maximum length of a user name, bytes.
const MAX_USER_BYTES: usize = 1024;
/// Maximum length of a password or response, bytes.
const MAX_SECRET_BYTES: usize = 64 * 1024;
/// Most tokens of one side in a GSS-API exchange; Kerberos needs one.
const MAX_GSSAPI_TOKENS: u32 = 16;
/// Longest token of a GSS-API exchange, bytes. A ticket with the groups of a large directory has some
/// tens of thousands.
const MAX_GSSAPI_TOKEN_BYTES: usize = 128 * 1024;
