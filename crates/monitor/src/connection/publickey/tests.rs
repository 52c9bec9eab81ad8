mod of_commands;
mod refusal;
mod revoked;

use std::os::unix::fs::PermissionsExt;

use keys::certificate::{CertificateFields, CertificateOption};
use keys::{CertificateKind, Permission, PrivateKey};
use privsep::LogLevel;

use keys::candidate::SignedFor;

use super::*;
use crate::test_support::{TempDir, options};

/// The user of this process, with a temporary home directory.
struct Home {
    directory: TempDir,
    account: Account,
    log: Log,
    revoked: RevokedKeys,
    /// The user exists.
    valid: bool,
}

impl Home {
    fn new() -> Self {
        let directory = TempDir::new();
        let own = sys::process::own_credentials().unwrap();
        let account = Account {
            name: "ada".into(),
            uid: own.uid,
            gid: own.gid,
            home: directory.path().to_str().unwrap().into(),
            shell: "/bin/sh".into(),
            groups: own.groups,
            group_names: Vec::new(),
            shadow: None,
        };
        std::fs::create_dir(directory.path().join(".ssh")).unwrap();
        Self {
            directory,
            account,
            log: Log::to_memory(LogLevel::Debug3),
            revoked: RevokedKeys::default(),
            valid: true,
        }
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn authorized(&self, text: &str) {
        self.write(".ssh/authorized_keys", text);
    }

    fn ask(&self, config: &str, algorithm: &str, blob: &[u8]) -> Option<KeyOptions> {
        let options = options(config);
        let candidate =
            super::candidate(algorithm, blob, super::accepted(&options), &options).ok()?;
        let address: IpAddr = "192.0.2.7".parse().unwrap();
        Lookup {
            account: &self.account,
            valid: self.valid,
            options: &options,
            revoked: &self.revoked,
            peer: &Peer {
                host: address.to_string(),
                address: address.to_string(),
                port: 4000,
                rdomain: String::new(),
                connection: "192.0.2.7 4000 192.0.2.1 22".into(),
            },
            address,
            now: NOW,
            log: &self.log,
        }
        .authorize(&candidate)
    }

    fn ask_key(&self, config: &str, key: &PrivateKey) -> Option<KeyOptions> {
        self.ask(config, "ssh-ed25519", &key.public().blob())
    }

    fn ask_certificate(&self, config: &str, certificate: &keys::Certificate) -> Option<KeyOptions> {
        self.ask(
            config,
            "ssh-ed25519-cert-v01@openssh.com",
            certificate.blob(),
        )
    }
}

const NOW: u64 = 1_800_000_000;
const LIMIT: std::time::Duration = std::time::Duration::from_secs(60);

fn key(seed: u8) -> PrivateKey {
    PrivateKey::from_ed25519_seed(&[seed; 32])
}

fn line(key: &PrivateKey) -> String {
    key.public().to_line()
}

fn fields(principals: &[&str]) -> CertificateFields {
    CertificateFields {
        key: key(1).public().clone(),
        serial: 7,
        kind: CertificateKind::User,
        key_id: "id".into(),
        principals: principals.iter().map(|&name| name.to_owned()).collect(),
        valid_after: 0,
        valid_before: u64::MAX,
        critical_options: Vec::new(),
        extensions: vec![CertificateOption::flag("permit-pty")],
    }
}

fn certificate(fields: &CertificateFields) -> keys::Certificate {
    fields.sign(&key(9), SignatureAlgorithm::Ed25519).unwrap()
}

#[test]
fn a_listed_key_logs_in_with_its_options_and_another_does_not() {
    let home = Home::new();
    home.authorized(&format!(
        "# comment\n\ncommand=\"date\",no-pty {}\n",
        line(&key(1))
    ));
    let grants = home.ask_key("", &key(1)).unwrap();
    assert_eq!(grants.force_command.as_deref(), Some("date"));
    let permits = |permission| grants.permissions.permits(permission);
    assert!(!permits(Permission::Pty) && permits(Permission::UserRc));
    assert!(home.ask_key("", &key(2)).is_none());
    home.write("none", &line(&key(1)));
    for none in ["none", "NONE"] {
        let config = format!("AuthorizedKeysFile {none}");
        assert!(home.ask_key(&config, &key(1)).is_none(), "{none}");
    }
}

#[test]
fn several_files_and_tokens_are_looked_at() {
    let home = Home::new();
    let other = home.write("keys-ada", &line(&key(1)));
    let directory = home.directory.path().display();
    assert!(home.ask_key("", &key(1)).is_none());
    for config in [
        format!("AuthorizedKeysFile nowhere {other}"),
        format!("AuthorizedKeysFile {directory}/keys-%u"),
        "AuthorizedKeysFile %h/keys-%u".to_owned(),
        "AuthorizedKeysFile keys-ada".to_owned(),
    ] {
        assert!(home.ask_key(&config, &key(1)).is_some(), "{config}");
    }
}

#[test]
fn a_name_with_a_path_in_it_is_never_expanded() {
    let mut home = Home::new();
    home.write("keys-x", &line(&key(1)));
    let directory = home.directory.path().display().to_string();
    for name in ["../x", "a/../../x", ".", "..", "x\n"] {
        home.account.name = name.into();
        let config = format!("AuthorizedKeysFile {directory}/keys/%u {directory}/keys-x");
        assert!(home.ask_key(&config, &key(1)).is_none(), "{name}");
    }
}

#[test]
fn strict_modes_refuse_what_others_could_have_written() {
    let home = Home::new();
    home.authorized(&line(&key(1)));
    let path = home.directory.path().join(".ssh/authorized_keys");
    let set = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set(&path, 0o620);
    assert!(home.ask_key("", &key(1)).is_none());
    assert!(home.ask_key("StrictModes no", &key(1)).is_some());
    set(&path, 0o600);
    set(home.directory.path(), 0o777);
    assert!(home.ask_key("", &key(1)).is_none());
    set(home.directory.path(), 0o700);
    assert!(home.ask_key("", &key(1)).is_some());
}

#[test]
fn what_is_no_regular_file_neither_blocks_nor_counts() {
    let home = Home::new();
    let fifo = home.directory.path().join(".ssh/authorized_keys");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    if made.is_ok_and(|status| status.success()) {
        assert!(home.ask_key("", &key(1)).is_none());
        assert!(home.ask_key("StrictModes no", &key(1)).is_none());
    }
    assert!(home.ask_key("AuthorizedKeysFile .ssh", &key(1)).is_none());
    assert!(
        home.ask_key("AuthorizedKeysFile /dev/zero", &key(1))
            .is_none()
    );
}

#[test]
fn from_and_expiry_time_hold() {
    let home = Home::new();
    for (prefix, allowed) in [
        ("from=\"192.0.2.0/24\"", true),
        ("from=\"192.0.2.*\"", true),
        ("from=\"198.51.100.0/24\"", false),
        ("from=\"192.0.2.0/24,!192.0.2.7\"", false),
        ("expiry-time=\"20300101Z\"", true),
        ("expiry-time=\"20200101Z\"", false),
        ("no-such-option", false),
        ("cert-authority", false),
    ] {
        home.authorized(&format!("{prefix} {}", line(&key(1))));
        assert_eq!(home.ask_key("", &key(1)).is_some(), allowed, "{prefix}");
    }
}

#[test]
fn the_rest_of_an_over_long_line_is_no_line() {
    let home = Home::new();
    home.authorized(&format!(
        "command=\"{}\" {}",
        "x".repeat(200_000),
        line(&key(1))
    ));
    assert!(home.ask_key("", &key(1)).is_none());
}

#[test]
fn one_algorithm_of_a_family_admits_no_other() {
    let home = Home::new();
    let p256 = PrivateKey::generate(keys::KeySpec::Ecdsa(keys::EcCurve::P256)).unwrap();
    home.authorized(&line(&p256));
    let ask = |config: &str| home.ask(config, "ecdsa-sha2-nistp256", &p256.public().blob());
    assert!(ask("PubkeyAcceptedAlgorithms ecdsa-sha2-nistp256").is_some());
    assert!(ask("PubkeyAcceptedAlgorithms ecdsa-sha2-nistp521").is_none());
    // The request's name and the blob's must agree too.
    let blob = p256.public().blob();
    assert!(home.ask("", "ecdsa-sha2-nistp521", &blob).is_none());
    assert!(home.ask("", "ssh-ed25519", &blob).is_none());
}

#[test]
fn an_empty_or_path_like_blob_is_a_blob_that_does_not_parse() {
    for blob in [
        &b""[..],
        b"/etc/shadow",
        b"\0\0\0\x0b/etc/shadow",
        &[0xff; 64],
    ] {
        let options = options("");
        assert!(candidate("ssh-ed25519", blob, accepted(&options), &options).is_err());
    }
}

#[test]
fn a_certificate_needs_a_trusted_authority_and_the_users_name() {
    let home = Home::new();
    let authority = home.write("ca", &line(&key(9)));
    let config = format!("TrustedUserCAKeys {authority}");
    let ask = |fields: &CertificateFields| home.ask_certificate(&config, &certificate(fields));
    let grants = ask(&fields(&["ada"])).unwrap();
    let permits = |permission| grants.permissions.permits(permission);
    assert!(permits(Permission::Pty) && !permits(Permission::PortForwarding));
    assert!(ask(&fields(&["bob"])).is_none());
    assert!(ask(&fields(&["bob", "ada"])).is_some());
    // A certificate without principals permits no user; a comma is part of a name.
    assert!(ask(&fields(&[])).is_none());
    assert!(ask(&fields(&["ada,bob"])).is_none());
    assert!(ask(&fields(&[""])).is_none());
    assert!(
        home.ask_certificate("", &certificate(&fields(&["ada"])))
            .is_none()
    );
    let other = home.write("other-ca", &line(&key(8)));
    let config = format!("TrustedUserCAKeys {other}");
    assert!(
        home.ask_certificate(&config, &certificate(&fields(&["ada"])))
            .is_none()
    );
}

#[test]
fn a_certificate_that_is_not_valid_here_and_now_is_refused() {
    let home = Home::new();
    let authority = home.write("ca", &line(&key(9)));
    let config = format!("TrustedUserCAKeys {authority}");
    let ask = |change: &dyn Fn(&mut CertificateFields)| {
        let mut fields = fields(&["ada"]);
        change(&mut fields);
        home.ask_certificate(&config, &certificate(&fields))
    };
    assert!(ask(&|_| {}).is_some());
    assert!(ask(&|fields| fields.valid_before = NOW).is_none());
    assert!(ask(&|fields| fields.valid_after = NOW + 1).is_none());
    assert!(ask(&|fields| fields.kind = CertificateKind::Host).is_none());
    let critical = |option: CertificateOption| {
        ask(&move |fields| fields.critical_options = vec![option.clone()])
    };
    assert!(critical(CertificateOption::flag("unknown@example.com")).is_none());
    assert!(
        critical(CertificateOption::with_text(
            "source-address",
            "192.0.2.0/24"
        ))
        .is_some()
    );
    assert!(
        critical(CertificateOption::with_text(
            "source-address",
            "198.51.100.1"
        ))
        .is_none()
    );
    let forced = critical(CertificateOption::with_text("force-command", "date")).unwrap();
    assert_eq!(forced.force_command.as_deref(), Some("date"));
    // An empty forced command is valid: ssh-keygen signs none, but another authority may.
    let empty = critical(CertificateOption::with_text("force-command", "")).unwrap();
    assert_eq!(empty.force_command.as_deref(), Some(""));
    let algorithms = format!("{config}\nCASignatureAlgorithms rsa-sha2-512");
    assert!(
        home.ask_certificate(&algorithms, &certificate(&fields(&["ada"])))
            .is_none()
    );
}

#[test]
fn principals_come_from_the_option_or_the_file() {
    let home = Home::new();
    let certificate = certificate(&fields(&["web,db", "ops"]));
    for (principals, allowed) in [
        ("ops", true),
        ("x,ops", true),
        ("web", false),
        ("db", false),
        ("ada", false),
        ("", false),
    ] {
        home.authorized(&format!(
            "cert-authority,principals=\"{principals}\" {}",
            line(&key(9))
        ));
        assert_eq!(
            home.ask_certificate("", &certificate).is_some(),
            allowed,
            "{principals}"
        );
    }
    home.authorized("");
    let authority = home.write("ca", &line(&key(9)));
    let config = format!("TrustedUserCAKeys {authority}\nAuthorizedPrincipalsFile .ssh/principals");
    assert!(home.ask_certificate(&config, &certificate).is_none());
    home.write(".ssh/principals", "# who\nada\nweb\n");
    assert!(home.ask_certificate(&config, &certificate).is_none());
    home.write(".ssh/principals", "command=\"date\" ops\n");
    let grants = home.ask_certificate(&config, &certificate).unwrap();
    assert_eq!(grants.force_command.as_deref(), Some("date"));
    home.write(".ssh/principals", "from=\"198.51.100.1\" ops\n");
    assert!(home.ask_certificate(&config, &certificate).is_none());
}

#[test]
fn files_of_keys_and_principals_may_be_patterns() {
    let mut home = Home::new();
    std::fs::create_dir(home.directory.path().join(".ssh/keys.d")).unwrap();
    home.write(".ssh/keys.d/one.pub", &line(&key(1)));
    home.write(".ssh/keys.d/two.pub", &line(&key(2)));
    home.write(".ssh/keys.d/.hidden.pub", &line(&key(3)));
    home.write(".ssh/keys.d/four", &line(&key(4)));
    for template in [
        ".ssh/keys.d/*.pub",
        "%h/.ssh/key[r-t].d/???.pub",
        ".ssh/keys.d/[[:lower:]]*.pub",
    ] {
        let config = format!("AuthorizedKeysFile {template}");
        let allowed = [1, 2, 3, 4].map(|seed| home.ask_key(&config, &key(seed)).is_some());
        assert_eq!(allowed, [true, true, false, false], "{template}");
    }
    // A file that others could write is skipped, and only that one.
    let path = home.directory.path().join(".ssh/keys.d/one.pub");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666)).unwrap();
    let config = "AuthorizedKeysFile .ssh/keys.d/*";
    assert!(home.ask_key(config, &key(1)).is_none());
    assert!(home.ask_key(config, &key(2)).is_some());

    let authority = home.write("ca", &line(&key(9)));
    let certificate = certificate(&fields(&["ops"]));
    home.write(".ssh/a.who", "web\n");
    home.write(".ssh/b.who", "command=\"date\" ops\n");
    home.write(".ssh/c.who", "ops\n");
    let config = format!("TrustedUserCAKeys {authority}\nAuthorizedPrincipalsFile .ssh/*.who");
    let grants = home.ask_certificate(&config, &certificate).unwrap();
    assert_eq!(grants.force_command.as_deref(), Some("date"));

    // A user's name is not a pattern and gives no access to others' files.
    home.account.name = "*".to_owned();
    let config = format!(
        "AuthorizedKeysFile {}/.ss?/keys.d/%u.pub",
        home.directory.path().display()
    );
    assert!(home.ask_key(&config, &key(2)).is_none());
    // But the file of that name is the user's.
    for name in ["*", "a\\b"] {
        home.account.name = name.to_owned();
        let file = format!(".ssh/keys.d/{name}.pub");
        home.write(&file, &line(&key(5)));
        assert!(home.ask_key(&config, &key(5)).is_some(), "{name}");
        std::fs::remove_file(home.directory.path().join(file)).unwrap();
    }
}

