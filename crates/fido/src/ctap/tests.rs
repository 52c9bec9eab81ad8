//! The code of CTAP against a software token, which speaks CTAPHID over a socket pair in place of a
//! device file.

mod several;
mod u2f;

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crypto::hash::HashAlgorithm;
use crypto::kex::{Initiator, KexAlgorithm};
use crypto::legacy;
use crypto::sign::{KeyKind, PrivateKey as SoftwareKey, SignatureScheme};
use keys::{PrivateKey, SecurityKeySignature, SignatureAlgorithm, VerifyPolicy};

use super::cbor::Cbor;
use super::pin::hmac;
use super::*;

const CHANNEL: u32 = 0x0102_0304;
const PIN: &[u8] = b"1234";

/// A key in the software token.
struct SoftKey {
    secret: SoftwareKey,
    algorithm: i64,
    application: String,
    user: Vec<u8>,
    is_resident: bool,
    protection: i64,
}

/// What a software token is like, and what it has seen.
#[derive(Default)]
struct SoftToken {
    protocol: i64,
    has_pin: bool,
    /// The permissions of CTAP 2.1.
    has_permissions: bool,
    keys: Mutex<Vec<SoftKey>>,
    touches: AtomicUsize,
    pins: AtomicUsize,
    busy: AtomicUsize,
    /// Speaks U2F alone.
    is_u2f: bool,
    /// Nobody touches it.
    is_alone: AtomicBool,
    /// Waits for a touch that were ended.
    cancelled: AtomicUsize,
    /// The end of each handle, which other tokens do not have.
    own: [u8; 19],
}

/// The state of one opened channel.
#[derive(Default)]
struct Session {
    agreement: Option<Initiator>,
    permission: Vec<u8>,
    listed: Vec<Cbor>,
    /// Answers to requests for further assertions.
    further: Vec<Cbor>,
}

impl SoftToken {
    fn new(protocol: i64, has_pin: bool) -> Arc<Self> {
        Arc::new(Self {
            protocol,
            has_pin,
            has_permissions: protocol == 2,
            own: crypto::random::bytes(),
            ..Self::default()
        })
    }

    fn of_u2f() -> Arc<Self> {
        Arc::new(Self {
            is_u2f: true,
            own: crypto::random::bytes(),
            ..Self::default()
        })
    }

    fn handle(&self, number: u8) -> Vec<u8> {
        [&[number][..], &self.own].concat()
    }

    /// Serves one open of the token's device.
    fn open(self: &Arc<Self>) -> OwnedFd {
        let (ours, theirs) = sys::socket::local::seqpacket_pair().unwrap();
        let token = Arc::clone(self);
        std::thread::spawn(move || token.serve(&theirs));
        ours
    }

    fn serve(&self, device: &OwnedFd) {
        let mut session = Session::default();
        let mut message = Vec::new();
        let (mut command, mut length) = (0, 0);
        loop {
            let mut report = [0; 65];
            match sys::io::read(device, &mut report) {
                Ok(65) => {}
                _ => return,
            }
            // The number of the report, the channel, then a command or a sequence number.
            if report[5] & 0x80 != 0 {
                command = report[5] & 0x7f;
                length = usize::from(u16::from_be_bytes([report[6], report[7]]));
                message = report[8..].to_vec();
            } else {
                message.extend_from_slice(&report[6..]);
            }
            if message.len() < length {
                continue;
            }
            message.truncate(length);
            match command {
                0x06 => {
                    let mut answer = message.clone();
                    answer.extend_from_slice(&CHANNEL.to_be_bytes());
                    let capabilities = if self.is_u2f { 0 } else { 0x04 };
                    answer.extend_from_slice(&[2, 1, 0, 0, capabilities]);
                    send(device, u32::MAX, 0x06, &answer);
                }
                0x10 | 0x03 if self.busy.load(Ordering::Relaxed) > 0 => {
                    self.busy.fetch_sub(1, Ordering::Relaxed);
                    send(device, CHANNEL, 0x3f, &[0x06]);
                }
                0x03 => {
                    let (status, mut answer) = match self.answer_u2f(&message) {
                        Ok(answer) => (0x9000_u16, answer),
                        Err(status) => (status, Vec::new()),
                    };
                    answer.extend_from_slice(&status.to_be_bytes());
                    send(device, CHANNEL, 0x03, &answer);
                }
                0x11 => {
                    self.cancelled.fetch_add(1, Ordering::Relaxed);
                    send(device, CHANNEL, 0x10, &[0x2d]);
                }
                // The requests that wait for a touch.
                0x10 if self.is_alone.load(Ordering::Relaxed)
                    && matches!(message.first(), Some(0x01 | 0x0b)) =>
                {
                    send(device, CHANNEL, 0x3b, &[2]);
                }
                _ => {
                    send(device, CHANNEL, 0x3b, &[2]);
                    let answer = match self.answer(&mut session, &message) {
                        Ok(Cbor::Null) => vec![0],
                        Ok(answer) => [vec![0], answer.encode()].concat(),
                        Err(status) => vec![status],
                    };
                    send(device, CHANNEL, 0x10, &answer);
                }
            }
        }
    }

