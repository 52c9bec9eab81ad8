//! The privilege separation of the real `fulmar sshd`, inspected from outside and attacked from
//! inside.
//!
//! [`facts`] reads the kernel's data about processes; [`sshd`] starts servers, as root or as an
//! ordinary user, and clients for them. [`double`] replaces the auth and session processes of a
//! real monitor by a program of these tests and uses the RPC through it; [`place`] has the
//! messages. The client of the functional tests is OpenSSH's.
//!
//! Tests that need root are skipped without it, with one line. docs/privsep.md names the test of
//! each property.
#![forbid(unsafe_code)]

pub mod double;
pub mod facts;
pub mod place;
pub mod sshd;