#[test]
fn files_past_the_most_of_a_pattern_are_said() {
    let home = Home::new();
    std::fs::create_dir(home.directory.path().join(".ssh/keys.d")).unwrap();
    let config = "AuthorizedKeysFile .ssh/keys.d/*";
    for number in 10..74 {
        home.write(&format!(".ssh/keys.d/{number}"), "");
    }
    home.write(".ssh/keys.d/73", &line(&key(1)));
    assert!(home.ask_key(config, &key(1)).is_some());
    let said = || {
        home.log
            .lines()
            .iter()
            .any(|line| line.contains("more than 64 files"))
    };
    assert!(!said());
    home.write(".ssh/keys.d/74", &line(&key(2)));
    assert!(home.ask_key(config, &key(2)).is_none());
    assert!(said());
}

#[test]
fn line_and_certificate_must_not_force_different_commands() {
    let home = Home::new();
    let mut fields = fields(&["ada"]);
    fields.critical_options = vec![CertificateOption::with_text("force-command", "one")];
    let certificate = certificate(&fields);
    for (command, allowed) in [("one", true), ("two", false)] {
        home.authorized(&format!(
            "cert-authority,command=\"{command}\" {}",
            line(&key(9))
        ));
        assert_eq!(home.ask_certificate("", &certificate).is_some(), allowed);
    }
}

