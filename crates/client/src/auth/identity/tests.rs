//! Which keys are tried, in which order, with which algorithm.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use keys::certificate::CertificateFields;
use keys::{CertificateKind, KeySpec};
use zeroize::Zeroizing;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use config::client::{ClientConfig, CommandLine};

use keys::PublicKey;

use crate::local::Here;

use super::collect::{AgentKey, IdentityFile, arrange, certificates, files, identity};
use super::found::{FileKey, FoundCertificate};
use super::*;

fn key(seed: u8) -> PrivateKey {
    PrivateKey::from_ed25519_seed(&[seed; 32])
}

fn named(seed: u8, explicit: bool, has_private: bool) -> FileKey {
    FileKey {
        public: key(seed).public().clone(),
        path: PathBuf::from(format!("/k{seed}")),
        explicit,
        private: has_private.then(|| PrivateFile::Read(FileBytes::default())),
    }
}

fn held(seed: u8) -> AgentKey {
    let public = key(seed).public().clone();
    AgentKey {
        blob: public.blob(),
        presented: PresentedKey::Plain(public),
        comment: format!("agent{seed}"),
    }
}

fn fields(seed: u8) -> CertificateFields {
    CertificateFields {
        key: key(seed).public().clone(),
        kind: CertificateKind::User,
        serial: 1,
        key_id: "me".into(),
        principals: vec!["me".into()],
        valid_after: 0,
        valid_before: u64::MAX,
        critical_options: Vec::new(),
        extensions: Vec::new(),
    }
}

fn vouched(seed: u8) -> FoundCertificate {
    let signed = fields(seed).sign(&key(99), SignatureAlgorithm::Ed25519);
    let certificate = signed.unwrap();
    FoundCertificate {
        certificate: PresentedKey::from(certificate),
        path: PathBuf::from(format!("/k{seed}-cert.pub")),
        is_identity: false,
    }
}

