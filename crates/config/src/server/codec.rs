//! The encoded form of a loaded sshd_config, for the sealed memory file that a re-executed role reads instead of
//! the files.
//!
//! All lengths are checked: a damaged blob gives an error, never a partly filled configuration. The
//! form belongs to this build only (keywords are identified by their row in the table), and both
//! ends are the same program file; it is not stored on disk.

use crate::codec::{Decoder, ENCODED_OPTIONS_BYTES, Encoder, OPTIONS_MAGIC};
use crate::error::ConfigError;
use crate::server::matching::Criterion;
use crate::server::table::ServerOptions;
use crate::server::table::{Row, SERVER_TABLE};
use crate::server::{Section, ServerConfig, build};
use crate::value::Values;

const CONFIG_MAGIC: &[u8] = b"fulmar sshd_config 2";

/// Keywords that the unprivileged process before login needs. The monitor keeps the others to
/// itself: file names, who may log in, and what happens after login.
const FOR_AUTH: &[Row] = &[
    Row::LoginGraceTime,
    Row::MaxAuthTries,
    Row::ClientAliveInterval,
    Row::ClientAliveCountMax,
    Row::RequiredRSASize,
    Row::PubkeyAuthentication,
    Row::PasswordAuthentication,
    Row::KbdInteractiveAuthentication,
    Row::PermitEmptyPasswords,
    Row::AuthenticationMethods,
    Row::UsePAM,
    Row::Compression,
    Row::FingerprintHash,
    Row::Ciphers,
    Row::MACs,
    Row::KexAlgorithms,
    Row::GSSAPIKeyExchange,
    Row::GSSAPIKexAlgorithms,
    Row::HostKeyAlgorithms,
    Row::PubkeyAcceptedAlgorithms,
    Row::CASignatureAlgorithms,
    Row::PubkeyAuthOptions,
    Row::RefuseConnection,
    Row::VersionNamesOpenSSH,
    Row::VersionAddendum,
    Row::LogLevel,
    Row::RekeyLimit,
    Row::ModuliFile,
    Row::IPQoS,
    Row::WarnWeakCrypto,
];

impl ServerConfig {
    /// Encodes the whole configuration with its Match blocks, for [`ServerConfig::decode`].
    /// Contains no secrets: keys are named by file.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::new(CONFIG_MAGIC);
        out.flag(self.aes_hardware);
        out.count(self.sections.len());
        for section in &self.sections {
            out.count(section.conditions.len());
            for criteria in &section.conditions {
                out.count(criteria.len());
                for criterion in criteria {
                    let (number, argument) = criterion.parts();
                    out.byte(number);
                    out.text(&argument);
                }
            }
            out.count(section.entries.len());
            for (index, value) in &section.entries {
                out.row(*index);
                out.value(value);
            }
        }
        out.finish()
    }

    /// Decodes the bytes of [`ServerConfig::encode`]. Warnings are not included.
    ///
    /// # Errors
    /// [`ConfigError::Damaged`] if the bytes are damaged or come from another build.
    pub fn decode(bytes: &[u8]) -> Result<ServerConfig, ConfigError> {
        let mut input = Decoder::new(bytes, CONFIG_MAGIC)?;
        let aes_hardware = input.flag()?;
        let mut sections = Vec::new();
        for _ in 0..input.count()? {
            let mut conditions = Vec::new();
            for _ in 0..input.count()? {
                let mut criteria = Vec::new();
                for _ in 0..input.count()? {
                    let number = input.byte()?;
                    let criterion = Criterion::from_parts(number, input.text()?);
                    criteria.push(criterion.ok_or(ConfigError::Damaged("unknown criterion"))?);
                }
                conditions.push(criteria);
            }
            let mut entries = Vec::new();
            for _ in 0..input.count()? {
                let row = input.row(SERVER_TABLE.len())?;
                entries.push((row, input.value(SERVER_TABLE, row)?));
            }
            sections.push(Section {
                conditions,
                entries,
            });
        }
        input.finish()?;
        Ok(ServerConfig::from_sections(sections, aes_hardware))
    }

    /// The configuration for the unprivileged process before a user is known: the global part only,
    /// without file names, user lists and what happens after login. The monitor sends the effect of
    /// Match blocks later, as [`ServerOptions::reduced_for_auth`].
    pub fn reduced_for_auth(&self) -> ServerConfig {
        let mut sections = Vec::new();
        for section in self
            .sections
            .iter()
            .filter(|section| section.conditions.is_empty())
        {
            sections.push(Section {
                conditions: Vec::new(),
                entries: section
                    .entries
                    .iter()
                    .filter(|(index, _)| is_for_auth(*index))
                    .cloned()
                    .collect(),
            });
        }
        ServerConfig::from_sections(sections, self.aes_hardware)
    }
}