    fn answer(&self, session: &mut Session, message: &[u8]) -> Result<Cbor, u8> {
        let (command, rest) = message.split_first().ok_or(1)?;
        let request = match rest {
            [] => Cbor::Null,
            rest => Cbor::read(rest).ok_or(0x12)?.0,
        };
        match command {
            0x04 => Ok(self.info()),
            0x01 => self.make(session, &request),
            0x02 => self.assert(session, &request),
            0x06 => self.pin(session, &request),
            0x08 => session.further.pop().ok_or(0x30),
            0x0a => self.manage(session, &request),
            0x0b if self.has_permissions => {
                self.touches.fetch_add(1, Ordering::Relaxed);
                Ok(Cbor::Null)
            }
            _ => Err(1),
        }
    }

    fn info(&self) -> Cbor {
        let option = |name: &str, value| (Cbor::text(name), Cbor::Bool(value));
        Cbor::map([
            (
                1,
                Cbor::Array(vec![Cbor::text(match self.has_permissions {
                    true => "FIDO_2_1",
                    false => "FIDO_2_0",
                })]),
            ),
            (2, Cbor::Array(vec![Cbor::text("credProtect")])),
            (
                4,
                Cbor::Map(vec![
                    option("rk", true),
                    option("clientPin", self.has_pin),
                    option("credMgmt", true),
                    option("pinUvAuthToken", self.has_permissions),
                ]),
            ),
            (6, Cbor::Array(vec![Cbor::int(self.protocol)])),
        ])
    }

    /// True if the proof is that of the session's permission.
    fn proves(&self, session: &Session, proof: &Cbor, parts: &[&[u8]]) -> bool {
        let length = if self.protocol == 1 { 16 } else { 32 };
        let expected = hmac(&session.permission, parts)[..length].to_vec();
        !session.permission.is_empty() && proof.as_bytes() == Some(&expected[..])
    }

    fn pin(&self, session: &mut Session, request: &Cbor) -> Result<Cbor, u8> {
        assert_eq!(request.get(1), Some(&Cbor::int(self.protocol)));
        match request.get(2).and_then(Cbor::as_int) {
            Some(2) => {
                let (agreement, point) = Initiator::new(KexAlgorithm::EcdhNistP256).unwrap();
                session.agreement = Some(agreement);
                let key = Cbor::map([
                    (1, Cbor::int(2)),
                    (3, Cbor::int(-25)),
                    (-1, Cbor::int(1)),
                    (-2, Cbor::bytes(&point[1..33])),
                    (-3, Cbor::bytes(&point[33..])),
                ]);
                Ok(Cbor::map([(1, key)]))
            }
            Some(work) => {
                assert_eq!(work, if self.has_permissions { 9 } else { 5 });
                assert_eq!(request.get(9).is_some(), self.has_permissions);
                self.pins.fetch_add(1, Ordering::Relaxed);
                let theirs = request.get(3).unwrap();
                let coordinate = |name| theirs.get(name).and_then(Cbor::as_bytes).unwrap();
                let point = [&[4], coordinate(-2), coordinate(-3)].concat();
                let secret = session.agreement.take().ok_or(0x33)?;
                let mut x = vec![0; 32];
                let secret = secret.finish(&point).unwrap();
                x.extend_from_slice(secret.bytes());
                let x = &x[x.len() - 32..];
                let key = match self.protocol {
                    1 => HashAlgorithm::Sha256.digest(x).to_vec(),
                    _ => hmac(&hmac(&[0; 32], &[x]), &[b"CTAP2 AES key\x01"]).to_vec(),
                };
                let hidden = request.get(6).and_then(Cbor::as_bytes).unwrap();
                let (iv, hidden) = match self.protocol {
                    1 => ([0; 16].to_vec(), hidden.to_vec()),
                    _ => (hidden[..16].to_vec(), hidden[16..].to_vec()),
                };
                let mut pin = hidden;
                legacy::aes_cbc_decrypt(&key, &iv, &mut pin).unwrap();
                if !self.has_pin {
                    return Err(0x35);
                }
                if pin != HashAlgorithm::Sha256.digest(PIN)[..16] {
                    return Err(0x31);
                }
                session.permission = crypto::random::bytes::<32>().to_vec();
                let mut hidden = session.permission.clone();
                let iv: [u8; 16] = match self.protocol {
                    1 => [0; 16],
                    _ => crypto::random::bytes(),
                };
                legacy::aes_cbc_encrypt(&key, &iv, &mut hidden).unwrap();
                let hidden = match self.protocol {
                    1 => hidden,
                    _ => [iv.to_vec(), hidden].concat(),
                };
                Ok(Cbor::map([(2, Cbor::Bytes(hidden))]))
            }
            None => Err(0x14),
        }
    }

