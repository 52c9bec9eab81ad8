//! The adversary's key exchange, step by step (RFC 4253 §7–8, RFC 5656, RFC 8731, the hybrids): each
//! step can be left out, repeated or replaced. The tests of group exchange send its messages
//! themselves.

use crypto::cipher::CipherAlgorithm;
use crypto::hash::{HashAlgorithm, Hasher};
use crypto::kex::{Initiator, KexAlgorithm, KexFamily, SecretEncoding, SharedSecret};
use crypto::mac::MacAlgorithm;
use keys::{PrivateKey, SignatureAlgorithm};
use packet::{OpenKeys, SealKeys};
use proto::Role;
use wire::message::{Encode, KexDhInit, KexDhReply, KexEcdhInit, KexEcdhReply, KexInit, NewKeys};
use wire::{Mpint, NameList, Put, names};

use super::{Adversary, Offer};
use crate::subject::Subject;

/// The adversary's host key as a server.
pub struct HostKey {
    /// The key.
    pub private: PrivateKey,
    /// The signature algorithm.
    pub algorithm: SignatureAlgorithm,
}

impl Default for HostKey {
    fn default() -> Self {
        Self {
            private: PrivateKey::from_ed25519_seed(&[9; 32]),
            algorithm: SignatureAlgorithm::Ed25519,
        }
    }
}

/// The false values in a lying server's KEX_*_REPLY.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// Another host key blob; it also enters the exchange hash.
    pub host_key: Option<Vec<u8>>,
    /// Another public value.
    pub public: Option<Vec<u8>>,
    /// Another signature blob.
    pub signature: Option<Vec<u8>>,
}

#[derive(Default)]
pub(super) struct State {
    ours: Vec<u8>,
    theirs: Vec<u8>,
    initiator: Option<(Initiator, Vec<u8>)>,
    seal: Option<SealKeys>,
    open: Option<OpenKeys>,
    /// H of the current exchange.
    hash: Vec<u8>,
}

impl<V: Subject> Adversary<V> {
    /// Version lines in both directions.
    ///
    /// # Panics
    /// If the subject sends none.
    pub fn hello(&mut self) {
        let line = format!("{}\r\n", self.version);
        self.send_bytes(line.as_bytes());
        self.subject_version = self.read_line();
    }