/// An authority after an invalid line is not trusted, as in OpenSSH.
#[test]
fn authorities_end_at_the_first_line_that_is_no_key() {
    let home = Home::new();
    let certificate = certificate(&fields(&["ada"]));
    let ca = line(&key(9));
    for (text, allowed) in [
        (format!("# ca\n\n{ca}\n"), true),
        (format!("{}\n{ca} a comment\n", line(&key(8))), true),
        (format!("{ca}\ngarbage\n"), true),
        (format!("garbage\n{ca}\n"), false),
        (format!("ssh-ed25519 AAAA\n{ca}\n"), false),
        (format!("cert-authority {}\n{ca}\n", line(&key(8))), false),
        (format!("no-pty {ca}\n"), false),
    ] {
        let config = format!("TrustedUserCAKeys {}", home.write("ca", &text));
        let granted = home.ask_certificate(&config, &certificate);
        assert_eq!(granted.is_some(), allowed, "{text}");
    }
}

/// A line with `principals=` is for an authority; its plain key lets nobody in.
#[test]
fn principals_without_cert_authority_refuse_the_key() {
    let home = Home::new();
    for (prefix, allowed) in [
        ("principals=\"ada\"", false),
        ("principals=\"\"", false),
        ("cert-authority,principals=\"ada\"", false),
        ("no-pty", true),
    ] {
        home.authorized(&format!("{prefix} {}", line(&key(1))));
        assert_eq!(home.ask_key("", &key(1)).is_some(), allowed, "{prefix}");
    }
}