    fn make(&self, session: &Session, request: &Cbor) -> Result<Cbor, u8> {
        let hash = request.get(1).and_then(Cbor::as_bytes).unwrap();
        // CTAP 2.0 §5.1: an empty proof only asks for a touch.
        if request.get(8) == Some(&Cbor::bytes(&[])) {
            self.touches.fetch_add(1, Ordering::Relaxed);
            return Err(if self.has_pin { 0x31 } else { 0x35 });
        }
        let option = |name: &str| {
            let options = request.get(7).and_then(|map| map.named(name));
            options.is_some_and(Cbor::is_true)
        };
        if self.has_pin && option("rk") {
            let proof = request.get(8).ok_or(0x36)?;
            if !self.proves(session, proof, &[hash]) {
                return Err(0x33);
            }
        }
        self.touches.fetch_add(1, Ordering::Relaxed);
        let application = request.get(2).and_then(|rp| rp.named("id"));
        let application = application.and_then(Cbor::as_text).unwrap();
        let user = request.get(3).and_then(|user| user.named("id"));
        let algorithm = request.get(4).unwrap().as_array()[0].named("alg");
        let algorithm = algorithm.and_then(Cbor::as_int).unwrap();
        let kind = match algorithm {
            -8 => KeyKind::Ed25519,
            _ => KeyKind::EcdsaP256,
        };
        let key = SoftKey {
            secret: SoftwareKey::generate(kind, 0).unwrap(),
            algorithm,
            application: application.to_owned(),
            user: user.and_then(Cbor::as_bytes).unwrap().to_vec(),
            is_resident: option("rk"),
            protection: request
                .get(6)
                .and_then(|map| map.named("credProtect"))
                .and_then(Cbor::as_int)
                .unwrap_or(0),
        };
        let mut keys = self.keys.lock().unwrap();
        let handle = self.handle(u8::try_from(keys.len()).unwrap());
        let mut data = HashAlgorithm::Sha256
            .digest(application.as_bytes())
            .to_vec();
        data.push(0x41);
        data.extend_from_slice(&[0; 4]);
        data.extend_from_slice(&[0xaa; 16]);
        data.extend_from_slice(&20_u16.to_be_bytes());
        data.extend_from_slice(&handle);
        data.extend_from_slice(&key.cose().encode());
        keys.push(key);
        let statement = Cbor::Map(vec![
            (Cbor::text("sig"), Cbor::bytes(b"signature")),
            (
                Cbor::text("x5c"),
                Cbor::Array(vec![Cbor::bytes(&[b'c'; 900])]),
            ),
        ]);
        Ok(Cbor::map([
            (1, Cbor::text("packed")),
            (2, Cbor::Bytes(data)),
            (3, statement),
        ]))
    }