    /// The subject's version line.
    ///
    /// # Panics
    /// If it sends none.
    pub fn read_line(&mut self) -> String {
        loop {
            let buffer = self.splitter.receive_buffer();
            if let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line = buffer.split_to(end + 1);
                return String::from_utf8_lossy(&line).trim_end().to_owned();
            }
            let bytes = self.subject.collect().expect("a version line");
            self.splitter.handle_bytes(&bytes);
        }
    }

    /// Sends a KEXINIT and stores it.
    pub fn kexinit(&mut self, offer: &Offer) -> bool {
        self.kexinit_payload(offer.payload(self.role))
    }

    /// Sends a KEXINIT that the caller made and stores it.
    pub fn kexinit_payload(&mut self, payload: Vec<u8>) -> bool {
        self.state.ours = payload;
        self.settle_strictness();
        let payload = self.state.ours.clone();
        self.send(&payload)
    }

    /// Stores a KEXINIT that was sent in another way.
    pub fn remember_kexinit(&mut self, payload: Vec<u8>) {
        self.state.ours = payload;
    }

    /// Receives the subject's KEXINIT; in the first exchange both KEXINITs decide about strict key
    /// exchange.
    ///
    /// # Panics
    /// If none arrives.
    pub fn expect_kexinit(&mut self) {
        self.state.theirs = self.expect(20);
        self.settle_strictness();
    }

    fn settle_strictness(&mut self) {
        let both = !self.state.ours.is_empty() && !self.state.theirs.is_empty();
        if self.session_id.is_none() && both {
            let (client, server) = self.both();
            self.strict = client.kex.contains(names::STRICT_KEX_CLIENT)
                && server.kex.contains(names::STRICT_KEX_SERVER);
        }
    }

    fn both(&self) -> (KexInit<'_>, KexInit<'_>) {
        let ours = KexInit::decode(&self.state.ours).expect("own KEXINIT");
        let theirs = KexInit::decode(&self.state.theirs).expect("the subject's KEXINIT");
        match self.role {
            Role::Client => (ours, theirs),
            Role::Server => (theirs, ours),
        }
    }

    /// The bytes of the subject's KEXINIT.
    ///
    /// # Panics
    /// If it has not arrived.
    #[must_use]
    pub fn subjects_kexinit(&self) -> KexInit<'_> {
        KexInit::decode(&self.state.theirs).expect("the subject's KEXINIT")
    }

    /// The method that both KEXINITs negotiate.
    ///
    /// # Panics
    /// If they negotiate none.
    #[must_use]
    pub fn method(&self) -> KexAlgorithm {
        let (client, server) = self.both();
        choose(client.kex, server.kex, KexAlgorithm::from_name).expect("a common method")
    }

    /// Everything up to the switch of keys in both directions.
    pub fn exchange(&mut self, offer: &Offer) {
        if self.session_id.is_none() {
            self.hello();
        }
        self.kexinit(offer);
        self.expect_kexinit();
        self.agree();
        self.newkeys();
        self.expect_newkeys();
    }

    /// Public values and proof, like an honest peer.
    pub fn agree(&mut self) {
        match self.role {
            Role::Client => {
                self.init();
                self.finish();
            }
            Role::Server => {
                self.reply(&Reply::default());
            }
        }
    }

    /// Client: sends an honest KEX_*_INIT.
    ///
    /// # Panics
    /// For methods that need a group.
    pub fn init(&mut self) -> bool {
        let method = self.method();
        let (initiator, public) = Initiator::new(method).expect("a method without a group");
        self.state.initiator = Some((initiator, public.clone()));
        self.init_with(&public)
    }

    /// Client: sends a KEX_*_INIT with this value.
    pub fn init_with(&mut self, public: &[u8]) -> bool {
        match self.method().family() {
            KexFamily::Dh => self.say(&KexDhInit {
                public: Mpint::from_magnitude(public),
            }),
            _ => self.say(&KexEcdhInit { public }),
        }
    }

    /// Client: receives the KEX_*_REPLY and derives keys.
    ///
    /// # Panics
    /// Without a reply that fits the method.
    pub fn finish(&mut self) {
        let method = self.method();
        let (initiator, client) = self.state.initiator.take().expect("an INIT was sent");
        let payload = self.expect(31);
        let (host_key, server) = match method.family() {
            KexFamily::Dh => {
                let reply = KexDhReply::decode(&payload).expect("KEXDH_REPLY");
                (reply.host_key, reply.public.magnitude())
            }
            _ => {
                let reply = KexEcdhReply::decode(&payload).expect("KEX_ECDH_REPLY");
                (reply.host_key, reply.public)
            }
        };
        let secret = initiator.finish(server).expect("an honest public value");
        self.derive(host_key, &client, server, &secret);
    }

    /// Server: receives the KEX_*_INIT and answers honestly except for `lies`.
    ///
    /// # Panics
    /// Without an INIT that fits the method.
    pub fn reply(&mut self, lies: &Reply) -> bool {
        let init = self.expect(30);
        let reply = self.sealed_reply(&init, lies);
        self.send_bytes(&reply)
    }

    /// Server: answers a KEX_*_INIT that was received before.
    pub fn reply_to(&mut self, init: &[u8], lies: &Reply) -> bool {
        let reply = self.sealed_reply(init, lies);
        self.send_bytes(&reply)
    }

    /// Server: answers, followed by NEWKEYS and `more`, all in one piece.
    ///
    /// # Panics
    /// Without an INIT that fits the method.
    pub fn reply_and_more(&mut self, more: &[Vec<u8>]) -> bool {
        let init = self.expect(30);
        let mut bytes = self.sealed_reply(&init, &Reply::default());
        bytes.extend(self.seal(&NewKeys {}.encode()));
        let keys = self.state.seal.take().expect("derived keys");
        self.set_sending(keys);
        for payload in more {
            bytes.extend(self.seal(payload));
        }
        self.send_bytes(&bytes)
    }

    fn sealed_reply(&mut self, payload: &[u8], lies: &Reply) -> Vec<u8> {
        let method = self.method();
        let client = match method.family() {
            KexFamily::Dh => {
                let init = KexDhInit::decode(payload).expect("KEXDH_INIT");
                init.public.magnitude().to_vec()
            }
            _ => KexEcdhInit::decode(payload)
                .expect("KEX_ECDH_INIT")
                .public
                .to_vec(),
        };
        let (server, secret) = crypto::kex::respond(method, &client).expect("an honest value");
        let blob = self.host_key.private.public().blob();
        let host_key = lies.host_key.clone().unwrap_or(blob);
        self.derive(&host_key, &client, &server, &secret);
        let signature = lies.signature.clone().unwrap_or_else(|| {
            self.host_key
                .private
                .sign(self.host_key.algorithm, &self.state.hash)
                .expect("a signature")
        });
        let public = lies.public.as_ref().unwrap_or(&server);
        let reply = match method.family() {
            KexFamily::Dh => KexDhReply {
                host_key: &host_key,
                public: Mpint::from_magnitude(public),
                signature: &signature,
            }
            .encode(),
            _ => KexEcdhReply {
                host_key: &host_key,
                public,
                signature: &signature,
            }
            .encode(),
        };
        self.seal(&reply)
    }

    /// H of the last exchange.
    #[must_use]
    pub fn exchange_hash(&self) -> &[u8] {
        &self.state.hash
    }

    /// Sends NEWKEYS and switches the sending direction.
    ///
    /// # Panics
    /// If there are no keys.
    pub fn newkeys(&mut self) -> bool {
        let sent = self.say(&NewKeys {});
        let keys = self.state.seal.take().expect("derived keys");
        self.set_sending(keys);
        sent
    }

    /// The same without sending it, to be delivered with later messages.
    ///
    /// # Panics
    /// If there are no keys.
    pub fn sealed_newkeys(&mut self) -> Vec<u8> {
        let bytes = self.seal(&NewKeys {}.encode());
        let keys = self.state.seal.take().expect("derived keys");
        self.set_sending(keys);
        bytes
    }

    /// Receives the subject's NEWKEYS.
    ///
    /// # Panics
    /// If none arrives.
    pub fn expect_newkeys(&mut self) {
        self.expect(21);
    }

    /// The subject's NEWKEYS arrived: its later packets are sealed with the keys of this exchange.
    pub(super) fn switch_receiving(&mut self) {
        let keys = self.state.open.take().expect("NEWKEYS behind derived keys");
        self.set_receiving(keys);
    }

    fn derive(&mut self, host_key: &[u8], client: &[u8], server: &[u8], secret: &SharedSecret) {
        let method = self.method();
        let mut encoded = Vec::new();
        match secret.encoding() {
            SecretEncoding::Mpint => encoded.put_mpint(secret.bytes()),
            SecretEncoding::String => encoded.put_string(secret.bytes()),
        }
        let (version_c, version_s, init_c, init_s) = match self.role {
            Role::Client => (
                &self.version,
                &self.subject_version,
                &self.state.ours,
                &self.state.theirs,
            ),
            Role::Server => (
                &self.subject_version,
                &self.version,
                &self.state.theirs,
                &self.state.ours,
            ),
        };
        let mut text = Vec::new();
        for part in [
            version_c.as_bytes(),
            version_s.as_bytes(),
            init_c,
            init_s,
            host_key,
        ] {
            text.put_string(part);
        }
        for value in [client, server] {
            match method.family() {
                KexFamily::Dh => text.put_mpint(value),
                _ => text.put_string(value),
            }
        }
        text.extend_from_slice(&encoded);
        self.state.hash = method.hash().digest(&text).as_ref().to_vec();
        let id = self
            .session_id
            .get_or_insert_with(|| self.state.hash.clone())
            .clone();
        let letters = Letters {
            hash: method.hash(),
            secret: &encoded,
            h: &self.state.hash,
            id: &id,
        };
        let (suite_c, suite_s) = self.suites();
        let (out, out_letters, back, back_letters) = match self.role {
            Role::Client => (suite_c, *b"ACE", suite_s, *b"BDF"),
            Role::Server => (suite_s, *b"BDF", suite_c, *b"ACE"),
        };
        let [iv, key, mac] = letters.of(out, out_letters);
        let seal = SealKeys::new(out.0, out.1, &key, &iv, &mac).expect("lengths");
        let [iv, key, mac] = letters.of(back, back_letters);
        let open = OpenKeys::new(back.0, back.1, &key, &iv, &mac).expect("lengths");
        self.state.seal = Some(seal);
        self.state.open = Some(open);
    }

    fn suites(&self) -> (SuiteOf, SuiteOf) {
        let (client, server) = self.both();
        let suite = |ciphers: (NameList<'_>, NameList<'_>), macs: (NameList<'_>, NameList<'_>)| {
            let cipher =
                choose(ciphers.0, ciphers.1, CipherAlgorithm::from_name).expect("a common cipher");
            let mac = cipher
                .needs_mac()
                .then(|| choose(macs.0, macs.1, MacAlgorithm::from_name).expect("a common MAC"));
            (cipher, mac)
        };
        (
            suite(
                (client.cipher_c2s, server.cipher_c2s),
                (client.mac_c2s, server.mac_c2s),
            ),
            suite(
                (client.cipher_s2c, server.cipher_s2c),
                (client.mac_s2c, server.mac_s2c),
            ),
        )
    }
}

