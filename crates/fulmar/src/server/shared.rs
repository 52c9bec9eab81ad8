//! What all connections of a server share: its settings, and the counts that its limits apply to.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proto::ServerHostKey;

use super::auth::Authenticator;
use super::config::Config;
use super::handler::Handler;

/// The data that all connections of a server share.
pub(super) struct Shared {
    pub(super) config: Config,
    pub(super) authenticator: Box<dyn Authenticator>,
    pub(super) handler: Box<dyn Handler>,
    pub(super) host_keys: Vec<ServerHostKey>,
    pub(super) connections: AtomicUsize,
    pub(super) logins: AtomicUsize,
}

/// Holds one unit of a counter until dropped.
pub(super) struct Slot {
    shared: Arc<Shared>,
    counter: fn(&Shared) -> &AtomicUsize,
}

impl Slot {
    pub(super) fn take(
        shared: &Arc<Shared>,
        counter: fn(&Shared) -> &AtomicUsize,
        limit: usize,
    ) -> Option<Self> {
        let taken = counter(shared).fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| {
            (count < limit).then_some(count + 1)
        });
        taken.ok().map(|_| Self {
            shared: Arc::clone(shared),
            counter,
        })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        (self.counter)(&self.shared).fetch_sub(1, Ordering::AcqRel);
    }
}

/// Holds one of `max_logins` while a connection is not logged in.
pub(super) struct LoginSlot(#[allow(dead_code)] pub(super) Slot);