impl ServerOptions {
    /// Encodes these options for [`ServerOptions::decode`].
    pub fn encode(&self) -> Vec<u8> {
        self.source.clone()
    }

    /// Encodes [`reduced_for_auth`](Self::reduced_for_auth) for [`ServerOptions::decode`].
    pub fn encode_for_auth(&self) -> Vec<u8> {
        // If this fails, decoding the result reports it.
        copied(&self.source, is_for_auth).unwrap_or_default()
    }

    /// Decodes the bytes of [`ServerOptions::encode`].
    ///
    /// # Errors
    /// [`ConfigError::Damaged`] if the bytes are damaged or come from another build.
    pub fn decode(bytes: &[u8]) -> Result<ServerOptions, ConfigError> {
        let (aes_hardware, values) = decoded_values(bytes)?;
        build::build_decoded(values, aes_hardware, true)
    }

    /// As [`decode`](Self::decode), for a process that only reads the options: they keep each
    /// string once, and cannot be encoded or dumped.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub fn decode_to_read(bytes: &[u8]) -> Result<ServerOptions, ConfigError> {
        let (aes_hardware, values) = decoded_values(bytes)?;
        build::build_decoded(values, aes_hardware, false)
    }

    /// The same options for the unprivileged process before login: all keywords that it does not
    /// need have their defaults.
    pub fn reduced_for_auth(&self) -> ServerOptions {
        let (aes_hardware, mut values) = self.parts();
        for index in 0..values.len() {
            if !is_for_auth(index) {
                values.clear(index);
            }
        }
        build::build(values, aes_hardware)
    }

    /// The values by keyword.
    pub(crate) fn values(&self) -> Values {
        self.parts().1
    }

    fn parts(&self) -> (bool, Values) {
        let parts = decoded_values(&self.source);
        parts.unwrap_or_else(|_| (false, Values::empty(SERVER_TABLE.len())))
    }
}

fn decoded_values(bytes: &[u8]) -> Result<(bool, Values), ConfigError> {
    let mut input = Decoder::new(bytes, OPTIONS_MAGIC)?;
    let aes_hardware = input.flag()?;
    let mut values = Values::empty(SERVER_TABLE.len());
    for _ in 0..input.count()? {
        let index = input.row(SERVER_TABLE.len())?;
        values.put(index, input.value(SERVER_TABLE, index)?);
    }
    input.finish()?;
    Ok((aes_hardware, values))
}

/// Copies the encoded values of the wanted keywords.
fn copied(source: &[u8], wanted: impl Fn(usize) -> bool) -> Result<Vec<u8>, ConfigError> {
    let mut input = Decoder::new(source, OPTIONS_MAGIC)?;
    let aes_hardware = input.flag()?;
    let mut rows = Vec::with_capacity(SERVER_TABLE.len());
    for _ in 0..input.count()? {
        let index = input.row(SERVER_TABLE.len())?;
        let value = input.encoded_value()?;
        if wanted(index) {
            rows.push((index, value));
        }
    }
    input.finish()?;
    let mut out = Encoder::with_room(OPTIONS_MAGIC, ENCODED_OPTIONS_BYTES);
    out.flag(aes_hardware);
    out.count(rows.len());
    for (index, value) in rows {
        out.row(index);
        out.encoded(value);
    }
    Ok(out.finish())
}

fn is_for_auth(index: usize) -> bool {
    FOR_AUTH.iter().any(|key| key.index() == index)
}