    fn assert(&self, session: &mut Session, request: &Cbor) -> Result<Cbor, u8> {
        let application = request.get(1).and_then(Cbor::as_text).unwrap();
        let hash = request.get(2).and_then(Cbor::as_bytes).unwrap();
        let handle = request.get(3).map(|list| list.as_array()[0].clone());
        let is_verified = match request.get(6) {
            Some(proof) if !self.proves(session, proof, &[hash]) => return Err(0x33),
            proof => proof.is_some(),
        };
        let keys = self.keys.lock().unwrap();
        let of_application = |key: &&SoftKey| key.application == application;
        let found: Vec<&SoftKey> = match &handle {
            Some(handle) => {
                let handle = handle.named("id").and_then(Cbor::as_bytes).unwrap();
                let number = usize::from(*handle.first().ok_or(0x2e)?);
                let key = keys.get(number).filter(|_| handle.ends_with(&self.own));
                let is_shown = |key: &&SoftKey| is_verified || key.protection < 3;
                key.into_iter().filter(is_shown).collect()
            }
            None => {
                let is_shown =
                    |key: &&SoftKey| key.is_resident && (is_verified || key.protection < 2);
                // The newest is the first.
                keys.iter().rev().filter(is_shown).collect()
            }
        };
        let found: Vec<&SoftKey> = found.into_iter().filter(of_application).collect();
        let mut flags = if is_verified { 4 } else { 0 };
        let no_touch = request.get(5).and_then(|map| map.named("up"));
        if no_touch != Some(&Cbor::Bool(false)) && !found.is_empty() {
            self.touches.fetch_add(1, Ordering::Relaxed);
            flags |= 1;
        }
        let mut data = HashAlgorithm::Sha256
            .digest(application.as_bytes())
            .to_vec();
        data.push(flags);
        data.extend_from_slice(&9_u32.to_be_bytes());
        let signed = [data.as_slice(), hash].concat();
        let answer = |key: &&SoftKey| {
            let signature = match key.algorithm {
                -8 => key.secret.sign(SignatureScheme::Ed25519, &signed).unwrap(),
                _ => der(&key
                    .secret
                    .sign(SignatureScheme::EcdsaP256Sha256, &signed)
                    .unwrap()),
            };
            let mut answer = vec![(2, Cbor::bytes(&data)), (3, Cbor::Bytes(signature))];
            if handle.is_none() {
                let user = vec![(Cbor::text("id"), Cbor::bytes(&key.user))];
                answer.push((4, Cbor::Map(user)));
                answer.push((5, Cbor::int(i64::try_from(found.len()).unwrap())));
            }
            Cbor::map(answer)
        };
        let mut answers: Vec<Cbor> = found.iter().map(answer).collect();
        answers.reverse();
        let first = answers.pop().ok_or(0x2e)?;
        session.further = answers;
        Ok(first)
    }

    fn manage(&self, session: &mut Session, request: &Cbor) -> Result<Cbor, u8> {
        let keys = self.keys.lock().unwrap();
        let work = request.get(1).and_then(Cbor::as_int).unwrap();
        if work == 2 || work == 4 {
            let mut proved = vec![u8::try_from(work).unwrap()];
            if let Some(parameters) = request.get(2) {
                parameters.write(&mut proved);
            }
            if !self.proves(session, request.get(4).ok_or(0x36)?, &[&proved]) {
                return Err(0x33);
            }
            session.listed = match work {
                2 => {
                    let mut names: Vec<_> = keys
                        .iter()
                        .filter(|key| key.is_resident)
                        .map(|key| key.application.clone())
                        .collect();
                    names.sort();
                    names.dedup();
                    let total = names.len();
                    names.iter().map(|name| party(name, total)).collect()
                }
                _ => {
                    let hash = request.get(2).and_then(|map| map.get(1)).unwrap();
                    let of_hash = |key: &SoftKey| {
                        let digest = HashAlgorithm::Sha256.digest(key.application.as_bytes());
                        key.is_resident && hash.as_bytes() == Some(&digest[..])
                    };
                    let total = keys.iter().filter(|key| of_hash(key)).count();
                    (0_u8..)
                        .zip(keys.iter())
                        .filter(|(_, key)| of_hash(key))
                        .map(|(number, key)| key.listed(&self.handle(number), total))
                        .collect()
                }
            };
            session.listed.reverse();
        }
        session.listed.pop().ok_or(0x2e)
    }
}