fn options(settings: &[(&'static str, &str)]) -> ClientOptions {
    let mut line = CommandLine::new();
    for (keyword, value) in settings {
        line.set(keyword, (*value).to_owned());
    }
    ClientConfig::none(Path::new("/nonexistent"))
        .resolve("host", &line, &Here::default())
        .unwrap()
}

fn names(order: &VecDeque<Identity>) -> Vec<&str> {
    order
        .iter()
        .map(|identity| identity.name.as_str())
        .collect()
}

#[test]
fn certificates_then_agent_keys_of_the_configuration_then_others_then_files() {
    let files = [
        named(1, true, true),
        named(2, true, false),
        named(3, false, true),
    ];
    let agent = [held(4), held(2)];
    let order = arrange(&[vouched(3), vouched(7)], &files, &agent, false);
    assert_eq!(
        names(&order),
        ["/k3-cert.pub", "/k2", "agent4", "/k1", "/k3"]
    );
    let order = arrange(
        &[],
        &files,
        &[held(4), in_agent(&vouched(4)), held(2)],
        false,
    );
    assert_eq!(names(&order), ["/k2", "certified", "agent4", "/k1", "/k3"]);
    let only = arrange(&[], &files, &agent, true);
    assert_eq!(names(&only), ["/k2", "/k1", "/k3"]);
}

fn in_agent(found: &FoundCertificate) -> AgentKey {
    AgentKey {
        blob: found.certificate.blob(),
        presented: found.certificate.clone(),
        comment: "certified".into(),
    }
}

/// As `ssh -v` names them: the agent is named only where it holds the certificate itself.
#[test]
fn an_agent_signs_for_a_certificate_that_it_holds_with_or_without_its_plain_key() {
    let found = [vouched(3)];
    for (agent, is_named) in [
        (vec![in_agent(&found[0])], true),
        (vec![held(3)], false),
        (vec![held(3), in_agent(&found[0])], true),
    ] {
        let order = arrange(&found, &[], &agent, true);
        assert_eq!(names(&order), ["/k3-cert.pub"]);
        let shown = format!("{:?}", order[0]);
        assert_eq!(shown.ends_with(" explicit agent"), is_named, "{shown}");
        assert!(order[0].is_in_agent());
    }
}

/// OpenSSH ignores them as well.
#[test]
fn a_certificate_of_a_host_is_not_presented() {
    let host = |mut found: FoundCertificate| {
        let fields = CertificateFields {
            kind: CertificateKind::Host,
            ..fields(3)
        };
        let certificate = fields.sign(&key(99), SignatureAlgorithm::Ed25519).unwrap();
        found.certificate = PresentedKey::from(certificate);
        found
    };
    let user_keys = &options(&[]).user_keys;
    let of_user = vouched(4);
    let expected = of_user.certificate.clone();
    let found = certificates(user_keys, vec![host(vouched(3)), of_user], &[]);
    let found: Vec<PresentedKey> = found.into_iter().map(|each| each.certificate).collect();
    assert_eq!(found, [expected]);
}

/// The agent signs for the first; the second may open where the first needs a passphrase.
#[test]
fn two_files_with_one_key_are_both_tried() {
    let path = write_key("copied", 0o600, Some(b"right"));
    let public = path.with_extension("pub");
    fs::write(&public, key(5).public().to_line()).unwrap();
    let copy = write_key("copy", 0o600, None);
    let mut options = CommandLine::new();
    for path in [&path, &copy, &copy] {
        options.option(format!("IdentityFile={}", path.display()));
    }
    let options = ClientConfig::none(Path::new("/nonexistent"))
        .resolve("host", &options, &Here::default())
        .unwrap();
    let (files, _) = files(&options.user_keys);
    for agent in [vec![], vec![held(5)]] {
        let mut order = arrange(&[], &files, &agent, true);
        let paths = [&path, &copy].map(|path| path.display().to_string());
        assert_eq!(names(&order), paths);
        order.iter_mut().for_each(Identity::prepare);
        assert_eq!(order[0].signs_alone(), !agent.is_empty());
        assert!(order[1].signs_alone() && !order[1].is_in_agent());
    }
    for path in [path, public, copy] {
        fs::remove_file(path).unwrap();
    }
}

/// As `ssh -Z` prints them and `-v` names them.
#[test]
fn keys_are_shown_in_the_words_of_openssh() {
    let identities = arrange(&[vouched(1)], &[named(1, true, true)], &[held(2)], false);
    let keys = Keys {
        identities,
        agent: None,
    };
    let print = |seed| keys::fingerprint::sha256(&key(seed).public().blob());
    let (one, two) = (print(1), print(2));
    assert_eq!(
        keys.lines(&options(&[])),
        [
            format!("/k1-cert.pub ED25519-CERT {one} explicit\n"),
            format!("agent2 ED25519 {two} agent\n"),
            format!("/k1 ED25519 {one} explicit\n"),
        ]
    );
    let certificates = "ssh-ed25519-cert-v01@openssh.com";
    let only = options(&[("PubkeyAcceptedAlgorithms", certificates)]);
    assert_eq!(keys.lines(&only).len(), 1);
}

#[test]
fn a_login_begins_with_an_agents_key_only_when_it_was_named_or_is_the_only_one() {
    let alone =
        |order: VecDeque<Identity>| -> Vec<bool> { order.iter().map(Identity::begins).collect() };
    assert_eq!(
        alone(arrange(&[], &[], &[held(1), held(2)], false)),
        [false, false]
    );
    assert_eq!(alone(arrange(&[], &[], &[held(1)], false)), [true]);
    let files = [named(2, true, false)];
    assert_eq!(
        alone(arrange(&[], &files, &[held(1), held(2)], false)),
        [true, false]
    );
}

fn rsa_identity(bits: usize) -> Identity {
    // The choice depends on the form only: no such modulus is ever used.
    let public = PublicKey::Rsa {
        exponent: vec![1, 0, 1],
        modulus: vec![0xc1; bits / 8],
    };
    Identity {
        blob: public.blob(),
        presented: PresentedKey::Plain(public),
        name: "rsa".into(),
        path: None,
        explicit: false,
        source: Source::File {
            key: None,
            private: PrivateFile::Read(FileBytes::default()),
            comment: String::new(),
        },
    }
}

fn list(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

#[test]
fn rsa_signs_with_what_the_server_lists_and_with_sha256_unasked() {
    let rsa = rsa_identity(2048);
    let accepted = list(&["ssh-ed25519", "rsa-sha2-512", "rsa-sha2-256"]);
    let algorithm = |server: Option<&[&str]>| {
        let server = server.map(list);
        rsa.algorithm(&accepted, server.as_deref(), 2048)
            .map(SignatureAlgorithm::name)
    };
    assert_eq!(
        algorithm(Some(&["rsa-sha2-256", "rsa-sha2-512"])),
        Some("rsa-sha2-512")
    );
    assert_eq!(algorithm(Some(&["rsa-sha2-256"])), Some("rsa-sha2-256"));
    assert_eq!(algorithm(Some(&["ssh-rsa"])), None);
    assert_eq!(algorithm(None), Some("rsa-sha2-256"));
    assert_eq!(rsa.algorithm(&accepted, None, 4096), None);
}

/// CVE-2026-35387: one name of a family must not permit the others.
#[test]
fn a_list_with_one_ecdsa_name_does_not_admit_the_others() {
    let public = PrivateKey::generate(KeySpec::Ecdsa(keys::EcCurve::P256))
        .unwrap()
        .public()
        .clone();
    let identity = Identity {
        blob: public.blob(),
        presented: PresentedKey::Plain(public),
        ..rsa_identity(2048)
    };
    let algorithm = |accepted: &[&str]| identity.algorithm(&list(accepted), None, 2048);
    assert_eq!(algorithm(&["ecdsa-sha2-nistp521"]), None);
    assert_eq!(
        algorithm(&["ecdsa-sha2-nistp256"]),
        Some(SignatureAlgorithm::EcdsaP256)
    );
}

struct Answers(Vec<&'static str>, usize);

impl Interaction for Answers {
    fn ask(&mut self, prompt: &str, question: Question) -> Option<Zeroizing<Vec<u8>>> {
        assert!(prompt.starts_with("Enter passphrase for key '"));
        assert_eq!(question, Question::Secret);
        self.1 += 1;
        self.0
            .pop()
            .map(|answer| Zeroizing::new(answer.as_bytes().to_vec()))
    }
    fn tell(&mut self, _: &str) {}
    fn can_ask(&self) -> bool {
        true
    }
}

fn write_key(name: &str, mode: u32, passphrase: Option<&[u8]>) -> PathBuf {
    let path = std::env::temp_dir().join(format!("fulmar-id-{}-{name}", std::process::id()));
    let text = private_file::write_openssh(&key(5), "c", passphrase).unwrap();
    fs::write(&path, text.as_bytes()).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path
}

/// The public half of a file's key, and the file if it holds the private key.
fn key_of(path: &Path) -> (PublicKey, Option<PrivateFile>) {
    match identity(path) {
        Ok(Some(IdentityFile::Key(public, private))) => (public, private),
        _ => panic!("{} names no key", path.display()),
    }
}

#[test]
fn a_passphrase_is_asked_for_as_often_as_configured() {
    let path = write_key("locked", 0o600, Some(b"right"));
    let (public, private) = key_of(&path);
    assert_eq!(&public, key(5).public());
    let private = private.unwrap();
    let bytes = private.bytes().unwrap();
    for (answers, prompts, opens, asked) in [
        (vec!["right", "wrong"], 3, true, 2),
        (vec!["right", "wrong", "wrong"], 2, false, 2),
        (vec!["right", ""], 3, false, 1),
        (vec![], 3, false, 1),
    ] {
        let mut person = Answers(answers, 0);
        assert_eq!(unlock("k", bytes, prompts, &mut person).is_some(), opens);
        assert_eq!(person.1, asked);
    }
    fs::remove_file(path).unwrap();
}

/// What `work` logs, and its result.
fn logged<T>(work: impl FnOnce() -> T) -> (Vec<String>, T) {
    let seen = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let lines = std::rc::Rc::clone(&seen);
    let reader = Box::new(move |line: &str| lines.borrow_mut().push(line.to_owned()));
    let result = crate::log::read_by(reader, work);
    (seen.take(), result)
}

/// As in OpenSSH, which checks the permissions when the key is to sign.
#[test]
fn a_private_key_that_others_can_read_is_complained_about_when_it_is_to_sign() {
    let path = write_key("open", 0o644, None);
    let name = path.display().to_string();
    let options = options(&[("IdentityFile", &name)]);
    let (said, mut of_file) = logged(|| {
        let (files, _) = files(&options.user_keys);
        let of_agent = arrange(&[], &files, &[held(5)], true);
        assert!(of_agent[0].is_in_agent() && of_agent.len() == 1);
        let mut of_file = arrange(&[], &files, &[], true);
        of_file[0].prepare();
        of_file
    });
    assert_eq!((said, names(&of_file)), (Vec::new(), vec![&*name]));
    // The server is asked before the key is to sign.
    assert!(!of_file[0].signs_alone());
    let sign = |identity: &mut Identity| {
        let person = &mut Answers(vec![], 0);
        identity.sign(SignatureAlgorithm::Ed25519, b"x", None, &options, person)
    };
    let (said, signature) = logged(|| sign(&mut of_file[0]));
    assert_eq!(signature, Err(None));
    assert!(said[1].contains("UNPROTECTED PRIVATE KEY FILE!"));
    let shown = format!("Permissions 0644 for '{name}' are too open.");
    assert_eq!(said[3], shown);
    assert_eq!(said[6], format!("Load key \"{name}\": bad permissions"));
    fs::remove_file(path).unwrap();
}

/// A file that this user cannot read, here because it is a directory.
#[test]
fn the_public_file_of_a_key_that_cannot_be_read_stands_for_it_in_the_agent() {
    let path = std::env::temp_dir().join(format!("fulmar-id-{}-directory", std::process::id()));
    fs::create_dir(&path).unwrap();
    let name = path.display().to_string();
    let options = options(&[("IdentityFile", &name)]);
    let found = || files(&options.user_keys).0;
    let (said, none) = logged(|| found().is_empty());
    assert!(none && said.len() == 1 && said[0].starts_with("Load key"));
    let public = path.with_extension("pub");
    fs::write(&public, key(5).public().to_line()).unwrap();
    let (said, found) = logged(found);
    assert_eq!(said, Vec::<String>::new());
    assert!(arrange(&[], &found, &[held(5)], true)[0].is_in_agent());
    let mut of_file = arrange(&[], &found, &[], true);
    let (said, signature) = logged(|| {
        let person = &mut Answers(vec![], 0);
        of_file[0].sign(SignatureAlgorithm::Ed25519, b"x", None, &options, person)
    });
    assert_eq!(signature, Err(None));
    assert!(said.len() == 1 && said[0].starts_with(&format!("Load key \"{name}\": ")));
    fs::remove_dir(path).unwrap();
    fs::remove_file(public).unwrap();
}

/// OpenSSH's suite names a key whose `.pub` is a certificate (multipubkey).
#[test]
fn a_certificate_may_stand_in_the_public_file() {
    let path = write_key("vouched", 0o600, None);
    let public = path.with_extension("pub");
    let certificate = vouched(5).certificate;
    let line = keys::public_file::to_line(&certificate, "me");
    fs::write(&public, line).unwrap();
    let mut options = CommandLine::new();
    options.option(format!("IdentityFile={}", path.display()));
    let options = ClientConfig::none(Path::new("/nonexistent"))
        .resolve("host", &options, &Here::default())
        .unwrap();
    let (files, named) = files(&options.user_keys);
    let order = arrange(
        &certificates(&options.user_keys, named, &files),
        &files,
        &[],
        false,
    );
    let offered: Vec<&Vec<u8>> = order.iter().map(|identity| &identity.blob).collect();
    let plain = key(5).public().blob();
    assert_eq!(offered, [&certificate.blob(), &plain]);
    fs::remove_file(path).unwrap();
    fs::remove_file(public).unwrap();
}

#[test]
fn a_public_file_stands_for_a_key_in_the_agent() {
    let path = std::env::temp_dir().join(format!("fulmar-id-{}-pub", std::process::id()));
    fs::write(&path, format!("# c\n{} me\n", key(5).public().to_line())).unwrap();
    let (public, private) = key_of(&path);
    assert!(private.is_none() && &public == key(5).public());
    fs::write(&path, "garbage\n").unwrap();
    assert!(identity(&path).is_err());
    fs::remove_file(&path).unwrap();
    assert!(identity(&path).unwrap().is_none());
}

#[test]
fn a_signature_by_another_algorithm_than_asked_is_noticed() {
    let signature = key(1).sign(SignatureAlgorithm::Ed25519, b"x").unwrap();
    assert!(names_algorithm(&signature, SignatureAlgorithm::Ed25519));
    assert!(names_algorithm(&signature, SignatureAlgorithm::Ed25519Cert));
    assert!(!names_algorithm(&signature, SignatureAlgorithm::RsaSha512));
    assert!(!names_algorithm(b"", SignatureAlgorithm::Ed25519));
}
