//! The seeds of the corpora: well-formed inputs of each kind, made from fixed keys.

use compress::PacketCompressor;
use hostile::adversary::{Adversary, Offer, publickey_fields, userauth};
use hostile::subject::{Memory, PASSWORD};
use keys::{EcCurve, KeySpec, PrivateKey, private_file, public_file};
use packet::{PacketBuf, Sequencer};
use privsep::frame::frame;
use privsep::{Message, Secret};
use proto::{Role, TransportConfig};
use wire::Put;

type Seeds = Vec<(String, Vec<u8>)>;

/// Every seed of a target, by name.
#[must_use]
pub fn of(target: &str) -> Seeds {
    match target {
        "wire_message" => named("message", payloads()),
        "splitter" => named("stream", streams()),
        "monitor_request" => frames(),
        "private_key_file" => named("key", private_keys()),
        "key_blob" => named("blob", blobs()),
        "known_hosts" => named("file", vec![known_hosts()]),
        "authorized_keys" => named("file", vec![authorized_keys()]),
        "revocation_list" => named("list", revocation_lists()),
        "ssh_config" => named("file", vec![SSH_CONFIG.into()]),
        "sshd_config" => named("file", vec![SSHD_CONFIG.into()]),
        "server_before_login" | "client_before_login" => named("script", scripts(5)),
        "after_login" => [named("script", scripts(2)), named("early", early_data())].concat(),
        "snapshot" => named("snapshot", vec![snapshot()]),
        "deflate" => named(
            "payloads",
            vec![script(5, &payloads()), script(0x80, &payloads())],
        ),
        "inflate" => named("stream", deflated()),
        "zstd_deflate" => named(
            "payloads",
            vec![script(5, &payloads()), script(0x82, &payloads())],
        ),
        "zstd_inflate" => named("stream", by_zstd()),
        "sftp_stream" => named("stream", crate::sftp::seeds()),
        "tunnel_packets" => named("data", crate::packets::seeds()),
        "sntrup_exchange" => named("values", crate::key_exchange::seeds()),
        "socks_request" => named("request", crate::forward::socks_seeds()),
        "forward_fields" => named("fields", crate::forward::field_seeds()),
        "agent_request" => named("request", crate::agent::request_seeds()),
        "agent_answer" => named("answer", crate::agent::answer_seeds()),
        "datagrams" => named("datagram", crate::forward::datagram_seeds()),
        "dns_answer" => named("answer", crate::dns::seeds()),
        "mux_message" => named("message", crate::sharing::message_seeds()),
        "ctap_cbor" => named("value", crate::security_keys::seeds()),
        "allowed_signers" => named("file", crate::files::signers_seeds()),
        "file_signature" => named("file", crate::files::signature_seeds()),
        "token_reply" => named("reply", crate::tokens::seeds()),
        _ => Vec::new(),
    }
}

fn named(kind: &str, list: Vec<Vec<u8>>) -> Seeds {
    list.into_iter()
        .enumerate()
        .map(|(index, bytes)| (format!("{kind}-{index:02}"), bytes))
        .collect()
}

fn strings(number: u8, parts: &[&[u8]], tail: &[u8]) -> Vec<u8> {
    let mut payload = vec![number];
    for part in parts {
        payload.put_string(part);
    }
    payload.extend_from_slice(tail);
    payload
}

