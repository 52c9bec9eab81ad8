use std::io::{Cursor, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use keys::{KeySpec, PrivateKey, PublicKey, SignatureAlgorithm, VerifyPolicy, private_file};
use wire::Put;

use crate::message::{self, MAX_MESSAGE_BYTES};
use crate::{AgentClient, AgentError, SignFlags};

/// A stream that answers with scripted bytes and records the bytes written to it.
struct Script {
    answers: Cursor<Vec<u8>>,
    written: Vec<u8>,
}

impl Read for Script {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.answers.read(buffer)
    }
}

impl Write for Script {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.written.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn agent_that_says(bytes: &[u8]) -> AgentClient<Script> {
    AgentClient::new(Script {
        answers: Cursor::new(bytes.to_vec()),
        written: Vec::new(),
    })
}

fn answer(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_string(body);
    out
}

#[test]
fn requests_stand_on_the_wire_as_the_draft_says() {
    let mut client = agent_that_says(&answer(&[message::SIGN_RESPONSE, 0, 0, 0, 1, 9]));
    let signature = client.sign(b"K", b"DD", SignFlags::RSA_SHA2_512).unwrap();
    assert_eq!(signature, [9]);
    assert_eq!(
        client.into_inner().written,
        b"\0\0\0\x10\x0d\0\0\0\x01K\0\0\0\x02DD\0\0\0\x04"
    );
}

/// CVE-2025-47913: a client panicked at SUCCESS where it expected an answer of another kind.
#[test]
fn a_wrong_answer_is_an_error_and_ends_the_connection() {
    let mut script = answer(&[message::SUCCESS]);
    script.extend(answer(&[message::IDENTITIES_ANSWER, 0, 0, 0, 0]));
    let mut client = agent_that_says(&script);
    assert!(matches!(
        client.list(),
        Err(AgentError::UnexpectedAnswer { number: 6 })
    ));
    assert!(matches!(client.list(), Err(AgentError::Io(_))));
}

#[test]
fn a_refusal_leaves_the_connection_usable() {
    for number in [message::FAILURE, message::EXTENSION_FAILURE] {
        let mut script = answer(&[number]);
        script.extend(answer(&[message::IDENTITIES_ANSWER, 0, 0, 0, 0]));
        let mut client = agent_that_says(&script);
        assert!(matches!(
            client.bind_session(b"k", b"s", b"g", false),
            Err(AgentError::Refused)
        ));
        assert!(client.list().unwrap().is_empty());
    }
}

#[test]
fn lengths_of_answers_are_bounded_before_they_are_read() {
    for bytes in [0, u32::try_from(MAX_MESSAGE_BYTES).unwrap() + 1, u32::MAX] {
        let mut client = agent_that_says(&bytes.to_be_bytes());
        match client.list() {
            Err(AgentError::BadLength { bytes: got }) => assert_eq!(got, bytes),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_count_of_identities_is_not_believed() {
    for count in [1, 2048, 2049, u32::MAX] {
        let mut body = vec![message::IDENTITIES_ANSWER];
        body.put_u32(count);
        assert!(agent_that_says(&answer(&body)).list().is_err());
    }
}

#[test]
fn truncated_and_padded_answers_are_errors() {
    let mut body = vec![message::IDENTITIES_ANSWER];
    body.put_u32(1);
    body.put_string(b"blob");
    body.put_string(b"comment");
    assert_eq!(agent_that_says(&answer(&body)).list().unwrap().len(), 1);
    for end in 1..body.len() {
        assert!(agent_that_says(&answer(&body[..end])).list().is_err());
    }
    body.push(0);
    assert!(agent_that_says(&answer(&body)).list().is_err());
}

#[test]
fn a_request_longer_than_an_agent_takes_is_not_sent() {
    let mut client = agent_that_says(&[]);
    assert!(matches!(
        client.sign(b"k", &vec![0; MAX_MESSAGE_BYTES], SignFlags::NONE),
        Err(AgentError::RequestTooLong)
    ));
    assert!(client.into_inner().written.is_empty());
}

/// A private ssh-agent, killed when the test ends.
struct RealAgent {
    process: Child,
    folder: std::path::PathBuf,
}

impl RealAgent {
    fn start(name: &str) -> Option<Self> {
        let folder =
            std::env::temp_dir().join(format!("fulmar-agent-{}-{name}", std::process::id()));
        // Removes the folder of an earlier, killed process with the same number.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).ok()?;
        let process = Command::new("ssh-agent")
            .arg("-D")
            .arg("-a")
            .arg(folder.join("socket"))
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut process) = process else {
            eprintln!("skipped: no ssh-agent on this machine");
            return None;
        };
        // The agent prints its socket's path once it listens.
        let mut line = [0; 1];
        process.stdout.as_mut()?.read_exact(&mut line).ok()?;
        Some(Self { process, folder })
    }

    fn connect(&self) -> AgentClient<UnixStream> {
        AgentClient::new(UnixStream::connect(self.folder.join("socket")).unwrap())
    }
}

impl Drop for RealAgent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn openssh_agent_lists_and_signs_with_our_keys() {
    let Some(agent) = RealAgent::start("signs") else {
        return;
    };
    let specs = [
        (KeySpec::Ed25519, SignatureAlgorithm::Ed25519),
        (KeySpec::Rsa { bits: 2048 }, SignatureAlgorithm::RsaSha256),
        (KeySpec::Rsa { bits: 2048 }, SignatureAlgorithm::RsaSha512),
    ];
    for (index, (spec, algorithm)) in specs.into_iter().enumerate() {
        let key = PrivateKey::generate(spec).unwrap();
        let file = private_file::write_openssh(&key, "a comment", None).unwrap();
        let path = agent.folder.join(format!("key{index}"));
        write_private(&path, file.as_bytes());
        let added = Command::new("ssh-add")
            .arg("-q")
            .arg(&path)
            .env("SSH_AUTH_SOCK", agent.folder.join("socket"))
            .status()
            .unwrap();
        assert!(added.success());
        let mut client = agent.connect();
        let blob = key.public().blob();
        let found = client.list().unwrap();
        assert!(
            found
                .iter()
                .any(|identity| identity.blob == blob && identity.comment == "a comment")
        );
        let signature = client.sign_with(&blob, b"data", algorithm).unwrap();
        PublicKey::from_blob(&blob)
            .unwrap()
            .verify(algorithm, b"data", &signature, &VerifyPolicy::default())
            .unwrap();
        assert!(matches!(
            client.sign(b"no such key", b"data", SignFlags::NONE),
            Err(AgentError::Refused)
        ));
    }
}

fn write_private(path: &std::path::Path, bytes: &[u8]) {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .unwrap()
        .write_all(bytes)
        .unwrap();
}