#[test]
fn a_malformed_extension_refuses_the_certificate() {
    let home = Home::new();
    let authority = home.write("ca", &line(&key(9)));
    let config = format!("TrustedUserCAKeys {authority}");
    for (data, allowed) in [(&b""[..], true), (b"x", false)] {
        let mut fields = fields(&["ada"]);
        fields.extensions[0].data = data.to_vec();
        let granted = home.ask_certificate(&config, &certificate(&fields));
        assert_eq!(granted.is_some(), allowed);
    }
}

/// As in OpenSSH the first line with a principal of the certificate decides.
#[test]
fn the_line_of_a_principal_is_obeyed_or_refuses() {
    let home = Home::new();
    let authority = home.write("ca", &line(&key(9)));
    let config = format!("TrustedUserCAKeys {authority}\nAuthorizedPrincipalsFile .ssh/principals");
    let certificate = certificate(&fields(&["ops"]));
    for (text, allowed) in [
        ("ops", true),
        ("principals=\"ops\" ops", false),
        ("cert-authority ops", false),
        ("principals=\"ops\" ops\nops", false),
        ("from=\"198.51.100.1\" ops\nops", false),
        ("expiry-time=\"20200101Z\" ops\nops", false),
        ("no-such-option ops\nops", true),
        ("from=\"198.51.100.1\" web\nops", true),
    ] {
        home.write(".ssh/principals", &format!("{text}\n"));
        let granted = home.ask_certificate(&config, &certificate);
        assert_eq!(granted.is_some(), allowed, "{text}");
    }
}

