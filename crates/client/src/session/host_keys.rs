//! Updates of the host keys during a session (`UpdateHostKeys`).

use config::client::YesNoAsk;
use driver::Driver;

use crate::host_key::HostKeyChecker;
use crate::host_key::update::Rotation;
use crate::interaction::Interaction;
use crate::log::{info, verbose};

/// The server's announcement of host keys, and whether the user wants them to be updated.
pub(super) struct HostKeyUpdates<'c> {
    checker: Option<&'c mut HostKeyChecker>,
    wanted: YesNoAsk,
    rotation: Option<Rotation>,
}

impl<'c> HostKeyUpdates<'c> {
    /// No updates.
    pub(super) fn off() -> Self {
        Self {
            checker: None,
            wanted: YesNoAsk::No,
            rotation: None,
        }
    }

    /// Updates through `checker`.
    pub(super) fn with(checker: &'c mut HostKeyChecker, wanted: YesNoAsk) -> Self {
        Self {
            checker: Some(checker),
            wanted,
            rotation: None,
        }
    }

    /// True if the server has been asked for a proof of new keys and has not answered.
    pub(super) fn awaits_proof(&self) -> bool {
        self.rotation.is_some()
    }

    pub(super) fn too_many(&self) {
        if self.wanted != YesNoAsk::No {
            info!(
                "Warning: the server announced too many host keys; all are ignored (UpdateHostKeys)"
            );
        }
    }

    /// The server announced keys. `is_raw`: the terminal is raw, so that nothing can be asked.
    pub(super) fn announced(
        &mut self,
        keys: &[Vec<u8>],
        is_raw: bool,
        driver: &mut Driver,
        interaction: &mut dyn Interaction,
    ) {
        let mut wanted = self.wanted;
        if wanted == YesNoAsk::Ask && (is_raw || !interaction.can_ask()) {
            verbose!("The server announced host keys; UpdateHostKeys=ask cannot ask now");
            wanted = YesNoAsk::No;
        }
        if let Some(checker) = self.checker.as_deref_mut() {
            self.rotation = checker.announced(keys, wanted, driver, interaction);
        }
    }

    /// The server answered with proofs; `is_raw` as above.
    pub(super) fn proven(
        &mut self,
        proofs: Option<Vec<Vec<u8>>>,
        is_raw: bool,
        driver: &mut Driver,
        interaction: &mut dyn Interaction,
    ) {
        let Some(rotation) = self.rotation.take() else {
            return;
        };
        if self.wanted == YesNoAsk::No || (self.wanted == YesNoAsk::Ask && is_raw) {
            return;
        }
        if let Some(checker) = self.checker.as_deref_mut() {
            checker.proven(&rotation, proofs, self.wanted, driver, interaction);
        }
    }
}
