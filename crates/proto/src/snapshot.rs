//! Snapshot of a live connection, which passes it from the process that authenticated the user to
//! the process that serves the user; the first process then ends.
//!
//! The snapshot holds keys, both packet positions, the session identifier and the bytes that were
//! read but not opened. It names no user and grants nothing: user and permissions come from the
//! monitor. Its writer had no privileges, so its reader drops its own before it reads the snapshot.

use alloc::string::String;
use alloc::vec::Vec;

use crypto::cipher::CipherAlgorithm;
use crypto::kex::KexAlgorithm;
use crypto::mac::MacAlgorithm;
use keys::SignatureAlgorithm;
use packet::Position;
use wire::{DecodeError, Put, Reader, names};
use zeroize::Zeroizing;

use crate::config::Compression;
use crate::connection::{Connection, ConnectionStage};
use crate::transport::{
    Agreement, DirectionSuite, EpochKeys, Inbound, Outbound, PeerExtensions, Transport,
    TransportSession, VersionExchange,
};
use crate::{Error, Millis, Role, ServerHostKey, TransportConfig};

/// First bytes of each snapshot: name and format version.
const MAGIC: &[u8] = b"fulmar-snapshot-1";

fn put_keys(out: &mut Vec<u8>, keys: &EpochKeys) {
    put_suite(out, &keys.suite);
    out.put_string(&keys.key);
    out.put_string(&keys.iv);
    out.put_string(&keys.mac_key);
}

fn put_suite(out: &mut Vec<u8>, suite: &DirectionSuite) {
    out.put_string(suite.cipher.name().as_bytes());
    out.put_string(suite.mac.map_or("", |mac| mac.name()).as_bytes());
    out.put_string(suite.compression.name().as_bytes());
}

fn put_position(out: &mut Vec<u8>, state: &Position) {
    out.put_u32(state.sequence);
    out.put_u64(state.packets);
    out.put_u64(state.bytes);
    out.put_u64(state.blocks);
    out.extend_from_slice(&state.last_block);
}

fn read_keys(reader: &mut Reader<'_>) -> Result<EpochKeys, DecodeError> {
    Ok(EpochKeys {
        suite: read_suite(reader)?,
        key: Zeroizing::new(reader.string_max(256)?.to_vec()),
        iv: Zeroizing::new(reader.string_max(256)?.to_vec()),
        mac_key: Zeroizing::new(reader.string_max(256)?.to_vec()),
    })
}

fn read_suite(reader: &mut Reader<'_>) -> Result<DirectionSuite, DecodeError> {
    let cipher = CipherAlgorithm::from_name(reader.utf8()?)
        .ok_or(DecodeError::Malformed("unknown cipher"))?;
    let mac = match reader.utf8()? {
        "" => None,
        name => Some(MacAlgorithm::from_name(name).ok_or(DecodeError::Malformed("unknown MAC"))?),
    };
    let compression = Compression::from_name(reader.utf8()?)
        .ok_or(DecodeError::Malformed("unknown compression"))?;
    Ok(DirectionSuite {
        cipher,
        mac,
        compression,
    })
}

fn read_position(reader: &mut Reader<'_>) -> Result<Position, DecodeError> {
    Ok(Position {
        sequence: reader.u32()?,
        packets: reader.u64()?,
        bytes: reader.u64()?,
        blocks: reader.u64()?,
        last_block: reader.array()?,
    })
}

