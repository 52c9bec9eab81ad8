//! `-v`: what the client reports about a connection's keys and its compression.

use config::client::CompressionOptions;
use config::types::{Compression, HwCompression};
use driver::Driver;
use proto::{Connection, Negotiated};

use crate::log::{debug1, debug2};
use crate::text::one_line;

/// Logs the algorithms that a key exchange agreed on.
pub(crate) fn note_keys(negotiated: &Negotiated, first: bool) {
    if !first {
        debug1!("keys were exchanged again");
    }
    if let Some(group) = negotiated.group_exchange {
        let (min, preferred, max) = group.requested;
        debug1!("SSH2_MSG_KEX_DH_GEX_REQUEST({min}<{preferred}<{max}) sent");
        debug2!("bits set: {}/{}", group.bits_set, group.bits);
    }
    // Scripts count key exchanges by these two lines of OpenSSH's -v.
    debug1!("SSH2_MSG_NEWKEYS sent");
    debug1!("SSH2_MSG_NEWKEYS received");
    debug1!("kex: algorithm: {}", negotiated.kex);
    debug1!("kex: host key algorithm: {}", negotiated.host_key);
    for (name, direction) in [
        ("server->client", &negotiated.server_to_client),
        ("client->server", &negotiated.client_to_server),
    ] {
        debug1!(
            "kex: {name} cipher: {} MAC: {} compression: {}",
            direction.cipher,
            direction.mac,
            direction.compression
        );
    }
    if negotiated.strict_kex {
        debug2!("kex: both sides follow strict KEX");
    }
}

/// `-v`: logs that outgoing data is compressed from now on, and by which engine; or that a
/// requested library is not used.
pub(crate) fn announce_compression(compression: &CompressionOptions, connection: &mut Connection) {
    if !connection.is_compressing() {
        if compression.hw != HwCompression::No {
            let why = match compression.method.is_on() {
                false => "is not enabled (Compression, -C)",
                true => "was not agreed on",
            };
            debug1!("compression {why}: EnableHwCompression has no effect");
        }
        return;
    }
    let level = compression.level;
    debug1!("Enabling compression at level {level}.");
    let adaptive = if compression.adaptive {
        ", adaptive"
    } else {
        ""
    };
    let engine = connection.compress_engine().unwrap_or_default();
    let Some(compressor) = connection.compressor() else {
        let own = proto::zstd_level(level);
        debug1!("compression: engine {engine}, its level {own}, threads 1{adaptive}");
        return;
    };
    let library = compressor.has_provider();
    if compression.method == Compression::Zstd {
        let why = if compression.hardware().is_some() {
            "EnableHwCompression asks for a library"
        } else {
            "the server does not offer it"
        };
        debug1!("compression: zlib instead of zstd: {why}");
    }
    let threads = compression
        .threads
        .map_or("auto".to_owned(), |threads| threads.to_string());
    if library {
        let engine = one_line(&engine);
        debug1!("compression: deflate engine {engine}, threads {threads}{adaptive}");
    } else {
        debug1!("compression: deflate engine internal (packet mode), threads {threads}{adaptive}");
    }
}

/// `-v`: logs the compression totals of both directions.
pub(crate) fn tell_compression(driver: &mut Driver) {
    for line in compression_lines(driver.connection()) {
        debug1!("{line}");
    }
}

/// The compression totals so far and the engine, one line each.
pub(crate) fn compression_lines(connection: &mut Connection) -> Vec<String> {
    let mut lines = Vec::new();
    if let (Some(report), Some(engine), Some(level)) = (
        connection.compress_report(),
        connection.compress_engine(),
        connection.compress_level(),
    ) {
        lines.push(report.totals.line("outgoing"));
        lines.push(report.line());
        let engine = one_line(&engine);
        let asked = connection.compress_settings().level;
        lines.push(format!(
            "compress outgoing: engine {engine}, now at level {level}, asked for {asked}"
        ));
    }
    if let Some(totals) = connection.inflate_totals() {
        lines.push(totals.line("incoming"));
    }
    lines
}
