//! The privilege chain of the real `fulmar sshd`, looked at from outside and attacked from
//! inside.
//!
//! [`facts`] reads what the kernel says of a process; [`sshd`] starts servers, as root or as an
//! ordinary user, and clients for them. [`double`] puts a program of these tests in the place of
//! the auth and session processes of a real monitor, and speaks the RPC through it; [`place`] holds
//! what is said. The client of
//! the functional tests is OpenSSH's.
//!
//! What needs root is skipped without it, in one line. docs/privsep.md says which test proves
//! what.
#![forbid(unsafe_code)]

pub mod double;
pub mod facts;
pub mod place;
pub mod sshd;