#[test]
fn a_command_can_name_keys_and_has_only_its_own_groups() {
    if !sys::process::is_root() {
        // Only root can run it as another user.
        return;
    }
    let home = Home::new();
    let config = format!(
        "AuthorizedKeysCommand /usr/bin/printf \"%%s\\n\" \"{}\"\nAuthorizedKeysCommandUser nobody",
        line(&key(1))
    );
    assert!(home.ask_key(&config, &key(1)).is_some());
    assert!(home.ask_key(&config, &key(2)).is_none());

    let options = options("AuthorizedKeysCommandUser nobody\nAuthorizedKeysCommand /usr/bin/id -G");
    let candidate = super::candidate(
        "ssh-ed25519",
        &key(1).public().blob(),
        super::accepted(&options),
        &options,
    )
    .unwrap();
    let peer = Peer {
        host: "192.0.2.7".into(),
        address: "192.0.2.7".into(),
        port: 1,
        rdomain: String::new(),
        connection: "192.0.2.7 1 192.0.2.1 22".into(),
    };
    let lookup = Lookup {
        account: &home.account,
        valid: true,
        options: &options,
        revoked: &home.revoked,
        peer: &peer,
        address: "192.0.2.7".parse().unwrap(),
        now: NOW,
        log: &home.log,
    };
    let nobody = sys::users::by_name("nobody").unwrap().unwrap();
    let groups = sys::users::groups_of(&nobody).unwrap();
    let expected: Vec<String> = groups.iter().map(ToString::to_string).collect();
    let run = |template, limit| {
        lookup.run(
            &command::ConfiguredCommand::of_keys(template, "nobody"),
            &candidate,
            limit,
        )
    };
    let printed = run("/usr/bin/id -G", LIMIT).unwrap();
    assert_eq!(
        String::from_utf8(printed).unwrap().trim(),
        expected.join(" ")
    );
    let printed = run("/usr/bin/printf '[%%s]' %C %D", LIMIT).unwrap();
    assert_eq!(
        String::from_utf8(printed).unwrap(),
        "[192.0.2.1 22 192.0.2.7 1][]"
    );
    // A relative path, a failing program and a program that others could change are refused.
    assert!(run("id -G", LIMIT).is_err());
    assert!(run("/usr/bin/false", LIMIT).is_err());
    // Tokens that need a certificate are refused too.
    assert!(run("/usr/bin/printf %i", LIMIT).is_err());
    let script = home.write("script", "#!/bin/sh\n");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(run(&script, LIMIT).is_err());
    // A program that closes its output and keeps running is killed with all its children.
    let command = "/bin/sh -c 'exec >&-; sleep 600 & wait'";
    let short = std::time::Duration::from_millis(300);
    let error = run(command, short).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
}

