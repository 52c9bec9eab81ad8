//! Rotation of host keys (`UpdateHostKeys`; OpenSSH PROTOCOL §2.5, `hostkeys-00@openssh.com`): a
//! host with a trusted key announces its other keys and proves possession of them; the client
//! records those that it may use and removes all others of the host.
//!
//! Only keys on lines of this host alone are changed: if one of its lines has patterns or several
//! names, or if any check fails, no file is changed.

use config::client::YesNoAsk;
use driver::Driver;
use keys::known_hosts::{KnownHosts, KnownHostsEntry, Marker, edit};
use keys::{KeyType, PublicKey, Signature, VerifyError, VerifyPolicy};

use super::{HostKeyChecker, Trust, files, permits};
use crate::interaction::{Interaction, Question};
use crate::log::{debug1, debug2, debug3, error, info};
use crate::text::one_line;

/// Most new keys for which a proof is requested; further keys are ignored.
const MAX_NEW_KEYS: usize = 16;

/// The changes that an announcement asks for.
#[derive(Debug, Default)]
pub struct Rotation {
    pub(super) new: Vec<PublicKey>,
    pub(super) gone: Vec<Vec<u8>>,
}

impl HostKeyChecker {
    /// Handles the server's announcement. If there are new keys, requests their proof and returns
    /// the rotation to keep until the proof arrives; otherwise removes old keys at once.
    pub fn announced(
        &mut self,
        blobs: &[Vec<u8>],
        wanted: YesNoAsk,
        driver: &mut Driver,
        interaction: &mut dyn Interaction,
    ) -> Option<Rotation> {
        let rotation = self.plan(blobs, wanted)?;
        if rotation.new.is_empty() {
            self.carry_out(&rotation, wanted, interaction);
            return None;
        }
        let asked: Vec<Vec<u8>> = rotation.new.iter().map(PublicKey::blob).collect();
        debug2!(
            "hostkeys-prove-00@openssh.com: asking for proof of {} keys",
            asked.len()
        );
        driver.connection().prove_host_keys(&asked).ok()?;
        Some(rotation)
    }

    /// Handles the server's proofs; if one is missing or wrong, nothing is changed.
    pub fn proven(
        &mut self,
        rotation: &Rotation,
        proofs: Option<Vec<Vec<u8>>>,
        wanted: YesNoAsk,
        driver: &mut Driver,
        interaction: &mut dyn Interaction,
    ) {
        let Some(proofs) = proofs.filter(|proofs| proofs.len() == rotation.new.len()) else {
            debug1!("The server did not prove the host keys that it announced");
            return;
        };
        for (key, proof) in rotation.new.iter().zip(&proofs) {
            let Ok(data) = driver.connection().hostkeys_prove_data(&key.blob()) else {
                return;
            };
            if let Err(reason) = self.check_proof(key, &data, proof) {
                error!("The server's proof of a new host key is not valid: {reason}");
                return;
            }
        }
        self.carry_out(rotation, wanted, interaction);
    }

    /// The changes to make; `None` if the announcement must not be followed or changes nothing.
    pub(super) fn plan(&self, blobs: &[Vec<u8>], wanted: YesNoAsk) -> Option<Rotation> {
        if wanted == YesNoAsk::No || self.trust != Trust::Plain {
            debug3!("UpdateHostKeys: no known_hosts line of its own confirmed the host key");
            return None;
        }
        if self.files.user_paths.is_empty() {
            debug3!("UpdateHostKeys: no known_hosts file of the user to keep keys in");
            return None;
        }
        if !blobs.contains(&self.presented) {
            debug1!("UpdateHostKeys: the announced keys leave out the one in use; ignored");
            return None;
        }
        // Lines added since the checker read the files count, so the files are read again.
        let current = files::load(self.files.user_paths.iter()).ok()?;
        let mut known: Vec<Vec<u8>> = Vec::new();
        for entry in current
            .iter()
            .flat_map(KnownHosts::entries)
            .filter(|e| e.matches(&self.name))
        {
            if !is_simple(&entry) {
                debug1!("UpdateHostKeys: the host shares a line with others; nothing is changed");
                return None;
            }
            known.extend(entry.key_blob());
        }
        let mut rotation = Rotation::default();
        for blob in blobs {
            if known.contains(blob) {
                continue;
            }
            let Some(key) = self.offered_key(blob) else {
                continue;
            };
            if key.key_type() == keys::KeyType::Rsa && key.bits() < self.rules.min_rsa_bits {
                continue;
            }
            if rotation.new.len() < MAX_NEW_KEYS && !rotation.new.contains(&key) {
                rotation.new.push(key);
            }
        }
        for blob in known {
            // As in OpenSSH, a key of a type that HostKeyAlgorithms leaves out goes too, and comes
            // back when the list has it. A key of an unknown type is kept: a later version may
            // know it.
            let stays = blobs.contains(&blob) && self.offered_key(&blob).is_some();
            if !stays && PublicKey::from_blob(&blob).is_ok() {
                rotation.gone.push(blob);
            }
        }
        if rotation.new.is_empty() && rotation.gone.is_empty() {
            debug3!("UpdateHostKeys: nothing to change");
            return None;
        }
        Some(rotation)
    }

