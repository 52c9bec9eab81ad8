//! Decisions about host keys: known, new, changed, revoked, certified, and lookups that fail.

mod dns_answers;
mod records;

use std::fs;
use std::path::{Path, PathBuf};

use config::client::{ClientConfig, CommandLine, YesNoAsk};
use keys::certificate::{CertificateFields, CertificateOption};
use keys::{Certificate, CertificateKind, PrivateKey};
use zeroize::Zeroizing;

use super::*;
use crate::interaction::Question;
use crate::local::Here;

/// A user who gives prepared answers and records the text shown.
#[derive(Default)]
struct Script {
    answers: Vec<&'static str>,
    asked: Vec<String>,
    told: String,
}

impl Interaction for Script {
    fn ask(&mut self, prompt: &str, question: Question) -> Option<Zeroizing<Vec<u8>>> {
        assert_eq!(question, Question::Confirm);
        self.asked.push(prompt.to_owned());
        if self.answers.is_empty() {
            return None;
        }
        Some(Zeroizing::new(self.answers.remove(0).as_bytes().to_vec()))
    }

    fn tell(&mut self, text: &str) {
        self.told.push_str(text);
    }

    fn can_ask(&self) -> bool {
        true
    }
}

/// A directory that is removed with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("fulmar-hostkey-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn known_hosts(&self) -> PathBuf {
        self.0.join("known_hosts")
    }

    fn read(&self) -> String {
        fs::read_to_string(self.known_hosts()).unwrap_or_default()
    }

    fn options(&self, host: &str, more: &[&str]) -> ClientOptions {
        let mut line = CommandLine::new();
        for option in more {
            line.option(*option);
        }
        line.option(format!(
            "UserKnownHostsFile={}",
            self.known_hosts().display()
        ));
        line.option("GlobalKnownHostsFile=none");
        ClientConfig::none(Path::new("/nonexistent"))
            .resolve(host, &line, &Here::default())
            .unwrap()
    }

    fn checker(&self, host: &str, more: &[&str]) -> HostKeyChecker {
        HostKeyChecker::new(&self.options(host, more))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn key(seed: u8) -> PrivateKey {
    PrivateKey::from_ed25519_seed(&[seed; 32])
}

fn line(names: &str, key: &PrivateKey) -> String {
    format!("{names} {}\n", key.public().to_line())
}

fn judge(checker: &mut HostKeyChecker, key: &PrivateKey, person: &mut Script) -> Verdict {
    checker.judge("ssh-ed25519", &key.public().blob(), person)
}

fn certificate(
    names: &[&str],
    authority: &PrivateKey,
    options: Vec<CertificateOption>,
) -> Certificate {
    let fields = CertificateFields {
        key: key(1).public().clone(),
        kind: CertificateKind::Host,
        serial: 7,
        key_id: "host".into(),
        principals: names.iter().map(ToString::to_string).collect(),
        valid_after: 0,
        valid_before: u64::MAX,
        critical_options: options,
        extensions: Vec::new(),
    };
    fields.sign(authority, SignatureAlgorithm::Ed25519).unwrap()
}

fn judge_certificate(checker: &mut HostKeyChecker, certificate: &Certificate) -> Verdict {
    checker.judge(
        "ssh-ed25519-cert-v01@openssh.com",
        certificate.blob(),
        &mut Script::default(),
    )
}

#[test]
fn a_known_key_passes_without_a_question() {
    let scratch = Scratch::new("known");
    scratch.file("known_hosts", &line("h,[h]:2222", &key(1)));
    for more in [&[][..], &["Port=2222"][..]] {
        let mut person = Script::default();
        assert_eq!(
            judge(&mut scratch.checker("h", more), &key(1), &mut person),
            Verdict::Accept
        );
        assert!(person.asked.is_empty() && person.told.is_empty());
    }
    let strict = &["StrictHostKeyChecking=yes", "Port=99", "HostKeyAlias=other"];
    assert_eq!(
        judge(
            &mut scratch.checker("h", strict),
            &key(1),
            &mut Script::default()
        ),
        Verdict::Refuse
    );
}

#[test]
fn a_new_key_is_asked_about_and_written_down_on_yes_or_its_fingerprint() {
    let fingerprint = keys::fingerprint::sha256(&key(1).public().blob());
    let fingerprint: &'static str = fingerprint.leak();
    // As in OpenSSH, the first word counts.
    let answers = [
        vec!["yes"],
        vec!["what", "YES"],
        vec![fingerprint],
        vec!["\tyes x"],
    ];
    for (index, answers) in answers.into_iter().enumerate() {
        let scratch = Scratch::new(&format!("new{index}"));
        scratch.file("known_hosts", &line("other", &key(1)));
        let mut person = Script {
            answers,
            ..Script::default()
        };
        let mut checker = scratch.checker("h", &["Port=2222"]);
        checker.set_address(Some("192.0.2.1:2222".parse().unwrap()));
        assert_eq!(judge(&mut checker, &key(1), &mut person), Verdict::Accept);
        assert!(scratch.read().ends_with(&line("[h]:2222", &key(1))));
        assert!(person.told.starts_with(
            "The authenticity of host '[h]:2222 ([192.0.2.1]:2222)' can't be established.\n"
        ));
        let shown = format!("\nED25519 key fingerprint is: {fingerprint}\n");
        assert!(person.told.contains(&shown));
        assert!(person.told.contains("known_hosts:1: other"));
        assert!(person.asked[0].contains("(yes/no/[fingerprint])?"));
        let again = "Please type 'yes', 'no' or the fingerprint: ";
        assert!(person.asked.iter().skip(1).all(|asked| asked == again));
    }
}

#[test]
fn no_silence_and_a_wrong_fingerprint_refuse_and_write_nothing() {
    let answers = [
        vec!["no"],
        vec![],
        vec!["SHA256:AAAA", "no"],
        vec!["", "yes"],
    ];
    for (index, answers) in answers.into_iter().enumerate() {
        let scratch = Scratch::new(&format!("no{index}"));
        let mut person = Script {
            answers,
            ..Script::default()
        };
        assert_eq!(
            judge(&mut scratch.checker("h", &[]), &key(1), &mut person),
            Verdict::Refuse
        );
        assert_eq!(scratch.read(), "");
    }
}

#[test]
fn batch_mode_and_strict_checking_refuse_new_keys_unasked() {
    for more in [&["BatchMode=yes"], &["StrictHostKeyChecking=yes"]] {
        let scratch = Scratch::new(&format!("strict-{}", more[0]));
        let mut person = Script {
            answers: vec!["yes"],
            ..Script::default()
        };
        assert_eq!(
            judge(&mut scratch.checker("h", more), &key(1), &mut person),
            Verdict::Refuse
        );
        assert!(person.asked.is_empty());
        assert_eq!(scratch.read(), "");
    }
}

#[test]
fn accept_new_writes_new_keys_hashed_if_asked_but_refuses_changed_ones() {
    let scratch = Scratch::new("acceptnew");
    let more = &["StrictHostKeyChecking=accept-new", "HashKnownHosts=yes"];
    let mut person = Script::default();
    assert_eq!(
        judge(&mut scratch.checker("h", more), &key(1), &mut person),
        Verdict::Accept
    );
    assert!(scratch.read().starts_with("|1|"));
    assert_eq!(
        judge(&mut scratch.checker("h", more), &key(1), &mut person),
        Verdict::Accept
    );
    assert_eq!(scratch.read().lines().count(), 1);
    assert_eq!(
        judge(&mut scratch.checker("h", more), &key(2), &mut person),
        Verdict::Refuse
    );
    assert!(person.told.contains("HAS CHANGED"));
    let file = scratch.known_hosts().display().to_string();
    let lines = format!(
        "Add correct host key in {file} to get rid of this message.\n\
         Offending ED25519 key in {file}:1\n  remove with:\n  ssh-keygen -f '{file}' -R 'h'\n"
    );
    assert!(person.told.ends_with(&lines), "{}", person.told);
}

#[test]
fn a_changed_key_passes_only_when_checking_is_off_and_then_without_secrets() {
    let scratch = Scratch::new("off");
    scratch.file("known_hosts", &line("h", &key(1)));
    let before = scratch.read();
    let more = &["StrictHostKeyChecking=no"];
    let verdict = judge(
        &mut scratch.checker("h", more),
        &key(2),
        &mut Script::default(),
    );
    assert_eq!(verdict, Verdict::AcceptWithoutSecrets);
    assert_eq!(scratch.read(), before);
}

#[test]
fn a_revoked_key_is_refused_whatever_else_the_files_say() {
    let scratch = Scratch::new("revoked");
    let text = format!(
        "{}@revoked * {}\n",
        line("h", &key(1)),
        key(1).public().to_line()
    );
    scratch.file("known_hosts", &text);
    let mut person = Script {
        answers: vec!["yes"],
        ..Script::default()
    };
    let more = &["StrictHostKeyChecking=no"];
    assert_eq!(
        judge(&mut scratch.checker("h", more), &key(1), &mut person),
        Verdict::Refuse
    );
    assert!(person.told.contains("REVOKED"));
}

#[test]
fn a_certificate_passes_by_its_authority_when_it_names_the_host() {
    let scratch = Scratch::new("cert");
    let authority = key(9);
    scratch.file(
        "known_hosts",
        &format!(
            "@cert-authority *.example.org {}\n",
            authority.public().to_line()
        ),
    );
    let good = certificate(&["h.example.org"], &authority, Vec::new());
    let strict = &["StrictHostKeyChecking=yes"];
    assert_eq!(
        judge_certificate(&mut scratch.checker("h.example.org", strict), &good),
        Verdict::Accept
    );
    let pattern = certificate(&["*.example.org"], &authority, Vec::new());
    assert_eq!(
        judge_certificate(&mut scratch.checker("h.example.org", strict), &pattern),
        Verdict::Accept
    );
    // The host counts in lower case, its certificate as it is.
    assert_eq!(
        judge_certificate(&mut scratch.checker("H.Example.org", strict), &good),
        Verdict::Accept
    );
    // Named for another host, or in other letters; named for nobody (CVE-2024-7594); with an unknown critical
    // option.
    let bad = [
        certificate(&["other.example.org"], &authority, Vec::new()),
        certificate(&["H.example.org"], &authority, Vec::new()),
        certificate(&["*.Example.org"], &authority, Vec::new()),
        certificate(&[], &authority, Vec::new()),
        certificate(
            &["h.example.org"],
            &authority,
            vec![CertificateOption::flag("unheard-of")],
        ),
    ];
    for bad in &bad {
        assert_eq!(
            judge_certificate(&mut scratch.checker("h.example.org", strict), bad),
            Verdict::Refuse
        );
    }
    // A recorded plain key decides in place of such a certificate, unless only certificates are
    // wanted.
    let authority = authority.public().to_line();
    let known = line("h.example.org", &key(1));
    scratch.file(
        "known_hosts",
        &format!("@cert-authority *.example.org {authority}\n{known}"),
    );
    let only = &[
        "StrictHostKeyChecking=yes",
        "HostKeyAlgorithms=ssh-ed25519-cert-v01@openssh.com",
    ];
    for bad in &bad {
        let judged =
            |more: &[&str]| judge_certificate(&mut scratch.checker("h.example.org", more), bad);
        assert_eq!(judged(strict), Verdict::Accept);
        assert_eq!(judged(only), Verdict::Refuse);
    }
}

/// GO-2026-5021: a revoked authority takes its certificates with it.
#[test]
fn a_revoked_authority_takes_its_certificates_with_it() {
    let scratch = Scratch::new("revokedca");
    let authority = key(9).public().to_line();
    scratch.file(
        "known_hosts",
        &format!("@cert-authority * {authority}\n@revoked * {authority}\n"),
    );
    let certificate = certificate(&["h"], &key(9), Vec::new());
    let more = &["StrictHostKeyChecking=no"];
    assert_eq!(
        judge_certificate(&mut scratch.checker("h", more), &certificate),
        Verdict::Refuse
    );
}

#[test]
fn without_an_authority_the_plain_key_of_a_certificate_decides() {
    let scratch = Scratch::new("fallback");
    scratch.file("known_hosts", &line("h", &key(1)));
    let certificate = certificate(&["h"], &key(9), Vec::new());
    let strict = &["StrictHostKeyChecking=yes"];
    assert_eq!(
        judge_certificate(&mut scratch.checker("h", strict), &certificate),
        Verdict::Accept
    );
    assert_eq!(
        judge_certificate(&mut scratch.checker("g", strict), &certificate),
        Verdict::Refuse
    );
}

/// The user requires a certificate: a recorded plain key does not replace it.
#[test]
fn where_only_certificates_are_wanted_the_plain_key_does_not_decide() {
    let scratch = Scratch::new("certonly");
    scratch.file("known_hosts", &line("h", &key(1)));
    let certificate = certificate(&["h"], &key(9), Vec::new());
    for (algorithms, verdict) in [
        ("ssh-ed25519-cert-v01@openssh.com", Verdict::Refuse),
        (
            "ssh-ed25519-cert-v01@openssh.com,rsa-sha2-512",
            Verdict::Refuse,
        ),
        (
            "ssh-ed25519-cert-v01@openssh.com,ssh-ed25519",
            Verdict::Accept,
        ),
    ] {
        for strict in ["no", "accept-new", "yes"] {
            let more = [
                format!("HostKeyAlgorithms={algorithms}"),
                format!("StrictHostKeyChecking={strict}"),
            ];
            let more: Vec<&str> = more.iter().map(String::as_str).collect();
            assert_eq!(
                judge_certificate(&mut scratch.checker("h", &more), &certificate),
                verdict,
                "{algorithms} {strict}"
            );
        }
    }
}

#[test]
fn a_file_called_none_is_neither_read_nor_written() {
    let scratch = Scratch::new("none");
    let global = scratch.file("global", &line("h", &key(1)));
    for words in ["none", "NONE", "none none"] {
        let mut options = scratch.options("h", &["UpdateHostKeys=yes"]);
        options.host_keys.global_known_hosts_files = vec![global.display().to_string()];
        options.host_keys.user_known_hosts_files = words.split(' ').map(str::to_owned).collect();
        let mut checker = HostKeyChecker::new(&options);
        assert!(checker.files.user_paths.is_empty(), "{words}");
        let mut person = Script::default();
        assert_eq!(judge(&mut checker, &key(1), &mut person), Verdict::Accept);
        assert!(
            checker
                .plan(
                    &[key(1).public().blob(), key(2).public().blob()],
                    YesNoAsk::Yes
                )
                .is_none()
        );
        assert!(crate::pipelining::ProfileCache::open(&options).is_none());
    }
}

/// As in OpenSSH, whose suite tests it (hostkey-rotate).
#[test]
fn a_known_key_goes_if_the_host_has_it_no_more_or_its_type_is_left_out() {
    let scratch = Scratch::new("gone");
    let rsa = PrivateKey::generate(keys::KeySpec::Rsa { bits: 2048 }).unwrap();
    let unknown = "h ssh-later AAAACXNzaC1sYXRlcg==\n";
    scratch.file(
        "known_hosts",
        &format!("{}{}{unknown}", line("h", &key(1)), line("h", &rsa)),
    );
    let blob = |key: &PrivateKey| key.public().blob();
    let (one, two, rsa) = (blob(&key(1)), blob(&key(2)), blob(&rsa));
    let both = "HostKeyAlgorithms=ssh-ed25519,rsa-sha2-512";
    for (algorithms, announced, gone) in [
        (both, vec![&one, &rsa], None),
        (both, vec![&one], Some(&rsa)),
        (
            "HostKeyAlgorithms=ssh-ed25519",
            vec![&one, &rsa],
            Some(&rsa),
        ),
        ("HostKeyAlgorithms=ssh-ed25519", vec![&two, &rsa], None),
    ] {
        let mut checker = scratch.checker("h", &[algorithms]);
        let verdict = judge(&mut checker, &key(1), &mut Script::default());
        assert_eq!(verdict, Verdict::Accept);
        let announced: Vec<Vec<u8>> = announced.into_iter().cloned().collect();
        let plan = checker.plan(&announced, YesNoAsk::Yes);
        let plan = plan.map(|plan| (plan.new.len(), plan.gone));
        let expected = gone.map(|gone| (0, vec![gone.clone()]));
        assert_eq!(plan, expected, "{algorithms}");
    }
}

/// HostKeyAlgorithms applies to the proofs of UpdateHostKeys too.
#[test]
fn a_new_key_is_proven_by_a_permitted_algorithm_alone() {
    let scratch = Scratch::new("proofs");
    let rsa = PrivateKey::generate(keys::KeySpec::Rsa { bits: 2048 }).unwrap();
    let checker = scratch.checker("h", &["HostKeyAlgorithms=ssh-ed25519,rsa-sha2-512"]);
    for (algorithm, good) in [
        (SignatureAlgorithm::RsaSha512, true),
        (SignatureAlgorithm::RsaSha256, false),
    ] {
        let proof = rsa.sign(algorithm, b"data").unwrap();
        let checked = checker.check_proof(rsa.public(), b"data", &proof);
        assert_eq!(checked.is_ok(), good, "{algorithm}");
        assert!(checker.check_proof(rsa.public(), b"other", &proof).is_err());
    }
}

#[test]
fn a_key_is_refused_that_any_of_the_revocation_lists_names() {
    let scratch = Scratch::new("lists");
    scratch.file("known_hosts", &line("h", &key(1)));
    let empty = scratch.file("empty", "");
    let names = scratch.file("names", &key(1).public().to_line());
    let verdict = |lists: &[&Path]| {
        let lists: Vec<String> = lists
            .iter()
            .map(|list| list.display().to_string())
            .collect();
        let option = format!("RevokedHostKeys={}", lists.join(" "));
        let mut checker = scratch.checker("h", &[&option]);
        judge(&mut checker, &key(1), &mut Script::default())
    };
    let missing = Path::new("/nonexistent");
    assert_eq!(verdict(&[&empty, &empty]), Verdict::Accept);
    assert_eq!(verdict(&[&empty, &names]), Verdict::Refuse);
    assert_eq!(verdict(&[&names, &empty]), Verdict::Refuse);
    assert_eq!(verdict(&[&empty, missing]), Verdict::Refuse);
}

#[test]
fn a_lookup_that_fails_never_accepts() {
    let scratch = Scratch::new("failing");
    fs::create_dir_all(scratch.known_hosts()).unwrap();
    let strict = "StrictHostKeyChecking=yes";
    let failing: [&[&str]; 4] = [
        &[strict],
        &[strict, "KnownHostsCommand=/bin/false"],
        &[strict, "KnownHostsCommand=/nonexistent %H"],
        &["StrictHostKeyChecking=no", "RevokedHostKeys=/nonexistent"],
    ];
    for more in failing {
        let verdict = judge(
            &mut scratch.checker("h", more),
            &key(1),
            &mut Script::default(),
        );
        assert_eq!(verdict, Verdict::Refuse, "{more:?}");
    }
    let mut person = Script {
        answers: vec!["no"],
        ..Script::default()
    };
    let mut checker = scratch.checker("h", &[]);
    checker.dns = Some((YesNoAsk::Yes, DnsLookup::ended(Err("no server".into()))));
    assert_eq!(judge(&mut checker, &key(1), &mut person), Verdict::Refuse);
    assert_eq!(person.asked.len(), 1);
}

/// A checker for the host at 192.0.2.1 with CheckHostIP.
fn with_address(scratch: &Scratch, more: &[&str]) -> HostKeyChecker {
    let mut checker = scratch.checker("h", &[&["CheckHostIP=yes"], more].concat());
    checker.set_address(Some(([192, 0, 2, 1], 22).into()));
    checker
}

#[test]
fn the_address_of_a_host_is_remembered_and_compared() {
    let scratch = Scratch::new("address");
    let judged = |more: &[&str], person: &mut Script| {
        judge(&mut with_address(&scratch, more), &key(1), person)
    };
    let new = &["StrictHostKeyChecking=accept-new"];
    assert_eq!(judged(new, &mut Script::default()), Verdict::Accept);
    assert_eq!(scratch.read(), line("h,192.0.2.1", &key(1)));
    scratch.file("known_hosts", &line("h", &key(1)));
    assert_eq!(judged(&[], &mut Script::default()), Verdict::Accept);
    assert!(
        scratch.read().ends_with(&line("192.0.2.1", &key(1))),
        "{}",
        scratch.read()
    );
    let both = line("h", &key(1)) + &line("192.0.2.1", &key(2));
    scratch.file("known_hosts", &both);
    for (strict, answers, verdict) in [
        ("yes", vec![], Verdict::Refuse),
        ("ask", vec!["no"], Verdict::Refuse),
        ("ask", vec!["yes"], Verdict::Accept),
        ("no", vec![], Verdict::Accept),
    ] {
        let mut person = Script {
            answers,
            ..Script::default()
        };
        let more = format!("StrictHostKeyChecking={strict}");
        assert_eq!(judged(&[&more], &mut person), verdict, "{strict}");
        let said = "Warning: the ED25519 host key for 'h' differs from the key for the IP \
                    address '192.0.2.1'\n";
        assert!(person.told.contains(said), "{strict}: {}", person.told);
    }
    // The warning is one of LogLevel INFO.
    let mut person = Script::default();
    let verdict = log::silently(|| judged(&["StrictHostKeyChecking=no"], &mut person));
    assert_eq!((verdict, &*person.told), (Verdict::Accept, ""));
    assert_eq!(scratch.read(), both);
    // Loopback, and a host that was named by its address.
    let mut checker = with_address(&scratch, &["StrictHostKeyChecking=yes"]);
    checker.set_address(Some(([127, 0, 0, 1], 22).into()));
    assert_eq!(
        judge(&mut checker, &key(1), &mut Script::default()),
        Verdict::Accept
    );
}

#[test]
fn a_blob_that_is_not_of_the_negotiated_algorithm_is_refused() {
    let scratch = Scratch::new("blob");
    let blob = key(1).public().blob();
    let mut checker = scratch.checker("h", &["StrictHostKeyChecking=no"]);
    for (algorithm, blob) in [
        ("ecdsa-sha2-nistp256", &blob[..]),
        ("ssh-ed25519-cert-v01@openssh.com", &blob[..]),
        ("ssh-ed25519", &blob[..20]),
        ("ssh-ed25519", &[][..]),
        ("nothing", &blob[..]),
    ] {
        assert_eq!(
            checker.judge(algorithm, blob, &mut Script::default()),
            Verdict::Refuse
        );
    }
}

#[test]
fn loopback_is_passed_only_when_told_and_really_there() {
    let scratch = Scratch::new("loopback");
    let more = &[
        "NoHostAuthenticationForLocalhost=yes",
        "StrictHostKeyChecking=yes",
    ];
    let judged = |address: Option<&str>, option: &[&str]| {
        let mut checker = scratch.checker("localhost", &[&more[..], option].concat());
        checker.set_address(address.map(|text| text.parse().unwrap()));
        judge(&mut checker, &key(1), &mut Script::default())
    };
    let loopback = Some("127.0.0.1:22");
    assert_eq!(judged(loopback, &[]), Verdict::Accept);
    assert_eq!(judged(Some("192.0.2.1:22"), &[]), Verdict::Refuse);
    assert_eq!(judged(None, &[]), Verdict::Refuse);
    // As in OpenSSH, an alias names a host of its own, and revocation goes first.
    assert_eq!(judged(loopback, &["HostKeyAlias=a"]), Verdict::Refuse);
    let list = scratch.file("revoked", &key(1).public().to_line());
    for list in [list.as_path(), Path::new("/nonexistent")] {
        let option = format!("RevokedHostKeys={}", list.display());
        assert_eq!(judged(loopback, &[&option]), Verdict::Refuse);
    }
}

/// As in OpenSSH: the order reveals to an observer whether the host is known (CVE-2020-14145); a
/// fixed HostKeyAlgorithms avoids that.
#[test]
fn algorithms_of_known_keys_come_first_unless_the_user_chose_the_order() {
    let scratch = Scratch::new("order");
    let rsa = PrivateKey::generate(keys::KeySpec::Rsa { bits: 2048 }).unwrap();
    scratch.file("known_hosts", &line("h", &rsa));
    let order = scratch.checker("h", &[]).offer().names;
    for list in [&[][..], &["HostKeyAlgorithms=-*cert*"]] {
        let order = scratch.checker("h", list).offer().names;
        assert!(
            order.first().unwrap().starts_with("rsa-sha2-512"),
            "{order:?}"
        );
    }
    let fresh = scratch.checker("unknown", &[]).offer().names;
    let mut sorted = (order.clone(), fresh.clone());
    sorted.0.sort();
    sorted.1.sort();
    assert_eq!(sorted.0, sorted.1);
    assert_ne!(order, fresh);
    let chosen = scratch
        .checker("h", &["HostKeyAlgorithms=ssh-ed25519,rsa-sha2-512"])
        .offer()
        .names;
    assert_eq!(chosen, ["ssh-ed25519", "rsa-sha2-512"]);
}

#[test]
fn an_authority_for_the_host_prefers_certificates() {
    let scratch = Scratch::new("orderca");
    scratch.file(
        "known_hosts",
        &format!("@cert-authority * {}\n", key(9).public().to_line()),
    );
    let order = scratch.checker("h", &[]).offer().names;
    assert!(order.first().unwrap().contains("-cert-"), "{order:?}");
}
