//! The lying endpoint, at the level of packets. Its key exchange is in `exchange`, its KEXINIT in
//! `offer`, its logins in `login`.

use compress::PacketCompressor;
use std::sync::Arc;

use compress::{CompressionSettings, Compressor, Decompressor, ZstdCompressor};
use packet::{OpenKeys, PacketBuf, SealKeys, Sequencer, Splitter};
use proto::Role;
use wire::message::{Disconnect, Encode};

use crate::subject::Subject;

mod exchange;
mod login;
mod offer;

pub use exchange::{HostKey, Reply};
pub use login::{publickey_fields, signed_data, userauth};
pub use offer::Offer;

/// Limit on inflated data, bytes.
const MAX_INFLATED_BYTES: usize = 1 << 20;

/// An endpoint that sends what the test requests.
pub struct Adversary<V> {
    /// The program under test.
    pub subject: V,
    /// Its role.
    pub role: Role,
    /// Its version line without CR LF.
    pub version: String,
    /// The subject's version line, once it has arrived.
    pub subject_version: String,
    /// The subject's DISCONNECT.
    pub goodbye: Option<(u32, String)>,
    /// Sequence number of the last received packet.
    pub received: u32,
    /// H of the first exchange.
    pub session_id: Option<Vec<u8>>,
    /// True if both announced strict key exchange in the first KEXINIT.
    pub strict: bool,
    /// The host key that it proves as a server, or received as a client.
    pub host_key: HostKey,
    sequencer: Sequencer,
    splitter: Splitter,
    state: exchange::State,
    deflate: Option<Deflate>,
    inflate: Option<Decompressor>,
}

enum Deflate {
    Zlib(Compressor),
    Zstd(ZstdCompressor),
}

impl<V: Subject> Adversary<V> {
    /// An endpoint that has sent nothing yet.
    pub fn new(subject: V, role: Role) -> Self {
        Self {
            subject,
            role,
            version: "SSH-2.0-Adversary_1.0".into(),
            subject_version: String::new(),
            goodbye: None,
            received: 0,
            session_id: None,
            strict: false,
            host_key: HostKey::default(),
            sequencer: Sequencer::new(),
            splitter: Splitter::new(),
            state: exchange::State::default(),
            deflate: None,
            inflate: None,
        }
    }

    // ---- out ------------------------------------------------------------------------------

    /// Sends raw bytes. Returns false if the subject is gone.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> bool {
        self.subject.deliver(bytes)
    }

    /// Sends one packet. Returns false if the subject is gone.
    pub fn send(&mut self, payload: &[u8]) -> bool {
        let packet = self.seal(payload);
        self.subject.deliver(&packet)
    }

    /// Sends one message.
    pub fn say(&mut self, message: &impl Encode) -> bool {
        self.send(&message.encode())
    }

    /// Seals packets without sending them, to be delivered in one piece.
    pub fn seal(&mut self, payload: &[u8]) -> Vec<u8> {
        let mut buf = match &mut self.deflate {
            None => PacketBuf::from_payload(payload),
            Some(deflate) => {
                let mut small = Vec::new();
                match deflate {
                    Deflate::Zlib(zlib) => zlib.compress(payload, &mut small),
                    Deflate::Zstd(zstd) => zstd.compress(payload, &mut small),
                }
                .expect("it is compressed");
                PacketBuf::from_payload(&small)
            }
        };
        buf.conceal_length(0);
        let job = self
            .sequencer
            .stamp(buf)
            .expect("a payload that fits into a packet");
        job.run().wire().to_vec()
    }

    /// Sends a payload as one packet although compression is on: the subject inflates these bytes.
    pub fn send_deflated_as_is(&mut self, deflated: &[u8]) -> bool {
        let buf = PacketBuf::from_payload(deflated);
        let packet = self
            .sequencer
            .stamp(buf)
            .expect("a payload that fits")
            .run();
        self.subject.deliver(packet.wire())
    }

    /// Starts compression after both sides negotiated `zlib@openssh.com` and the login succeeded.
    pub fn start_compression(&mut self) {
        self.deflate = Some(Deflate::Zlib(Compressor::with_level(9)));
        self.inflate = Some(Decompressor::new());
    }

    /// Starts compression after both sides negotiated zstd and the login succeeded.
    pub fn start_zstd(&mut self) {
        self.deflate = Some(Deflate::Zstd(ZstdCompressor::new(
            CompressionSettings::default(),
        )));
        self.inflate = Some(Decompressor::zstd());
    }

    // ---- in -------------------------------------------------------------------------------

    /// The next payload; `None` if the subject is silent (in memory) or gone.
    ///
    /// # Panics
    /// If a packet cannot be opened.
    pub fn next_payload(&mut self) -> Option<Vec<u8>> {
        if self.goodbye.is_some() {
            return None;
        }
        loop {
            if let Some(job) = self.splitter.next().expect("an honest frame") {
                let opened = job.run().expect("an honest packet");
                self.received = opened.sequence();
                let payload = match &mut self.inflate {
                    None => opened.payload().to_vec(),
                    Some(inflate) => {
                        let (small, mut out) = (opened.payload(), Vec::new());
                        inflate
                            .decompress(small, &mut out, MAX_INFLATED_BYTES)
                            .expect("it inflates");
                        out
                    }
                };
                if payload.first() == Some(&1) {
                    let bye = Disconnect::decode(&payload).expect("a DISCONNECT");
                    let words = String::from_utf8_lossy(bye.description).into_owned();
                    self.goodbye = Some((bye.reason, words));
                    return None;
                }
                if payload.first() == Some(&21) {
                    self.switch_receiving();
                }
                return Some(payload);
            }
            let bytes = self.subject.collect()?;
            self.splitter.handle_bytes(&bytes);
        }
    }

    /// The next payload with this message number; earlier ones are ignored.
    ///
    /// # Panics
    /// If the subject falls silent or ends earlier.
    pub fn expect(&mut self, number: u8) -> Vec<u8> {
        let mut passed = Vec::new();
        while let Some(payload) = self.next_payload() {
            match payload.first() {
                Some(first) if *first == number => return payload,
                first => passed.push(first.copied().unwrap_or_default()),
            }
        }
        panic!(
            "message {number} did not come, but {passed:?}, then {:?}{}",
            self.goodbye,
            self.subject.state()
        );
    }

    /// Everything that the subject sends until it is silent or gone.
    pub fn rest(&mut self) -> Vec<Vec<u8>> {
        core::iter::from_fn(|| self.next_payload()).collect()
    }

    /// Reads to the end; returns true if the subject has ended the connection.
    ///
    /// If a TCP subject neither sends anything nor ends.
    pub fn ends(&mut self) -> bool {
        while self.next_payload().is_some() {}
        while self.subject.collect().is_some() {}
        self.subject.has_ended()
    }

    /// Checks that the subject has ended the connection with a DISCONNECT that contains these words.
    ///
    /// # Panics
    /// If it has not.
    pub fn ends_with(&mut self, words: &str) {
        assert!(
            self.ends(),
            "the subject goes on where it should say {words:?}"
        );
        let said = self.goodbye.clone().unwrap_or_default();
        assert!(
            said.1.contains(words),
            "goodbye {said:?} instead of {words:?}{}",
            self.subject.state()
        );
    }

    // ---- keys -----------------------------------------------------------------------------

    fn set_sending(&mut self, keys: SealKeys) {
        self.sequencer.set_keys(Arc::new(keys), self.strict);
    }

    fn set_receiving(&mut self, keys: OpenKeys) {
        self.splitter.set_keys(Arc::new(keys), self.strict);
    }
}