/// One payload of each kind.
fn payloads() -> Vec<Vec<u8>> {
    let key = PrivateKey::from_ed25519_seed(&[1; 32]).public().blob();
    let numbers = |number: u8, list: &[u32]| {
        let mut payload = vec![number];
        for value in list {
            payload.put_u32(*value);
        }
        payload
    };
    let mut open = strings(90, &[b"session"], b"");
    open.extend_from_slice(&numbers(0, &[0, 1 << 20, 32_768])[1..]);
    let request = |name: &[u8], fields: &[u8]| {
        let mut payload = numbers(98, &[0]);
        payload.put_string(name);
        payload.put_bool(true);
        payload.extend_from_slice(fields);
        payload
    };
    let mut pty = strings(0, &[b"xterm"], b"")[1..].to_vec();
    pty.extend_from_slice(&[0, 0, 0, 80, 0, 0, 0, 24, 0, 0, 0, 0, 0, 0, 0, 0]);
    pty.put_string(&[1, 0, 0, 0, 3, 0]);
    let mut exec = Vec::new();
    exec.put_string(b"echo hello");
    let mut data = numbers(94, &[0]);
    data.put_string(b"some data");
    let mut stderr = numbers(95, &[0, 1]);
    stderr.put_string(b"some words");
    let mut info = strings(60, &[b"name", b"instruction", b""], &[0, 0, 0, 1]);
    info.put_string(b"Password: ");
    info.put_bool(false);
    let mut password = vec![0];
    password.put_string(b"guess");
    let mut devices = Vec::new();
    devices.put_string(b"");
    devices.put_string(b"");
    vec![
        Offer::default().payload(Role::Client),
        Offer::kex("sntrup761x25519-sha512").payload(Role::Server),
        vec![21],
        strings(30, &[&[9; 32]], b""),
        strings(
            31,
            &[
                &key,
                &[9; 32],
                &strings(0, &[b"ssh-ed25519", &[7; 64]], b"")[1..],
            ],
            b"",
        ),
        numbers(34, &[2048, 3072, 8192]),
        strings(31, &[&[0x7f; 256], &[2]], b""),
        strings(32, &[&[3; 256]], b""),
        strings(
            1,
            &[],
            &[0, 0, 0, 11, 0, 0, 0, 3, b'b', b'y', b'e', 0, 0, 0, 0],
        ),
        strings(2, &[b"ignored"], b""),
        numbers(3, &[7]),
        strings(4, &[], &[1, 0, 0, 0, 1, b'x', 0, 0, 0, 0]),
        strings(5, &[b"ssh-userauth"], b""),
        strings(6, &[b"ssh-userauth"], b""),
        strings(
            7,
            &[],
            &[
                &[0, 0, 0, 1][..],
                &strings(0, &[b"server-sig-algs", b"ssh-ed25519"], b"")[1..],
            ]
            .concat(),
        ),
        userauth(b"user", "none", b""),
        userauth(b"user", "password", &password),
        userauth(
            b"user",
            "publickey",
            &publickey_fields("ssh-ed25519", &key, None),
        ),
        userauth(
            b"user",
            "publickey",
            &publickey_fields("ssh-ed25519", &key, Some(&[1; 83])),
        ),
        userauth(b"user", "keyboard-interactive", &devices),
        strings(51, &[b"publickey,password"], &[0]),
        vec![52],
        strings(53, &[b"Welcome\n", b""], b""),
        info,
        strings(61, &[], &[0, 0, 0, 1, 0, 0, 0, 2, b'n', b'o']),
        strings(80, &[b"keepalive@openssh.com"], &[1]),
        strings(
            80,
            &[b"hostkeys-00@openssh.com"],
            &[&[0][..], &strings(0, &[&key], b"")[1..]].concat(),
        ),
        strings(
            80,
            &[b"hostkeys-prove-00@openssh.com"],
            &[&[1][..], &strings(0, &[&key], b"")[1..]].concat(),
        ),
        strings(80, &[b"no-more-sessions@openssh.com"], &[0]),
        strings(81, &[], b"anything"),
        vec![82],
        open,
        numbers(91, &[0, 0, 1 << 20, 32_768]),
        strings(
            92,
            &[],
            &[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, b'n', b'o', 0, 0, 0, 0],
        ),
        numbers(93, &[0, 32_768]),
        data,
        stderr,
        numbers(96, &[0]),
        numbers(97, &[0]),
        request(b"exec", &exec),
        request(b"pty-req", &pty),
        request(b"window-change", &[0; 16]),
        request(b"exit-status", &[0, 0, 0, 1]),
        request(b"shell", b""),
        numbers(99, &[0]),
        numbers(100, &[0]),
        strings(192, &[b"ping"], b""),
        strings(193, &[b"pong"], b""),
    ]
}

/// Payloads as a script after its first byte.
fn script(stage: u8, payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut out = vec![stage];
    for payload in payloads {
        let len = u16::try_from(payload.len()).unwrap_or(u16::MAX);
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(payload);
    }
    out
}

fn scripts(stages: u8) -> Vec<Vec<u8>> {
    let all = payloads();
    let mut list = vec![[&[0][..], b"SSH-2.0-peer\r\n"].concat()];
    for stage in 0..stages {
        for part in all.chunks(8) {
            list.push(script(stage, part));
        }
    }
    list
}