/// U2F: requests in the extended form.
impl SoftToken {
    fn answer_u2f(&self, message: &[u8]) -> Result<Vec<u8>, u16> {
        let [0, instruction, parameter, 0, 0, high, low, data @ .., 0, 0] = message else {
            return Err(0x6700);
        };
        assert_eq!(
            usize::from(u16::from_be_bytes([*high, *low])),
            data.len(),
            "the length"
        );
        let application = format!("{:x?}", data.get(32..64).unwrap());
        let mut keys = self.keys.lock().unwrap();
        match instruction {
            1 => {
                self.touch_u2f()?;
                let key = SoftKey {
                    secret: SoftwareKey::generate(KeyKind::EcdsaP256, 0).unwrap(),
                    algorithm: -7,
                    application,
                    user: Vec::new(),
                    is_resident: false,
                    protection: 0,
                };
                let mut answer = vec![5];
                answer.extend_from_slice(key.secret.public().ecdsa_point().unwrap());
                let handle = self.handle(u8::try_from(keys.len()).unwrap());
                answer.push(20);
                answer.extend_from_slice(&handle);
                answer.extend_from_slice(&[0x30, 0x82, 0x01, 0x00]);
                answer.extend_from_slice(&[b'c'; 256]);
                answer.extend_from_slice(b"signature");
                keys.push(key);
                Ok(answer)
            }
            2 => {
                let handle = data.get(65..).unwrap();
                let key = handle
                    .first()
                    .and_then(|number| keys.get(usize::from(*number)));
                let is_ours =
                    |key: &&SoftKey| key.application == application && handle.ends_with(&self.own);
                let key = key.filter(is_ours).ok_or(0x6a80_u16)?;
                let mut answer = vec![0];
                match parameter {
                    7 => return Err(0x6985),
                    8 => {}
                    _ => {
                        self.touch_u2f()?;
                        answer = vec![1];
                    }
                }
                answer.extend_from_slice(&9_u32.to_be_bytes());
                let signed = [&data[32..64], &answer, &data[..32]].concat();
                let signature = key.secret.sign(SignatureScheme::EcdsaP256Sha256, &signed);
                answer.extend_from_slice(&der(&signature.unwrap()));
                Ok(answer)
            }
            _ => Err(0x6d00),
        }
    }

    /// The first question comes before the user's hand.
    fn touch_u2f(&self) -> Result<(), u16> {
        let is_first = self
            .touches
            .fetch_add(1, Ordering::Relaxed)
            .is_multiple_of(2);
        match is_first || self.is_alone.load(Ordering::Relaxed) {
            true => Err(0x6985),
            false => Ok(()),
        }
    }
}

fn party(name: &str, total: usize) -> Cbor {
    let id = vec![(Cbor::text("id"), Cbor::text(name))];
    Cbor::map([
        (3, Cbor::Map(id)),
        (
            4,
            Cbor::bytes(&HashAlgorithm::Sha256.digest(name.as_bytes())),
        ),
        (5, Cbor::int(i64::try_from(total).unwrap())),
    ])
}

impl SoftKey {
    fn cose(&self) -> Cbor {
        let public = self.secret.public();
        match self.algorithm {
            -8 => Cbor::map([
                (1, Cbor::int(1)),
                (3, Cbor::int(-8)),
                (-1, Cbor::int(6)),
                (-2, Cbor::bytes(public.ed25519_bytes().unwrap())),
            ]),
            _ => {
                let point = public.ecdsa_point().unwrap();
                Cbor::map([
                    (1, Cbor::int(2)),
                    (3, Cbor::int(-7)),
                    (-1, Cbor::int(1)),
                    (-2, Cbor::bytes(&point[1..33])),
                    (-3, Cbor::bytes(&point[33..])),
                ])
            }
        }
    }

    fn listed(&self, handle: &[u8], total: usize) -> Cbor {
        let id = |bytes: &[u8]| Cbor::Map(vec![(Cbor::text("id"), Cbor::bytes(bytes))]);
        Cbor::map([
            (6, id(&self.user)),
            (7, id(handle)),
            (8, self.cose()),
            (9, Cbor::int(i64::try_from(total).unwrap())),
            (10, Cbor::int(self.protection)),
        ])
    }
}

