//! The encoded form of a loaded sshd_config, for the sealed memory file that a re-executed role reads instead of
//! the files.
//!
//! Length-checked throughout: a damaged blob gives an error, never a partly filled configuration. The form is of
//! this build only (keywords go by their row in the table), and both ends are the same program file; it is not
//! kept on disk.

use crate::codec::{Decoder, Encoder};
use crate::error::ConfigError;
use crate::server::matching::Criterion;
use crate::server::options::ServerOptions;
use crate::server::table::{Row, SERVER_TABLE};
use crate::server::{Section, ServerConfig, build};
use crate::value::Values;

const CONFIG_MAGIC: &[u8] = b"fulmar sshd_config 2";
const OPTIONS_MAGIC: &[u8] = b"fulmar server options 2";

/// Keywords that the unprivileged half before login works with. The monitor keeps the rest to itself: file
/// names, who may log in, and what happens after login.
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
    Row::HostKeyAlgorithms,
    Row::PubkeyAcceptedAlgorithms,
    Row::CASignatureAlgorithms,
    Row::PubkeyAuthOptions,
    Row::RefuseConnection,
    Row::VersionAddendum,
    Row::LogLevel,
    Row::RekeyLimit,
    Row::ModuliFile,
    Row::IPQoS,
];

impl ServerConfig {
    /// The whole configuration with its Match blocks, as bytes for [`ServerConfig::decode`]. Holds no secrets:
    /// keys are named by file.
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

    /// Reads what [`ServerConfig::encode`] wrote. Warnings do not travel.
    ///
    /// # Errors
    /// When the bytes are damaged or come from another build.
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
                entries.push((input.row(SERVER_TABLE.len())?, input.value()?));
            }
            sections.push(Section {
                conditions,
                entries,
            });
        }
        input.finish()?;
        Ok(ServerConfig::from_sections(sections, aes_hardware))
    }

    /// The configuration for the unprivileged half before a user is known: the global part only, without file
    /// names, user lists and what happens after login. What Match blocks say comes later from the monitor, as
    /// [`ServerOptions::reduced_for_auth`].
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
    /// These options as bytes for [`ServerOptions::decode`].
    pub fn encode(&self) -> Vec<u8> {
        self.encode_where(|_| true)
    }

    /// [`reduced_for_auth`](Self::reduced_for_auth) as bytes for [`ServerOptions::decode`].
    pub fn encode_for_auth(&self) -> Vec<u8> {
        self.encode_where(is_for_auth)
    }

    fn encode_where(&self, wanted: impl Fn(usize) -> bool) -> Vec<u8> {
        let rows: Vec<_> = (0..self.values.len())
            .filter(|index| wanted(*index))
            .filter_map(|index| Some((index, self.values.at(index)?)))
            .collect();
        let mut out = Encoder::new(OPTIONS_MAGIC);
        out.flag(self.aes_hardware);
        out.count(rows.len());
        for (index, value) in rows {
            out.row(index);
            out.value(value);
        }
        out.finish()
    }

    /// Reads what [`ServerOptions::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes are damaged or come from another build.
    pub fn decode(bytes: &[u8]) -> Result<ServerOptions, ConfigError> {
        let mut input = Decoder::new(bytes, OPTIONS_MAGIC)?;
        let aes_hardware = input.flag()?;
        let mut values = Values::empty(SERVER_TABLE.len());
        for _ in 0..input.count()? {
            let index = input.row(SERVER_TABLE.len())?;
            values.put(index, input.value()?);
        }
        input.finish()?;
        Ok(build::build(values, aes_hardware))
    }

    /// The same options for the unprivileged half before login: everything that it does not work with is back at
    /// its default.
    pub fn reduced_for_auth(&self) -> ServerOptions {
        let mut values = self.values.clone();
        for index in 0..values.len() {
            if !is_for_auth(index) {
                values.clear(index);
            }
        }
        build::build(values, self.aes_hardware)
    }
}

fn is_for_auth(index: usize) -> bool {
    FOR_AUTH.iter().any(|key| key.index() == index)
}
