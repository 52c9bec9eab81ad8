//! The account of the monitors under test, and honest and dishonest messages to them.

use std::path::{Path, PathBuf};

use crate::double::Monitor;
use crate::sshd::UserKey;
use interop::account::{Guest, current_user, is_root};
use interop::scratch::Scratch;
use keys::{PrivateKey, SignatureAlgorithm};
use privsep::roles::ROLE_SESSION;
use privsep::{
    AuthNone, AuthOther, AuthOutcome, AuthPassword, ChooseGroup, GssExchange, GssapiKeyex,
    GssapiMic, GssapiStart, GssapiToken, HostbasedVerify, HostkeysProve, KbdintRespond,
    KbdintStart, KeyQuery, KeyVerify, Log, LoginPhase, MESSAGES, Message, PtyAllocate, PtyRelease,
    Secret, SessionGrant, SignExchangeHash, Signature, Snapshot, TrafficReport, TunnelOpen, User,
    UserPolicy,
};
use wire::Put;

/// The key exchange method of the simulated logins.
pub const KEX: &str = "curve25519-sha256";
/// The exchange hash of every login here.
pub const HASH: [u8; 32] = [7; 32];

/// The account of the monitors under test, and its key.
pub struct Place {
    /// Login name.
    pub user: String,
    /// The accepted key pair.
    pub key: UserKey,
    /// The authorized_keys file.
    pub authorized: PathBuf,
    double: PathBuf,
    _scratch: Scratch,
    _guest: Option<Guest>,
}

impl Place {
    /// A place with `double` as the program of the roles.
    ///
    /// # Panics
    /// If there is no suitable account.
    #[must_use]
    pub fn new(double: &str) -> Self {
        Self::with_options(double, "")
    }

    /// The same with options of the key.
    ///
    /// # Panics
    /// If there is no suitable account.
    #[must_use]
    pub fn with_options(double: &str, options: &str) -> Self {
        let guest = is_root().then(|| Guest::new().expect("a guest"));
        let user = guest
            .as_ref()
            .map_or_else(current_user, |it| it.name.clone());
        let scratch = Scratch::new();
        let key = UserKey::new(41);
        let authorized = scratch.write("authorized_keys", format!("{options}{}\n", key.line));
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        std::fs::set_permissions(&authorized, mode).expect("its mode");
        Self {
            user,
            key,
            authorized,
            double: double.into(),
            _scratch: scratch,
            _guest: guest,
        }
    }

    /// A monitor with these lines before the other lines of its configuration.
    #[must_use]
    pub fn monitor(&self, lines: &str) -> Monitor {
        self.monitor_with(&self.double, lines)
    }

    /// The same with another program for the roles.
    #[must_use]
    pub fn monitor_with(&self, double: &Path, lines: &str) -> Monitor {
        let config = format!(
            "{lines}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nLoginGraceTime 60\n\
             LogLevel DEBUG1\n",
            self.authorized.display()
        );
        Monitor::start(double, &config)
    }

    /// The message that names the user.
    #[must_use]
    pub fn user(&self) -> User {
        User {
            user: self.user.clone(),
            service: "ssh-connection".into(),
            client_version: "SSH-2.0-Double".into(),
        }
    }

    /// An honest proof.
    #[must_use]
    pub fn key_verify(&self) -> KeyVerify {
        signed(&self.key.private, &HASH, &self.user, "ssh-connection", None)
    }

    /// A monitor in this phase.
    ///
    /// # Panics
    /// If it does not reach the phase.
    #[must_use]
    pub fn at(&self, phase: LoginPhase) -> Monitor {
        let mut monitor = self.monitor("");
        self.bring(&mut monitor, phase);
        monitor
    }

    /// Brings a monitor to this phase with the messages of an honest role.
    ///
    /// # Panics
    /// If it does not reach the phase.
    pub fn bring(&self, monitor: &mut Monitor, phase: LoginPhase) {
        if phase == LoginPhase::KeyExchange {
            return;
        }
        let _: Signature = monitor.ask(&exchange(&HASH));
        if phase == LoginPhase::BeforeUser {
            return;
        }
        let _: UserPolicy = monitor.ask(&self.user());
        if phase == LoginPhase::Authenticating {
            return;
        }
        let outcome: AuthOutcome = monitor.ask(&self.key_verify());
        assert_eq!(outcome, AuthOutcome::Success, "{}", monitor.log());
        if phase == LoginPhase::Authenticated {
            return;
        }
        monitor.send(&snapshot());
        if phase == LoginPhase::HandedOver {
            return;
        }
        monitor.end_role();
        monitor.expect_role(ROLE_SESSION);
        let grant: SessionGrant = monitor.expect();
        assert_eq!(
            (grant.user.as_str(), &grant.session_id[..]),
            (&*self.user, &HASH[..])
        );
        let handed: Snapshot = monitor.expect();
        assert_eq!(handed, snapshot());
    }
}

/// The request for the signature of an exchange hash.
#[must_use]
pub fn exchange(hash: &[u8]) -> SignExchangeHash {
    SignExchangeHash {
        kex_algorithm: KEX.into(),
        host_key_algorithm: "ssh-ed25519".into(),
        key_index: 0,
        hash: hash.to_vec(),
        expects_login: false,
    }
}

/// A snapshot that the monitor accepts.
#[must_use]
pub fn snapshot() -> Snapshot {
    Snapshot {
        bytes: vec![3; 5000].into(),
    }
}