type SuiteOf = (CipherAlgorithm, Option<MacAlgorithm>);

fn choose<T>(
    client: NameList<'_>,
    server: NameList<'_>,
    known: impl Fn(&str) -> Option<T>,
) -> Option<T> {
    client
        .iter()
        .filter(|name| server.contains(name))
        .find_map(known)
}

struct Letters<'a> {
    hash: HashAlgorithm,
    secret: &'a [u8],
    h: &'a [u8],
    id: &'a [u8],
}

impl Letters<'_> {
    fn of(&self, (cipher, mac): SuiteOf, [iv, key, mac_letter]: [u8; 3]) -> [Vec<u8>; 3] {
        [
            self.letter(iv, cipher.iv_len()),
            self.letter(key, cipher.key_len()),
            self.letter(mac_letter, mac.map_or(0, MacAlgorithm::key_len)),
        ]
    }

    /// RFC 4253 §7.2.
    fn letter(&self, letter: u8, len: usize) -> Vec<u8> {
        let mut key: Vec<u8> = Vec::new();
        while key.len() < len || key.is_empty() {
            let mut hasher = Hasher::new(self.hash);
            hasher.update(self.secret);
            hasher.update(self.h);
            if key.is_empty() {
                hasher.update(&[letter]);
                hasher.update(self.id);
            } else {
                hasher.update(&key);
            }
            key.extend_from_slice(hasher.finish().as_ref());
        }
        key.truncate(len);
        key
    }
}