/// An ECDSA signature in DER.
fn der(fixed: &[u8]) -> Vec<u8> {
    let number = |bytes: &[u8]| {
        let mut digits: Vec<u8> = bytes
            .iter()
            .copied()
            .skip_while(|byte| *byte == 0)
            .collect();
        if digits.first().is_none_or(|first| first & 0x80 != 0) {
            digits.insert(0, 0);
        }
        [vec![2, u8::try_from(digits.len()).unwrap()], digits].concat()
    };
    let both = [number(&fixed[..32]), number(&fixed[32..])].concat();
    [vec![0x30, u8::try_from(both.len()).unwrap()], both].concat()
}

fn send(device: &OwnedFd, channel: u32, command: u8, payload: &[u8]) {
    let length = u16::try_from(payload.len()).unwrap().to_be_bytes();
    let (first, rest) = payload.split_at(payload.len().min(57));
    let mut reports = vec![[&[0x80 | command][..], &length, first].concat()];
    for (number, piece) in (0_u8..).zip(rest.chunks(59)) {
        reports.push([&[number][..], piece].concat());
    }
    for report in reports {
        let mut bytes = channel.to_be_bytes().to_vec();
        bytes.extend_from_slice(&report);
        bytes.resize(64, 0);
        // Whoever has closed the token reads no answer.
        let _ = sys::io::write(device, &bytes);
    }
}

fn attached(tokens: &[&Arc<SoftToken>]) -> AttachedTokens {
    let tokens: Vec<Arc<SoftToken>> = tokens.iter().map(|token| Arc::clone(token)).collect();
    let paths = (0..tokens.len()).map(|number| PathBuf::from(number.to_string()));
    AttachedTokens {
        paths: paths.collect(),
        open: Box::new(move |path| {
            let number: usize = path.to_str().unwrap().parse().unwrap();
            TokenChannel::over(tokens[number].open())
        }),
    }
}

fn access(pin: Option<&[u8]>) -> TokenAccess<'_> {
    TokenAccess { pin, device: None }
}

fn wanted(key_type: KeyType, flags: u8) -> NewTokenKey<'static> {
    NewTokenKey {
        key_type,
        application: "ssh:test",
        user: Some("bob"),
        challenge: b"challenge",
        flags,
    }
}

/// Signs and verifies.
fn signs(
    tokens: &mut AttachedTokens,
    key: &PrivateKey,
    pin: Option<&[u8]>,
    policy: &VerifyPolicy,
) -> Result<(), FidoError> {
    let parts = key.security_key().unwrap();
    let made = tokens.sign(
        &access(pin),
        &TokenSigning {
            key_type: key.key_type(),
            application: "ssh:test",
            handle: parts.handle,
            flags: parts.flags,
            data: b"data",
        },
    )?;
    let signature = SecurityKeySignature {
        r: &made.r,
        s: &made.s,
        flags: made.flags,
        counter: made.counter,
    };
    let blob = signature.blob(key.key_type()).unwrap();
    let algorithm = match key.key_type() {
        KeyType::SkEd25519 => SignatureAlgorithm::SkEd25519,
        _ => SignatureAlgorithm::SkEcdsaP256,
    };
    key.public()
        .verify(algorithm, b"data", &blob, policy)
        .unwrap();
    Ok(())
}

const TYPES: [KeyType; 2] = [KeyType::SkEd25519, KeyType::SkEcdsaP256];

#[test]
fn keys_of_both_types_are_made_and_sign() {
    for key_type in TYPES {
        let token = SoftToken::new(1, false);
        let mut tokens = attached(&[&token]);
        token.busy.store(2, Ordering::Relaxed);
        let made = tokens
            .enroll(&access(None), &wanted(key_type, USER_PRESENCE))
            .unwrap();
        assert_eq!(made.attestation.certificate, [b'c'; 900]);
        assert_eq!(made.attestation.signature, b"signature");
        let data = Cbor::read(&made.attestation.authenticator_data).unwrap().0;
        assert!(token::read_credential(data.as_bytes().unwrap()).is_some());
        let key = made.private_key().unwrap();
        assert_eq!(key.security_key().unwrap().flags, USER_PRESENCE);
        signs(&mut tokens, &key, None, &VerifyPolicy::default()).unwrap();
        assert_eq!(token.touches.load(Ordering::Relaxed), 2);
        assert_eq!(token.pins.load(Ordering::Relaxed), 0);
        // Without the flag nobody needs to touch.
        let parts = key.security_key().unwrap();
        let untouched = PrivateKey::of_security_key(key.public().clone(), 0, parts.handle).unwrap();
        let policy = VerifyPolicy {
            require_user_presence: false,
            ..VerifyPolicy::default()
        };
        signs(&mut tokens, &untouched, None, &policy).unwrap();
        assert_eq!(token.touches.load(Ordering::Relaxed), 2);
    }
}