/// A publickey request with a client's signature (RFC 4252 §7).
///
/// # Panics
/// Never.
#[must_use]
pub fn signed(
    key: &PrivateKey,
    session_id: &[u8],
    user: &str,
    service: &str,
    hostbound: Option<&[u8]>,
) -> KeyVerify {
    let blob = key.public().blob();
    let mut data = Vec::new();
    data.put_string(session_id);
    data.put_u8(50);
    data.put_string(user.as_bytes());
    data.put_string(service.as_bytes());
    data.put_string(match hostbound {
        None => b"publickey",
        Some(_) => b"publickey-hostbound-v00@openssh.com",
    });
    data.put_bool(true);
    data.put_string(b"ssh-ed25519");
    data.put_string(&blob);
    if let Some(host_key) = hostbound {
        data.put_string(host_key);
    }
    KeyVerify {
        algorithm: "ssh-ed25519".into(),
        key: blob,
        signature: key
            .sign(SignatureAlgorithm::Ed25519, &data)
            .expect("a signature"),
        hostbound: hostbound.map(<[u8]>::to_vec),
    }
}

/// A token of a key exchange by GSS-API with this hash.
#[must_use]
pub fn gss_exchange(hash: &[u8]) -> GssExchange {
    GssExchange {
        kex_algorithm: "gss-curve25519-sha256-toWM5Slw5Ew8Mqkay+al2g==".into(),
        hash: hash.to_vec(),
        token: vec![0x60, 0],
    }
}

/// A well-formed frame of every message, and of unknown numbers.
#[must_use]
pub fn every_frame(place: &Place) -> Vec<(u8, Vec<u8>)> {
    let mut frames = vec![
        exchange(&HASH).encode_frame(),
        ChooseGroup {
            min_bits: 2048,
            preferred_bits: 3072,
            max_bits: 8192,
        }
        .encode_frame(),
        place.user().encode_frame(),
        AuthNone {}.encode_frame(),
        AuthOther {
            method: "hostbased".into(),
        }
        .encode_frame(),
        AuthPassword {
            password: Secret::new(b"x".to_vec()),
        }
        .encode_frame(),
        KbdintStart {
            devices: String::new(),
        }
        .encode_frame(),
        KbdintRespond { responses: vec![] }.encode_frame(),
        KeyQuery {
            algorithm: "ssh-ed25519".into(),
            key: place.key.private.public().blob(),
        }
        .encode_frame(),
        place.key_verify().encode_frame(),
        HostbasedVerify {
            algorithm: "ssh-ed25519".into(),
            key: place.key.private.public().blob(),
            client_host: "localhost.".into(),
            client_user: place.user().user,
            signature: vec![1; 83],
        }
        .encode_frame(),
        GssapiStart {}.encode_frame(),
        GssapiToken {
            token: vec![0x60, 0],
        }
        .encode_frame(),
        GssapiMic { mic: vec![4; 28] }.encode_frame(),
        gss_exchange(&HASH).encode_frame(),
        GssapiKeyex { mic: vec![4; 28] }.encode_frame(),
        snapshot().encode_frame(),
        HostkeysProve {
            keys: vec![(0, "ssh-ed25519".into())],
        }
        .encode_frame(),
        PtyAllocate {}.encode_frame(),
        TunnelOpen {
            ethernet: false,
            unit: None,
            with_header: false,
        }
        .encode_frame(),
        PtyRelease {
            tty: "/dev/pts/0".into(),
        }
        .encode_frame(),
        TrafficReport {
            received: 0,
            sent: 0,
            channels: vec![0; privsep::roles::COUNTED_CHANNELS.len()],
        }
        .encode_frame(),
        // The monitor's own messages, sent to it.
        AuthOutcome::Success.encode_frame(),
        Signature { blob: vec![1] }.encode_frame(),
    ];
    let known: Vec<u8> = frames.iter().map(|frame| frame[4]).collect();
    let others = MESSAGES
        .iter()
        .map(|info| info.number)
        .chain([0, 19, 25, 63, 128, 255]);
    for number in others.filter(|number| !known.contains(number) && *number != Log::NUMBER) {
        frames.push(privsep::frame::frame(number, &[]));
    }
    frames.into_iter().map(|frame| (frame[4], frame)).collect()
}

/// Pseudo-random numbers that are the same in every run.
pub struct Noise(pub u64);

impl Noise {
    /// A number below `bound`.
    ///
    /// # Panics
    /// Never.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(self.0 >> 33).expect("31 bits") % bound.max(1)
    }

    /// A byte.
    ///
    /// # Panics
    /// Never.
    pub fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).expect("a byte")
    }
}

/// A frame of the same message with some changed bytes and a correct length.
#[must_use]
pub fn damaged(noise: &mut Noise, frame: &[u8]) -> Vec<u8> {
    let mut body = frame[5..].to_vec();
    for _ in 0..=noise.below(3) {
        let at = noise.below(body.len() + 1);
        match noise.below(4) {
            0 => body.truncate(at),
            1 => body.insert(at, noise.byte()),
            2 => {
                // A length that is too large.
                let end = (at + 4).min(body.len());
                body.splice(at..end, [0xff, 0xff, 0xff, noise.byte()]);
            }
            _ => {
                if let Some(byte) = body.get_mut(at) {
                    *byte = noise.byte();
                }
            }
        }
    }
    privsep::frame::frame(frame[4], &body)
}