#[test]
fn a_command_can_name_principals() {
    if !sys::process::is_root() {
        // Only root can run it as another user.
        return;
    }
    let mut home = Home::new();
    let authority = home.write("ca", &line(&key(9)));
    let certificate = certificate(&fields(&["ops"]));
    let config = |command: &str| {
        format!(
            "TrustedUserCAKeys {authority}\nAuthorizedPrincipalsCommandUser nobody\n\
             AuthorizedPrincipalsCommand {command}"
        )
    };
    for (command, allowed) in [
        ("/usr/bin/printf 'web\\nops\\n'", true),
        ("/usr/bin/printf web", false),
        // The user's own name is no longer enough, and is an argument only if `%u` asks for it.
        ("/usr/bin/echo", false),
        ("/usr/bin/echo %u", false),
        ("/usr/bin/false", false),
        ("/nonexistent", false),
        // Both ends of the connection, the server first, and no routing domain.
        (
            "/bin/sh -c '[ \"%C|%D\" = \"192.0.2.1 22 192.0.2.7 4000|\" ] && echo ops'",
            true,
        ),
    ] {
        let granted = home.ask_certificate(&config(command), &certificate);
        assert_eq!(granted.is_some(), allowed, "{command}");
    }
    let options = "/usr/bin/printf 'no-pty,command=\"date\" ops'";
    let grants = home
        .ask_certificate(&config(options), &certificate)
        .unwrap();
    assert_eq!(grants.force_command.as_deref(), Some("date"));

    // The command runs if the file lists none of the principals.
    let both = format!(
        "{}\nAuthorizedPrincipalsFile .ssh/principals",
        config("/bin/echo ops")
    );
    assert!(home.ask_certificate(&both, &certificate).is_some());
    home.write(".ssh/principals", "web\n");
    assert!(home.ask_certificate(&both, &certificate).is_some());

    // The arguments describe the certificate and the authority; the command runs as nobody.
    let script = "/bin/sh -c 'test \"$1\" = \"ada id 7 ssh-ed25519 ssh-ed25519-cert-v01@openssh.com\" \
                  && test \"$2\" = \"$3\" -a \"$(id -un)\" = nobody && echo ops' \
                  sh '%u %i %s %T %t' %f";
    let print = |key: &PrivateKey| keys::fingerprint::sha256(&key.public().blob());
    let told = |expected: &str| {
        let command = config(&format!("{script} {expected}"));
        home.ask_certificate(&command, &certificate).is_some()
    };
    assert!(told(&print(&key(1))));
    assert!(!told(&print(&key(9))));
    let swapped = script.replace("%f", "%F");
    let command = config(&format!("{swapped} {}", print(&key(9))));
    assert!(home.ask_certificate(&command, &certificate).is_some());

    home.account.name = "ops".into();
    assert!(
        home.ask_certificate(&config("/usr/bin/echo %u"), &certificate)
            .is_some()
    );
}