/// Channels with data before the answer, to owners that answer at once and later.
fn early_data() -> Vec<Vec<u8>> {
    let open = |number: u32| {
        let mut payload = strings(90, &[b"direct-tcpip"], b"");
        payload.put_u32(number);
        payload.put_u32(1 << 20);
        payload.put_u32(32_768);
        payload
    };
    let data = |number: u32, bytes: &[u8]| {
        let mut payload = vec![94];
        payload.put_u32(1 << 31 | number);
        payload.put_string(bytes);
        payload
    };
    let mut eof = vec![96];
    eof.put_u32(1 << 31 | 5);
    let all = [
        open(5),
        data(5, b"first"),
        open(6),
        data(6, &[7; 32_768]),
        data(5, b" and more"),
        eof,
        open(5),
        data(5, b"again"),
    ];
    (0..4).map(|stage| script(stage, &all)).collect()
}

fn streams() -> Vec<Vec<u8>> {
    let mut sequencer = Sequencer::with_padding_seed([3; 32]);
    let mut clear = vec![0, 7];
    for payload in payloads().into_iter().take(6) {
        let job = sequencer
            .stamp(PacketBuf::from_payload(&payload))
            .expect("a payload");
        clear.extend_from_slice(job.run().wire());
    }
    vec![
        clear,
        [&[1, 255][..], &[0; 300]].concat(),
        [&[0x51, 64][..], &[0x11; 600]].concat(),
    ]
}

/// The requests of the auth process in their usual order.
fn requests_before_the_login() -> Vec<Vec<u8>> {
    let key = PrivateKey::from_ed25519_seed(&[1; 32]).public().blob();
    vec![
        privsep::ChooseGroup {
            min_bits: 2048,
            preferred_bits: 3072,
            max_bits: 8192,
        }
        .encode_frame(),
        privsep::SignExchangeHash {
            kex_algorithm: "curve25519-sha256".into(),
            host_key_algorithm: "ssh-ed25519".into(),
            key_index: 0,
            hash: vec![7; 32],
            expects_login: false,
        }
        .encode_frame(),
        privsep::User {
            user: "ada".into(),
            service: "ssh-connection".into(),
            client_version: "SSH-2.0-x".into(),
        }
        .encode_frame(),
        privsep::AuthNone {}.encode_frame(),
        privsep::AuthOther {
            method: "hostbased".into(),
        }
        .encode_frame(),
        privsep::AuthPassword {
            password: Secret::new(b"guess".to_vec()),
        }
        .encode_frame(),
        privsep::KbdintStart {
            devices: String::new(),
        }
        .encode_frame(),
        privsep::KbdintRespond {
            responses: vec![Secret::new(b"guess".to_vec()), Secret::default()],
        }
        .encode_frame(),
        privsep::KeyQuery {
            algorithm: "ssh-ed25519".into(),
            key: key.clone(),
        }
        .encode_frame(),
        privsep::KeyVerify {
            algorithm: "ssh-ed25519".into(),
            key: key.clone(),
            signature: vec![1; 83],
            hostbound: Some(key),
        }
        .encode_frame(),
        privsep::HostbasedVerify {
            algorithm: "ssh-ed25519".into(),
            key: vec![1; 51],
            client_host: "a.example.".into(),
            client_user: "ada".into(),
            signature: vec![1; 83],
        }
        .encode_frame(),
        privsep::GssapiStart {}.encode_frame(),
        privsep::GssapiToken {
            token: b"\x60\x0d\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\x01\x00".to_vec(),
        }
        .encode_frame(),
        privsep::GssapiMic { mic: vec![4; 28] }.encode_frame(),
        privsep::GssExchange {
            kex_algorithm: "gss-curve25519-sha256-toWM5Slw5Ew8Mqkay+al2g==".into(),
            hash: vec![7; 32],
            token: vec![0x60, 0],
        }
        .encode_frame(),
        privsep::GssapiKeyex { mic: vec![4; 28] }.encode_frame(),
        privsep::Snapshot {
            bytes: b"a state".to_vec().into(),
        }
        .encode_frame(),
    ]
}

/// The requests of the session process, and the answer of a reader.
fn requests_after_the_login() -> Vec<Vec<u8>> {
    vec![
        privsep::Log {
            level: privsep::LogLevel::Info,
            is_forced: false,
            text: "a text".into(),
            tail: Some("the rest".into()),
        }
        .encode_frame(),
        privsep::HostkeysProve {
            keys: vec![(0, "ssh-ed25519".into()), (1, "rsa-sha2-512".into())],
        }
        .encode_frame(),
        privsep::PtyAllocate {}.encode_frame(),
        privsep::PtyRelease {
            tty: "/dev/pts/7".into(),
        }
        .encode_frame(),
        privsep::TunnelOpen {
            ethernet: false,
            unit: Some(1),
            with_header: true,
        }
        .encode_frame(),
        privsep::TrafficReport {
            received: 1 << 33,
            sent: 7,
            channels: vec![1; privsep::roles::COUNTED_CHANNELS.len()],
        }
        .encode_frame(),
        privsep::HeaderRead {
            token: 9,
            client: Some(("192.0.2.1".into(), 40_000)),
            failure: None,
        }
        .encode_frame(),
    ]
}