    /// Verifies a proof made with any algorithm that HostKeyAlgorithms permits and that fits the
    /// key.
    ///
    /// # Errors
    /// [`VerifyError`]; [`VerifyError::WrongAlgorithm`] for an algorithm that is not permitted.
    pub(super) fn check_proof(
        &self,
        key: &PublicKey,
        data: &[u8],
        proof: &[u8],
    ) -> Result<(), VerifyError> {
        let policy = VerifyPolicy::of_host(self.rules.min_rsa_bits);
        let permits = |named| permits(&self.rules.host_key_algorithms, named);
        let signature = Signature::from_blob_if(proof, permits)?;
        key.verify(signature.algorithm, data, proof, &policy)
    }

    /// The plain key in `blob`, if HostKeyAlgorithms permits its type; others are not parsed.
    fn offered_key(&self, blob: &[u8]) -> Option<PublicKey> {
        let name = wire::Reader::new(blob).string().ok()?;
        let (key_type, _) = KeyType::from_blob_name(name)?;
        self.rules
            .permits_plain(key_type)
            .then(|| PublicKey::from_blob(blob).ok())
            .flatten()
    }

    fn carry_out(
        &mut self,
        rotation: &Rotation,
        wanted: YesNoAsk,
        interaction: &mut dyn Interaction,
    ) {
        let report = self.report(rotation);
        if wanted == YesNoAsk::Ask {
            interaction.tell(&report);
            let answer = interaction.ask("Accept updated hostkeys? (yes/no): ", Question::Confirm);
            let yes = answer.is_some_and(|answer| answer.eq_ignore_ascii_case(b"yes"));
            if !yes {
                return;
            }
        } else {
            debug1!("{}", one_line(report.trim_end()));
        }
        if let Err(reason) = self.write(rotation) {
            info!(
                "The host keys of {} could not be updated: {reason}",
                one_line(&self.name)
            );
        }
    }

    fn report(&self, rotation: &Rotation) -> String {
        let mut text = format!("Host keys of {}:\n", one_line(&self.name));
        for key in &rotation.new {
            let label = key.key_type().label();
            text.push_str(&format!("  new: {label} {}\n", self.fingerprint_of(key)));
        }
        for blob in &rotation.gone {
            text.push_str(&format!("  gone: {}\n", keys::fingerprint::sha256(blob)));
        }
        text
    }

    fn write(&self, rotation: &Rotation) -> std::io::Result<()> {
        let mut lines = String::new();
        for key in &rotation.new {
            lines.push_str(&edit::entry_line(
                &[self.name.as_str()],
                key,
                self.hash_names,
            ));
        }
        for (index, path) in self.files.user_paths.iter().enumerate() {
            let Some(file) = files::load(std::iter::once(path))?.pop() else {
                if index == 0 && !lines.is_empty() {
                    edit::append(path, &lines)?;
                }
                continue;
            };
            let edited = edit::without_keys(&file, &self.name, &rotation.gone);
            let text = if index == 0 {
                edit::appended(&edited.text, &lines)
            } else {
                edited.text
            };
            if text != file.text() {
                files::replace(path, &text)?;
                debug1!("Updated {}", path.display());
            }
        }
        Ok(())
    }
}

/// True for a plain line of one name, which may be changed.
fn is_simple(entry: &KnownHostsEntry<'_>) -> bool {
    entry.marker == Marker::None
        && (entry.is_hashed() || !(entry.has_patterns() || entry.hosts.contains(&b',')))
}
