//! The bodies of the fuzz targets: one function for each kind of foreign bytes.
//!
//! `fuzz/` wraps each of them for cargo-fuzz. The test of this crate replays the corpora of
//! `corpus/` and a fixed number of mutations of them, so that every check of the project runs them
//! without a nightly compiler. A body panics if a property does not hold: nothing else may panic,
//! and a decoded value must encode to bytes that decode to the same value.
//!
//! `cargo run -p fuzz-bodies --example seeds` writes the corpora anew.
#![forbid(unsafe_code)]

pub mod agent;
pub mod configuration;
pub mod connection;
pub mod dns;
pub mod files;
pub mod forward;
pub mod key_exchange;
pub mod messages;
pub mod mutate;
pub mod packets;
pub mod security_keys;
pub mod seeds;
pub mod sftp;
pub mod sharing;
pub mod tokens;

/// A body: accepts any bytes, panics only for a defect.
pub type Body = fn(&[u8]);

/// Every target: its name, which is also the name of its corpus, and its body.
pub const TARGETS: &[(&str, Body)] = &[
    ("wire_message", messages::wire_message),
    ("splitter", messages::splitter),
    ("monitor_request", messages::monitor_request),
    ("private_key_file", files::private_key_file),
    ("key_blob", files::key_blob),
    ("known_hosts", files::known_hosts),
    ("authorized_keys", files::authorized_keys),
    ("revocation_list", files::revocation_list),
    ("ssh_config", configuration::ssh_config),
    ("sshd_config", configuration::sshd_config),
    ("server_before_login", connection::server_before_login),
    ("client_before_login", connection::client_before_login),
    ("after_login", connection::after_login),
    ("snapshot", connection::snapshot),
    ("deflate", messages::deflate),
    ("inflate", messages::inflate),
    ("zstd_deflate", messages::zstd_deflate),
    ("zstd_inflate", messages::zstd_inflate),
    ("sftp_stream", sftp::sftp_stream),
    ("tunnel_packets", packets::tunnel_packets),
    ("sntrup_exchange", key_exchange::sntrup_exchange),
    ("socks_request", forward::socks_request),
    ("forward_fields", forward::forward_fields),
    ("agent_request", agent::agent_request),
    ("agent_answer", agent::agent_answer),
    ("datagrams", forward::datagrams),
    ("mux_message", sharing::mux_message),
    ("dns_answer", dns::dns_answer),
    ("ctap_cbor", security_keys::ctap_cbor),
    ("allowed_signers", files::allowed_signers),
    ("file_signature", files::file_signature),
    ("token_reply", tokens::token_reply),
];