/// Honest processes' requests, and for each message of the table one with a body of strings, so that
/// each decoder runs.
fn frames() -> Seeds {
    let honest = [requests_before_the_login(), requests_after_the_login()];
    let mut list = vec![("honest".to_owned(), honest.concat().concat())];
    for info in privsep::MESSAGES {
        let body = &strings(
            0,
            &[b"user", b"ssh-connection", b"ssh-ed25519", &[1; 51]],
            &[0; 8],
        )[1..];
        list.push((info.name.to_owned(), frame(info.number, body)));
    }
    list
}

fn generated() -> Vec<PrivateKey> {
    let mut keys = vec![PrivateKey::from_ed25519_seed(&[1; 32])];
    for spec in [
        KeySpec::Ecdsa(EcCurve::P256),
        KeySpec::Ecdsa(EcCurve::P521),
        KeySpec::Rsa { bits: 2048 },
        KeySpec::MlDsa44Ed25519,
    ] {
        keys.push(PrivateKey::generate(spec).expect("a key"));
    }
    keys
}

fn private_keys() -> Vec<Vec<u8>> {
    let mut list = Vec::new();
    for key in generated() {
        let openssh = private_file::write_openssh(&key, "seed", None);
        let pem = private_file::write_pem(&key, None);
        let pkcs8 = private_file::write_pkcs8(&key, None);
        for file in [openssh, pem, pkcs8].into_iter().flatten() {
            list.push(file.as_bytes().to_vec());
        }
    }
    list
}

fn blobs() -> Vec<Vec<u8>> {
    let mut list = Vec::new();
    for key in generated() {
        list.push(key.public().blob());
        let algorithm = *key.key_type().algorithms().first().expect("an algorithm");
        list.push(key.sign(algorithm, b"text").expect("a signature"));
        list.push(key.public().to_line().into_bytes());
        list.extend(public_file::to_pkcs8(key.public()).map(String::into_bytes));
    }
    list
}

fn known_hosts() -> Vec<u8> {
    let line = PrivateKey::from_ed25519_seed(&[1; 32]).public().to_line();
    let line = line.trim_end();
    let hashed = keys::known_hosts::hash_name("host");
    format!(
        "# a comment\nhost,192.0.2.1 {line}\n[host]:2222 {line} words\n\
         @cert-authority *.example.org {line}\n@revoked * {line}\n{hashed} {line}\n!not,h?st* {line}\n\nbroken\n"
    )
    .into_bytes()
}

fn authorized_keys() -> Vec<u8> {
    let line = PrivateKey::from_ed25519_seed(&[1; 32]).public().to_line();
    let line = line.trim_end();
    format!(
        "# a comment\n{line}\nrestrict,pty,command=\"echo \\\"hi\\\"\" {line}\n\
         from=\"192.0.2.0/24,!10.0.0.1,*.example.org\",expiry-time=\"20300101\" {line}\n\
         cert-authority,principals=\"a,b\" {line}\nenvironment=\"A=b\",permitopen=\"h:1\" {line}\n"
    )
    .into_bytes()
}

fn revocation_lists() -> Vec<Vec<u8>> {
    let line = PrivateKey::from_ed25519_seed(&[2; 32]).public().to_line();
    let mut krl = b"SSHKRL\n\0".to_vec();
    krl.put_u32(1);
    for number in [1, 1_700_000_000, 0] {
        krl.put_u64(number);
    }
    krl.put_string(b"");
    krl.put_string(b"comment");
    let blob = PrivateKey::from_ed25519_seed(&[1; 32]).public().blob();
    let mut keys = Vec::new();
    keys.put_string(&blob);
    krl.put_u8(2);
    krl.put_string(&keys);
    let mut serials = Vec::new();
    serials.put_string(&blob);
    serials.put_string(b"");
    for (kind, body) in [(0x20, vec![0, 0, 0, 0, 0, 0, 0, 5]), (0x21, vec![0; 16])] {
        serials.put_u8(kind);
        serials.put_string(&body);
    }
    let mut bits = Vec::new();
    bits.put_u64(10);
    bits.put_mpint(&[0x05]);
    serials.put_u8(0x22);
    serials.put_string(&bits);
    krl.put_u8(1);
    krl.put_string(&serials);
    vec![line.into_bytes(), krl]
}