#[test]
fn a_pin_is_sent_once_by_both_protocols() {
    for protocol in [1, 2] {
        for key_type in TYPES {
            let token = SoftToken::new(protocol, true);
            let mut tokens = attached(&[&token]);
            let flags = USER_PRESENCE | USER_VERIFICATION | RESIDENT;
            let new = wanted(key_type, flags);
            let needs = tokens.enroll(&access(None), &new).unwrap_err();
            assert_eq!(needs, FidoError::PinRequired);
            let empty = tokens.enroll(&access(Some(b"")), &new).unwrap_err();
            assert_eq!(empty, FidoError::PinRequired);
            assert_eq!(token.pins.load(Ordering::Relaxed), 0);
            let wrong = tokens.enroll(&access(Some(b"4321")), &new).unwrap_err();
            assert_eq!(wrong, FidoError::PinRequired);
            assert_eq!(token.pins.load(Ordering::Relaxed), 1);
            assert_eq!(token.touches.load(Ordering::Relaxed), 0);
            let made = tokens.enroll(&access(Some(PIN)), &new).unwrap();
            assert_eq!(token.pins.load(Ordering::Relaxed), 2);
            let key = made.private_key().unwrap();
            let policy = VerifyPolicy {
                require_user_verification: true,
                ..VerifyPolicy::default()
            };
            let needs = signs(&mut tokens, &key, None, &policy).unwrap_err();
            assert_eq!(needs, FidoError::PinRequired);
            signs(&mut tokens, &key, Some(PIN), &policy).unwrap();
            assert_eq!(token.pins.load(Ordering::Relaxed), 3);
        }
    }
}

#[test]
fn resident_keys_are_listed_and_not_replaced_unasked() {
    let token = SoftToken::new(2, true);
    let mut tokens = attached(&[&token]);
    let pin = access(Some(PIN));
    assert_eq!(tokens.resident_keys(&pin).unwrap(), []);
    let new = wanted(KeyType::SkEd25519, USER_PRESENCE | RESIDENT);
    let made = tokens.enroll(&pin, &new).unwrap();
    let again = tokens.enroll(&pin, &new).unwrap_err();
    assert_eq!(again, FidoError::CredentialExists);
    // Nor is one of several.
    let other = NewTokenKey {
        user: Some("eve"),
        ..wanted(KeyType::SkEd25519, USER_PRESENCE | RESIDENT)
    };
    tokens.enroll(&pin, &other).unwrap();
    let again = tokens.enroll(&pin, &new).unwrap_err();
    assert_eq!(again, FidoError::CredentialExists);
    token.keys.lock().unwrap().pop();
    let strict = NewTokenKey {
        application: "ssh:strict",
        ..wanted(KeyType::SkEcdsaP256, USER_VERIFICATION | RESIDENT)
    };
    tokens.enroll(&pin, &strict).unwrap();
    let web = NewTokenKey {
        application: "web.example",
        ..wanted(KeyType::SkEcdsaP256, RESIDENT)
    };
    tokens.enroll(&pin, &web).unwrap();
    let listed = tokens.resident_keys(&pin).unwrap();
    let [strict, plain] = listed.as_slice() else {
        panic!("{listed:?}");
    };
    assert_eq!(plain.public_key, made.public_key);
    assert_eq!(plain.handle, made.handle);
    assert_eq!(plain.user, made.user);
    assert_eq!(plain.flags, USER_PRESENCE | RESIDENT);
    assert_eq!(strict.flags, USER_PRESENCE | RESIDENT | USER_VERIFICATION);
    assert!(plain.user.starts_with(b"bob\0") && plain.user.len() == 32);
    let none = tokens.resident_keys(&access(None)).unwrap_err();
    assert_eq!(none, FidoError::PinRequired);
}
