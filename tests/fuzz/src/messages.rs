//! Bytes of the wire: messages, packets, compressed payloads, and the monitor's RPC.

use compress::PacketCompressor;
use std::sync::Arc;

use crypto::cipher::CIPHERS;
use crypto::mac::MACS;
use packet::{OpenKeys, Splitter};
use privsep::{FrameSplitter, LoginPhase, MESSAGES, Message, ToMonitor};
use wire::message::{self, Encode};
use wire::{NameList, Reader};

macro_rules! decode_all {
    ($data:ident: $($name:ident),* $(,)?) => {$(
        if let Ok(decoded) = message::$name::decode($data) {
            let encoded = decoded.encode();
            let again = message::$name::decode(&encoded).expect("own encoding");
            assert_eq!(again, decoded, stringify!($name));
        }
    )*};
}

/// A payload, decoded as each message.
///
/// # Panics
/// If a message changes by decoding and encoding.
pub fn wire_message(data: &[u8]) {
    decode_all!(data:
        Disconnect, Ignore, Unimplemented, Debug, ServiceRequest, ServiceAccept, ExtInfo, KexInit,
        NewKeys, KexEcdhInit, KexEcdhReply, KexDhInit, KexDhReply, KexGexRequest, KexGexGroup,
        KexGssInit, KexGssContinue, KexGssComplete, KexGssHostKey, KexGssError,
        KexGexInit, KexGexReply, UserauthRequest, UserauthFailure, UserauthSuccess,
        UserauthBanner, UserauthPkOk, UserauthPasswdChangereq, UserauthInfoRequest,
        UserauthInfoResponse, UserauthGssapiResponse, UserauthGssapiToken,
        UserauthGssapiExchangeComplete, UserauthGssapiError, UserauthGssapiErrtok, UserauthGssapiMic,
        GlobalRequest, RequestSuccess, RequestFailure, ChannelOpen,
        ChannelOpenConfirmation, ChannelOpenFailure, ChannelWindowAdjust, ChannelData,
        ChannelExtendedData, ChannelEof, ChannelClose, ChannelRequest, ChannelSuccess,
        ChannelFailure, Ping, Pong,
    );
    let mut reader = Reader::new(data);
    while let Ok(kind) = reader.u8() {
        let before = reader.remaining().len();
        match kind % 8 {
            0 => drop(reader.u32()),
            1 => drop(reader.u64()),
            2 => drop(reader.string()),
            3 => drop(reader.string_max(16)),
            4 => drop(reader.utf8()),
            5 => drop(
                reader
                    .mpint()
                    .map(|value| assert!(value.bits() <= 16_384 + 8)),
            ),
            6 => drop(
                reader
                    .name_list()
                    .map(|list: NameList<'_>| list.iter().count()),
            ),
            _ => drop(reader.bool()),
        }
        assert!(reader.remaining().len() <= before);
    }
}

/// A stream of packets under keys that the first bytes choose, in pieces.
///
/// # Panics
/// If the splitter stores more than its limit.
pub fn splitter(data: &[u8]) {
    let [suite, piece, rest @ ..] = data else {
        return;
    };
    let mut splitter = Splitter::new();
    if suite % 2 == 1 {
        let cipher = CIPHERS[usize::from(suite / 2) % CIPHERS.len()].algorithm;
        let mac = MACS[usize::from(suite / 16) % MACS.len()].algorithm;
        let keys = OpenKeys::new(
            cipher,
            Some(mac),
            &vec![1; cipher.key_len()],
            &vec![2; cipher.iv_len()],
            &vec![3; mac.key_len()],
        );
        splitter.set_keys(Arc::new(keys.expect("lengths")), true);
    }
    let mut given = 0;
    let mut taken = 0;
    for bytes in rest.chunks(usize::from(*piece).max(1)) {
        splitter.handle_bytes(bytes);
        given += bytes.len();
        loop {
            match splitter.next() {
                Ok(Some(job)) => {
                    taken += job.wire_bytes();
                    assert!(job.wire_bytes() <= wire::MAX_PACKET_BYTES + 4 + 64);
                    if let Ok(opened) = job.run() {
                        assert!(!opened.payload().is_empty());
                    }
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
        assert!(taken <= given);
    }
}

/// Compressed payloads, one after the other in one stream.
///
/// # Panics
/// If the output exceeds the limit.
pub fn inflate(data: &[u8]) {
    const LIMIT: usize = 64 * 1024;
    let mut decompressor = compress::Decompressor::new();
    for payload in pieces(data) {
        let mut out = Vec::new();
        let result = decompressor.decompress(payload, &mut out, LIMIT);
        assert!(out.len() <= LIMIT);
        if result.is_err() {
            return;
        }
    }
}

/// Payloads through our own deflate, serially and as a run, of one channel or several, and back.
///
/// # Panics
/// If they change, or grow by more than a peer accepts.
pub fn deflate(data: &[u8]) {
    let Some((settings, data)) = data.split_first() else {
        return;
    };
    let level = 1 + settings % 9;
    let (adaptive, several) = (settings & 0x80 != 0, settings & 0x40 != 0);
    let mut compressor =
        compress::Compressor::new(compress::CompressionSettings { level, adaptive });
    let mut decompressor = compress::Decompressor::new();
    let mut back = |packet: &[u8], payload: &[u8]| {
        let mut out = Vec::new();
        let result = decompressor.decompress(packet, &mut out, payload.len().max(1));
        assert!(result.is_ok() || payload.is_empty(), "{result:?}");
        assert!(out == payload);
        assert!(packet.len() <= payload.len() + 17);
    };
    let payloads: Vec<&[u8]> = pieces(data).filter(|payload| !payload.is_empty()).collect();
    for (index, group) in payloads.chunks(3).enumerate() {
        if index % 2 == 0 {
            for payload in group {
                let mut packet = Vec::new();
                let origin = origin(payload, several);
                match compressor.compress_around(origin, payload, &mut packet) {
                    Ok(form) => form.complete(payload, &mut packet),
                    Err(error) => panic!("{error}"),
                }
                back(&packet, payload);
            }
            continue;
        }
        let channel = if several { index as u64 / 2 % 4 } else { 0 };
        let job = compressor.begin_run(channel, group.iter().copied());
        let mut left = group.iter();
        let done = job.run(|encoded| {
            let Some(payload) = left.next() else {
                panic!("more pieces than payloads");
            };
            match encoded {
                compress::Encoded::Stored { header } => back(&[header, payload].concat(), payload),
                compress::Encoded::Deflated(packet) => back(packet, payload),
            }
        });
        assert_eq!(left.count(), 0);
        match done {
            Ok(done) => compressor.finish_run(&done),
            Err(error) => panic!("{error}"),
        }
    }
}

/// The source of a payload, by its first byte: one of eleven channels, or none.
fn origin(payload: &[u8], several: bool) -> compress::Origin {
    use compress::Origin;
    match payload.first().map_or(0, |byte| byte % 16) {
        _ if !several => Origin::Channel(0),
        number @ 0..=10 => Origin::Channel(number.into()),
        11 => Origin::Opening,
        12 => Origin::Ping,
        _ => Origin::Other,
    }
}

/// zstd packets, one after the other in one stream; an empty one means NEWKEYS.
///
/// # Panics
/// If the output exceeds the limit, or a failed packet leaves output.
pub fn zstd_inflate(data: &[u8]) {
    const LIMIT: usize = 64 * 1024;
    let mut decompressor = compress::Decompressor::zstd();
    for packet in pieces(data) {
        let mut out = Vec::new();
        if packet.is_empty() {
            decompressor.reset();
            continue;
        }
        let result = decompressor.decompress(packet, &mut out, LIMIT);
        assert!(out.len() <= LIMIT && out.is_empty() == result.is_err());
        assert!(out.capacity() <= 4 * LIMIT);
        if result.is_err() {
            return;
        }
    }
}

/// Payloads through zstd and back, with other events of a stream between them.
///
/// # Panics
/// If they change, or grow by more than permitted.
pub fn zstd_deflate(data: &[u8]) {
    let Some((settings, data)) = data.split_first() else {
        return;
    };
    let level = 1 + settings % 9;
    let (adaptive, several) = (settings & 0x80 != 0, settings & 0x40 != 0);
    let mut compressor =
        compress::ZstdCompressor::new(compress::CompressionSettings { level, adaptive });
    let mut decompressor = compress::Decompressor::zstd();
    for payload in pieces(data) {
        match payload {
            [] => {
                compressor.reset();
                decompressor.reset();
                continue;
            }
            [level] => compressor.set_level(*level),
            [_, _] => compressor.shed(),
            _ => {}
        }
        let (mut packet, mut out) = (Vec::new(), Vec::new());
        match compressor.compress_around(origin(payload, several), payload, &mut packet) {
            Ok(form) => form.complete(payload, &mut packet),
            Err(error) => panic!("{error}"),
        }
        assert!(packet.len() <= payload.len() + 1 + 6 + 3);
        let result = decompressor.decompress(&packet, &mut out, payload.len());
        assert!(result.is_ok(), "{result:?}");
        assert!(out == payload);
        // A truncated packet is invalid: a part of a frame is not decoded by itself.
        if packet.first() == Some(&2) {
            let cut = payload.len() % packet.len();
            let short = packet.get(..cut).unwrap_or_default();
            let mut fresh = compress::Decompressor::zstd();
            assert!(fresh.decompress(short, &mut out, payload.len()).is_err());
        }
    }
}

/// Frames that the unprivileged process could send to the monitor.
///
/// # Panics
/// If a message changes by decoding and encoding.
pub fn monitor_request(data: &[u8]) {
    let mut splitter = FrameSplitter::new();
    for bytes in data.chunks(64) {
        splitter.feed(bytes);
        loop {
            match splitter.next_frame() {
                Ok(Some(frame)) => {
                    for phase in LoginPhase::ALL {
                        let permitted = privsep::permitted(phase, frame.number);
                        assert!(!permitted || MESSAGES.iter().any(|m| m.number == frame.number));
                    }
                    frame_of_any_kind(&frame);
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
}

macro_rules! each_message {
    ($($name:ident),* $(,)?) => {
        /// The messages that each frame is decoded as, whatever its number.
        #[cfg(test)]
        const DECODED: &[&str] = &[$(stringify!($name)),*];

        fn frame_of_any_kind(frame: &privsep::Frame) {
            let _ = ToMonitor::decode(frame);
            $(if let Ok(message) = privsep::$name::decode_body(&frame.body) {
                let again = privsep::$name::decode_body(&message.encode_body());
                assert_eq!(again.as_ref(), Ok(&message), stringify!($name));
            })*
        }
    };
}

each_message!(
    Log,
    ChooseGroup,
    SignExchangeHash,
    User,
    AuthNone,
    AuthPassword,
    KbdintStart,
    KbdintRespond,
    KeyQuery,
    KeyVerify,
    Snapshot,
    AuthOther,
    HostbasedVerify,
    GssapiStart,
    GssapiToken,
    GssapiMic,
    GssExchange,
    GssapiKeyex,
    HostkeysProve,
    PtyAllocate,
    PtyRelease,
    TunnelOpen,
    TrafficReport,
    AuthStart,
    Group,
    Signature,
    UserPolicy,
    AuthOutcome,
    KbdintPrompts,
    KeyAnswer,
    AuthConnection,
    GssapiReady,
    GssapiErrorToken,
    GssOutcome,
    SessionGrant,
    HostkeysProof,
    PtyGranted,
    PtyRefused,
    TunnelGranted,
    TunnelRefused,
    MonitorStart,
    MonitorSecrets,
    MonitorConnection,
    ReadHeader,
    HeaderRead,
    AnswerRequest,
    AttemptsReport,
    SessionReport,
);

/// `data` as pieces, each after a length of two bytes.
pub(crate) fn pieces(mut data: &[u8]) -> impl Iterator<Item = &[u8]> {
    core::iter::from_fn(move || {
        let ([a, b], rest) = data.split_first_chunk::<2>()?;
        let len = usize::from(u16::from_be_bytes([*a, *b])).min(rest.len());
        let (piece, rest) = rest.split_at(len);
        data = rest;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_decoded_as_every_message_of_the_table() {
        let names: Vec<&str> = MESSAGES.iter().map(|message| message.name).collect();
        assert_eq!(DECODED, names);
    }
}