impl Connection {
    /// Serializes a server's connection right after login, with no output queued.
    ///
    /// # Errors
    /// [`Error::Misuse`] at any other time, and on a client.
    pub fn snapshot(self) -> Result<Zeroizing<Vec<u8>>, Error> {
        let transport = &self.transport;
        let clean =
            !transport.outbound.has_output() && transport.is_settled() && self.channel_count() == 0;
        let is_server = transport.role == Role::Server;
        if self.stage != ConnectionStage::Connected || !clean || !is_server {
            return Err(Error::Misuse(
                "a snapshot is possible only right after login, with nothing outstanding",
            ));
        }
        let (Some(session), Some(received), Some(sent), Some(peer_version)) = (
            transport.exchange.session(),
            transport.inbound.export(),
            transport.outbound.export(),
            transport.versions.peer(),
        ) else {
            return Err(Error::Bug("logged in without keys"));
        };
        let ((received, c2s, unread), (sent, s2c)) = (received, sent);
        // Allocated once: growth would leave copies of keys in freed memory.
        let mut out = Zeroizing::new(Vec::with_capacity(
            unread.len() + session.host_key.len() + 8192,
        ));
        out.put_string(MAGIC);
        out.put_string(transport.versions.ours().as_bytes());
        out.put_string(peer_version.as_bytes());
        out.put_string(&session.id);
        out.put_string(&session.host_key);
        out.put_bool(session.strict_kex);
        out.put_bool(session.peer_wants_ext_info);
        out.put_u32(transport.extensions.early_data);
        out.put_bool(transport.extensions.reset);
        out.put_string(session.agreement.kex.name().as_bytes());
        out.put_string(session.agreement.host_key_name().as_bytes());
        put_keys(&mut out, c2s);
        put_keys(&mut out, s2c);
        put_position(&mut out, &sent);
        put_position(&mut out, &received);
        out.put_string(unread);
        Ok(out)
    }

    /// Restores a server's connection from a snapshot.
    ///
    /// # Errors
    /// [`Error::Malformed`] for an invalid snapshot; [`Error::Misuse`] for a configuration with
    /// unknown algorithm names or without a usable host key.
    pub fn resume(
        snapshot: &[u8],
        config: TransportConfig,
        host_keys: Vec<ServerHostKey>,
        now: Millis,
    ) -> Result<Self, Error> {
        let mut reader = Reader::new(snapshot);
        if reader.string()? != MAGIC {
            return Err(DecodeError::Malformed("not a snapshot of this version").into());
        }
        let our_version = String::from(reader.utf8()?);
        let peer_version = String::from(reader.utf8()?);
        let id = reader.string_max(64)?.to_vec();
        let host_key = reader.string_max(keys::MAX_BLOB_BYTES)?.to_vec();
        let strict_kex = reader.bool()?;
        let peer_wants_ext_info = reader.bool()?;
        let extensions = PeerExtensions {
            early_data: reader.u32()?,
            reset: reader.bool()?,
            ..PeerExtensions::default()
        };
        let kex = KexAlgorithm::from_name(reader.utf8()?)
            .ok_or(DecodeError::Malformed("unknown key exchange method"))?;
        let host_key_algorithm = match reader.utf8()? {
            names::HOST_KEY_NULL => None,
            name => Some(
                SignatureAlgorithm::from_name(name)
                    .ok_or(DecodeError::Malformed("unknown host key algorithm"))?,
            ),
        };
        if kex.is_gss() != host_key.is_empty() {
            return Err(DecodeError::Malformed("a host key that does not fit the method").into());
        }
        let c2s = read_keys(&mut reader)?;
        let s2c = read_keys(&mut reader)?;
        let sent = read_position(&mut reader)?;
        let received = read_position(&mut reader)?;
        let unread = reader.string()?;
        reader.finish()?;

        let session = TransportSession {
            id,
            host_key,
            host_signature: Vec::new(),
            strict_kex,
            peer_wants_ext_info,
            agreement: Agreement {
                kex,
                host_key: host_key_algorithm,
                c2s: c2s.suite,
                s2c: s2c.suite,
            },
        };
        let versions = VersionExchange::resumed(our_version, peer_version);
        let inbound = Inbound::resumed(received, c2s, unread)?;
        let outbound = Outbound::resumed(config.deflate, sent, s2c)?;
        let directions = (inbound, outbound);
        let mut transport =
            Transport::resumed(config, host_keys, versions, session, directions, now)?;
        transport.extensions = extensions;
        Ok(Self::over(transport, ConnectionStage::Connected))
    }
}