fn snapshot() -> Vec<u8> {
    let mut adversary = Adversary::new(Memory::server(TransportConfig::default()), Role::Client);
    adversary.exchange(&Offer::default());
    adversary.service();
    adversary.login_password(b"user", PASSWORD);
    adversary.rest();
    let taken = adversary.subject.connection.snapshot();
    taken.expect("right after login").to_vec()
}

fn deflated() -> Vec<Vec<u8>> {
    let mut compressor = compress::Compressor::with_level(6);
    let mut list = Vec::new();
    for payload in payloads() {
        let mut out = Vec::new();
        compressor.compress(&payload, &mut out).expect("deflated");
        list.push(out);
    }
    let bomb = {
        let mut compressor = compress::Compressor::with_level(9);
        let mut out = Vec::new();
        compressor
            .compress(&vec![0; 1 << 20], &mut out)
            .expect("deflated");
        out
    };
    vec![
        script(0, &list)[1..].to_vec(),
        script(0, &[bomb])[1..].to_vec(),
    ]
}

/// Packets of every kind: frames that start and continue, an uncompressed payload, a bomb.
fn by_zstd() -> Vec<Vec<u8>> {
    let settings = compress::CompressionSettings::default();
    let mut compressor = compress::ZstdCompressor::new(settings);
    let mut packed = |payload: &[u8]| {
        let mut out = Vec::new();
        compressor.compress(payload, &mut out).expect("compressed");
        compressor.set_level(u8::try_from(payload.len() % 7).unwrap_or_default());
        out
    };
    let list: Vec<_> = payloads().iter().map(|payload| packed(payload)).collect();
    let stored = [&[0][..], b"as it is"].concat();
    let bomb = packed(&vec![0; 1 << 20]);
    let fresh = {
        let mut out = Vec::new();
        compress::ZstdCompressor::new(settings)
            .compress(&b"again and ".repeat(400), &mut out)
            .expect("compressed");
        out
    };
    vec![
        script(0, &list)[1..].to_vec(),
        script(0, &[fresh.clone(), stored, Vec::new(), fresh])[1..].to_vec(),
        script(0, &[bomb])[1..].to_vec(),
    ]
}

const SSH_CONFIG: &str = "\
Include x
Host web? !web9 *.example.org
    HostName %h.example.net
    Port 2222
    User \"some one\"
    IdentityFile ~/.ssh/id_%r_${X}
    ProxyJump a@b:3,[::1]:4
    Ciphers ^aes128-gcm@openssh.com
    SendEnv LANG LC_* -LC_X
Match host *.org exec \"true %h\" user !root
    RekeyLimit 1G 1h
    LocalForward 8080 localhost:80
Match final all
    CanonicalizeHostname yes
    CanonicalDomains example.org
";

const SSHD_CONFIG: &str = "\
Port 22
ListenAddress [::]:2222
Include x
HostKey /etc/ssh/ssh_host_ed25519_key
AuthorizedKeysFile .ssh/authorized_keys %h/%u
AuthenticationMethods publickey,password publickey,keyboard-interactive:pam
MaxStartups 10:30:100
PerSourcePenalties authfail:1s max:10m
RekeyLimit 1G 1h
Subsystem sftp /usr/lib/sftp-server -l \"a b\"
Ciphers -aes*-ctr
AllowUsers ann bob@192.0.2.0/24 !eve
Match User ann Address 192.0.2.0/24,!192.0.2.9 LocalPort 22
    ForceCommand \"echo %u\"
    X11Forwarding no
    SetEnv A=b \"C=d e\"
Match Group wheel Host *.example.org
    PermitRootLogin prohibit-password
Match all
    Banner none
";

#[cfg(test)]
mod tests {
    use privsep::{FrameSplitter, MESSAGES, Sender};

    #[test]
    fn the_honest_requests_are_all_that_less_trusted_processes_send() {
        let mut splitter = FrameSplitter::new();
        splitter.feed(&super::requests_before_the_login().concat());
        splitter.feed(&super::requests_after_the_login().concat());
        let mut sent = Vec::new();
        while let Some(frame) = splitter.next_frame().expect("a frame") {
            sent.push(frame.number);
        }
        for message in MESSAGES {
            let is_trusted = matches!(message.sender, Sender::Monitor | Sender::Listener);
            let is_sent = sent.contains(&message.number);
            assert_eq!(is_sent, !is_trusted, "{}", message.name);
        }
    }
}
