//! Connection sharing (`ControlMaster`, `ControlPath`, `ControlPersist`; `-M`, `-S`, `-O`): several
//! processes use one connection, whose owner is the master. It speaks OpenSSH's protocol, so that
//! either side may be OpenSSH's.
//!
//! [`message`] has the messages, [`passenger`] is the side that uses a master's connection,
//! [`master`] the side that owns it, and `persist` puts a master into the background. `proxy` is a
//! session that speaks the connection protocol with the master (`-O proxy`).

pub(crate) mod line;
pub(crate) mod master;
pub mod message;
pub(crate) mod passenger;
pub(crate) mod persist;
pub(crate) mod socket;