#[test]
fn a_signature_holds_for_one_session_user_and_host_key_only() {
    let options = options("");
    let signer = key(1);
    let candidate = super::candidate(
        "ssh-ed25519",
        &signer.public().blob(),
        super::accepted(&options),
        &options,
    )
    .unwrap();
    let signed_for = |session_id, user, hostbound| SignedFor {
        session_id,
        user,
        service: "ssh-connection",
        hostbound,
    };
    let plain = signed_for(b"session", "ada", None);
    let sign = |what: &SignedFor<'_>| {
        signer
            .sign(SignatureAlgorithm::Ed25519, &candidate.signed_data(what))
            .unwrap()
    };
    let grants = KeyOptions::default();
    let verify = |what: &SignedFor<'_>, signature: &[u8]| {
        let policy = verify_policy(&grants, &options);
        candidate.verify(what, signature, &policy).is_ok()
    };
    let signature = sign(&plain);
    assert!(verify(&plain, &signature));
    assert!(!verify(&signed_for(b"other", "ada", None), &signature));
    assert!(!verify(&signed_for(b"session", "bob", None), &signature));
    assert!(!verify(
        &signed_for(b"session", "ada", Some(b"host")),
        &signature
    ));
    let bound = signed_for(b"session", "ada", Some(b"host"));
    let signature = sign(&bound);
    assert!(verify(&bound, &signature));
    assert!(!verify(
        &signed_for(b"session", "ada", Some(b"hose")),
        &signature
    ));
    assert!(!verify(&bound, &[]));
}

#[test]
fn a_user_who_may_not_log_in_causes_the_same_file_operations() {
    let mut home = Home::new();
    home.authorized("");
    let count = |home: &Home| {
        home.log
            .lines()
            .iter()
            .filter(|line| line.contains("trying public key file"))
            .count()
    };
    assert!(home.ask_key("", &key(1)).is_none());
    let known = count(&home);
    home.account = Account {
        // Without privilege only this process's own ids can be used.
        uid: home.account.uid,
        gid: home.account.gid,
        groups: home.account.groups.clone(),
        ..Account::decoy()
    };
    home.log = Log::to_memory(LogLevel::Debug3);
    assert!(home.ask_key("", &key(1)).is_none());
    assert_eq!(count(&home), known);
    assert!(known > 0);
}

#[test]
fn a_file_that_cannot_be_read_is_told_for_users_who_exist() {
    let mut home = Home::new();
    let directory = format!("AuthorizedKeysFile {}", home.account.home);
    for exists in [true, false] {
        home.valid = exists;
        home.log = Log::to_memory(LogLevel::Info);
        assert!(home.ask_key(&directory, &key(1)).is_none());
        let lines = home.log.lines();
        let told = lines
            .iter()
            .any(|line| line.starts_with("Authentication refused: "));
        assert_eq!(told, exists, "{lines:?}");
    }
}
