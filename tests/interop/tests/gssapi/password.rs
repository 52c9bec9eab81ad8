//! KerberosAuthentication: passwords that a KDC checks, with Debian's sshd, which is built with it, beside ours.

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::time::Duration;

use interop::account::uid_of;
use interop::audit_trail::AuditTrail;
use interop::peers::ours::{Kind, couples};
use interop::process::Input;
use interop::realm::{HOST, PASSWORD, REALM, Realm};
use interop::report::skipped;
use interop::scratch::until;
use interop::site::finish;

use super::{Case, Ended};

const LIMIT: Duration = Duration::from_secs(120);
const LOCAL: &str = "local-one";
/// A password that is nobody's.
const WRONG: &str = "wr0ng-one";
const CLIENT: &[&str] = &[
    "-oBatchMode=no",
    "-oPreferredAuthentications=password",
    "-oGSSAPIAuthentication=no",
    "-oNumberOfPasswordPrompts=1",
];
const SERVERS: [Kind; 2] = [Kind::OpenSsh, Kind::Fulmar];

fn case() -> Option<Case> {
    let mut case = Case::new()?;
    case.command = r#"echo "cache=$KRB5CCNAME"; klist"#;
    // The client has no ticket.
    case.cache = "FILE:/nonexistent/cache".to_owned();
    Some(case)
}

/// Logs in to the server with these lines before the usual ones.
fn log_in(case: &mut Case, couple: (Kind, Kind), password: &str, lines: &'static str) -> Ended {
    case.answer = Some(password.to_owned());
    case.server_options = lines;
    let ended = case.run(couple.0, couple.1, CLIENT);
    assert!(!ended.log.contains(WRONG), "{ended:?}");
    ended
}

fn server_alone(
    case: &mut Case,
    server: Kind,
    password: &str,
    lines: &'static str,
) -> (bool, String) {
    let ended = log_in(case, (Kind::Fulmar, server), password, lines);
    (ended.logged_in, format!("{server:?} {lines:?}: {ended:?}"))
}

/// The server, with these lines, lets in with the password or not, and the session has tickets or not.
fn assert_outcome(
    case: &mut Case,
    server: Kind,
    (lines, password): (&'static str, &str),
    (is_in, has_cache): (bool, bool),
) {
    let ended = log_in(case, (Kind::Fulmar, server), password, lines);
    let which = format!("{server:?} {lines:?} {password}: {ended:?}");
    assert_eq!(ended.logged_in, is_in, "{which}");
    assert_eq!(ended.cache().is_some(), has_cache, "{which}");
}

fn command(program: &str, arguments: &[&str]) {
    let mut command = Command::new(program);
    let outcome = finish(command.args(arguments), Input::Nothing);
    assert_eq!(outcome.status, 0, "{}", outcome.summary());
}

const PLAIN: &str = "KerberosAuthentication yes\nPasswordAuthentication yes\n";
const KDC_ALONE: &str =
    "KerberosAuthentication yes\nKerberosOrLocalPasswd no\nPasswordAuthentication yes\n";

#[test]
fn a_password_of_the_realm_lets_in_and_its_tickets_are_those_of_the_session() {
    let Some(mut case) = case() else { return };
    let uid = uid_of(&case.guest.name).unwrap();
    let principal = format!("Default principal: {}@{REALM}", case.guest.name);
    for couple in couples() {
        for lines in [PLAIN, KDC_ALONE] {
            let ended = log_in(&mut case, couple, PASSWORD, lines);
            let which = format!("{couple:?} {lines}: {ended:?}");
            assert!(ended.logged_in, "{which}");
            assert!(ended.output.contains(&principal), "{which}");
            // The ticket that proved the KDC is not the user's.
            assert!(!ended.output.contains(HOST), "{which}");
            let accepted = format!("Accepted password for {} from", case.guest.name);
            assert!(ended.log.contains(&accepted), "{which}");
            let path = ended.cache().expect(&which);
            assert!(path.starts_with(&format!("/tmp/krb5cc_{uid}_")), "{which}");
            assert!(until(LIMIT, || !fs::exists(path).unwrap()), "{which}");
            let ended = log_in(&mut case, couple, WRONG, lines);
            let which = format!("{couple:?} {lines}: {ended:?}");
            assert!(!ended.logged_in, "{which}");
            let failed = format!("Failed password for {} from", case.guest.name);
            assert_eq!(ended.log.matches(&failed).count(), 1, "{which}");
            assert!(
                ended
                    .log
                    .contains("Kerberos password authentication failed: "),
                "{which}"
            );
        }
    }
    for server in SERVERS {
        let lines =
            "KerberosAuthentication yes\nKerberosTicketCleanup no\nPasswordAuthentication yes\n";
        let ended = log_in(&mut case, (Kind::Fulmar, server), PASSWORD, lines);
        let path = ended.cache().expect("a cache");
        let metadata = fs::metadata(path).unwrap();
        fs::remove_file(path).unwrap();
        assert_eq!((metadata.uid(), metadata.mode() & 0o777), (uid, 0o600));
    }
    // The keyword of delegated credentials is another one.
    let lines =
        "KerberosAuthentication yes\nGSSAPICleanupCredentials no\nPasswordAuthentication yes\n";
    let ended = log_in(&mut case, (Kind::Fulmar, Kind::Fulmar), PASSWORD, lines);
    let path = ended.cache().expect("a cache");
    assert!(until(LIMIT, || !fs::exists(path).unwrap()), "{ended:?}");
}

#[test]
fn a_local_password_counts_after_the_kdc_unless_the_server_says_otherwise() {
    let Some(mut case) = case() else { return };
    case.guest.set_password(LOCAL).unwrap();
    for server in SERVERS {
        for (lines, password, is_in, has_cache) in [
            (PLAIN, LOCAL, true, false),
            (PLAIN, PASSWORD, true, true),
            (PLAIN, WRONG, false, false),
            (KDC_ALONE, LOCAL, false, false),
            (KDC_ALONE, PASSWORD, true, true),
            ("PasswordAuthentication yes\n", LOCAL, true, false),
            ("PasswordAuthentication yes\n", PASSWORD, false, false),
            // Not for this user.
            (
                "PasswordAuthentication yes\nMatch User root\nKerberosAuthentication yes\n",
                PASSWORD,
                false,
                false,
            ),
            (
                "PasswordAuthentication yes\nMatch User *\nKerberosAuthentication yes\n",
                PASSWORD,
                true,
                true,
            ),
        ] {
            assert_outcome(&mut case, server, (lines, password), (is_in, has_cache));
        }
        // The age of the local password is not asked for where the KDC has confirmed one.
        command("chage", &["-d", "0", &case.guest.name]);
        let (is_in, which) = server_alone(&mut case, server, PASSWORD, PLAIN);
        assert!(is_in, "{which}");
        let (is_in, which) = server_alone(&mut case, server, LOCAL, PLAIN);
        assert!(!is_in, "{which}");
        command("chage", &["-d", "2020-01-01", &case.guest.name]);
    }
}

#[test]
fn pam_is_asked_after_the_kdc_and_for_the_account() {
    let Some(mut case) = case() else { return };
    if !std::path::Path::new("/etc/pam.d/sshd").exists() {
        return interop::report::skipped("passwords of Kerberos with PAM", &"no /etc/pam.d/sshd");
    }
    case.guest.set_password(LOCAL).unwrap();
    let own =
        "PAMServiceName sshd\nUsePAM yes\nKerberosAuthentication yes\nPasswordAuthentication yes\n";
    let alone = "PAMServiceName sshd\nUsePAM yes\nKerberosAuthentication yes\nKerberosOrLocalPasswd no\nPasswordAuthentication yes\n";
    for server in SERVERS {
        let [plain, alone] = match server {
            Kind::OpenSsh => [own, alone].map(|lines| &lines["PAMServiceName sshd\n".len()..]),
            _ => [own, alone],
        };
        for (lines, password, is_in, has_cache) in [
            (plain, PASSWORD, true, true),
            (plain, LOCAL, true, false),
            (plain, WRONG, false, false),
            (alone, PASSWORD, true, true),
            (alone, LOCAL, false, false),
        ] {
            assert_outcome(&mut case, server, (lines, password), (is_in, has_cache));
        }
        // An account that has expired.
        command("chage", &["-E", "1", &case.guest.name]);
        let (is_in, which) = server_alone(&mut case, server, PASSWORD, plain);
        assert!(!is_in, "{which}");
        command("chage", &["-E", "-1", &case.guest.name]);
    }
}

#[test]
fn what_keeps_a_user_out_keeps_out_one_with_a_password_of_the_realm() {
    let Some(mut case) = case() else { return };
    let name = case.guest.name.clone();
    for server in SERVERS {
        for lines in [
            "KerberosAuthentication yes\nPasswordAuthentication no\nAuthenticationMethods any\nPubkeyAuthentication yes\n",
            "KerberosAuthentication yes\nPasswordAuthentication yes\nDenyUsers *\n",
            "KerberosAuthentication yes\nPasswordAuthentication yes\nAllowUsers nobody\n",
            "KerberosAuthentication yes\nPasswordAuthentication yes\nDenyGroups *\n",
            "KerberosAuthentication yes\nPasswordAuthentication yes\nPubkeyAuthentication yes\nAuthenticationMethods publickey,password\n",
            "KerberosAuthentication yes\nPasswordAuthentication yes\nPubkeyAuthentication yes\nAuthenticationMethods password,publickey\n",
            "KerberosAuthentication yes\nPasswordAuthentication yes\nMaxAuthTries 0\n",
        ] {
            let (is_in, which) = server_alone(&mut case, server, PASSWORD, lines);
            assert!(!is_in, "{which}");
        }
        let lines = "KerberosAuthentication yes\nPasswordAuthentication yes\nAuthenticationMethods password\n";
        let (is_in, which) = server_alone(&mut case, server, PASSWORD, lines);
        assert!(is_in, "{which}");
        // Another principal than the user's, by the user's own list.
        case.guest
            .write(".k5login", format!("other@{REALM}\n"), 0o644);
        let (is_in, which) = server_alone(&mut case, server, PASSWORD, PLAIN);
        assert!(!is_in, "{which}");
        fs::remove_file(case.guest.home().join(".k5login")).unwrap();
        // An empty password is no password of a realm.
        let lines =
            "KerberosAuthentication yes\nPasswordAuthentication yes\nPermitEmptyPasswords yes\n";
        let (is_in, which) = server_alone(&mut case, server, "", lines);
        assert!(!is_in, "{which}");
        command("usermod", &["-L", &name]);
        let (is_in, which) = server_alone(&mut case, server, PASSWORD, PLAIN);
        assert!(!is_in, "{which}");
        command("usermod", &["-p", "*", &name]);
        // A principal of the realm who is no user here.
        case.target = "other";
        let (is_in, which) = server_alone(&mut case, server, PASSWORD, PLAIN);
        assert!(
            !is_in && which.contains("Failed password for invalid user other"),
            "{which}"
        );
        case.target = "";
    }
}

#[test]
fn root_and_forced_commands_obey_their_keywords() {
    let Some(mut case) = case() else { return };
    case.realm.add_user("root").unwrap();
    for server in SERVERS {
        case.target = "root";
        for (lines, is_in) in [
            (PLAIN, false),
            (
                "KerberosAuthentication yes\nPasswordAuthentication yes\nPermitRootLogin no\n",
                false,
            ),
            (
                "KerberosAuthentication yes\nPasswordAuthentication yes\nPermitRootLogin forced-commands-only\n",
                false,
            ),
            (
                "KerberosAuthentication yes\nPasswordAuthentication yes\nPermitRootLogin yes\n",
                true,
            ),
        ] {
            let ended = log_in(&mut case, (Kind::Fulmar, server), PASSWORD, lines);
            let which = format!("{server:?} {lines:?}: {ended:?}");
            assert_eq!(ended.logged_in, is_in, "{which}");
            if let Some(path) = ended.cache() {
                assert!(until(LIMIT, || !fs::exists(path).unwrap()), "{which}");
            }
            assert_eq!(ended.log.contains("Accepted password"), is_in, "{which}");
        }
        case.target = "";
        let lines = "KerberosAuthentication yes\nPasswordAuthentication yes\nForceCommand echo forced; echo \"cache=$KRB5CCNAME\"\n";
        let ended = log_in(&mut case, (Kind::Fulmar, server), PASSWORD, lines);
        let which = format!("{server:?}: {ended:?}");
        assert!(
            ended.output.starts_with("forced\n") && !ended.logged_in,
            "{which}"
        );
        assert!(ended.cache().is_some(), "{which}");
    }
}

/// An account of the realm could be locked by whoever knows its name, and the KDC of a realm that the client names
/// is the client's.
#[test]
fn a_kdc_is_asked_for_users_of_this_machine_alone() {
    let Some(mut case) = case() else { return };
    let elsewhere = UdpSocket::bind("127.0.0.1:0").unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    let address = elsewhere.local_addr().unwrap();
    let connections = TcpListener::bind(address).unwrap();
    connections.set_nonblocking(true).unwrap();
    let configuration = fs::read_to_string(case.realm.configuration()).unwrap();
    let both = configuration.replace(
        "[realms]\n",
        &format!("[realms]\n ELSEWHERE.TEST = {{\n  kdc = {address}\n }}\n"),
    );
    fs::write(case.realm.configuration(), both).unwrap();
    let asked = |case: &Case, principal: &str| {
        let request = format!("{principal}@{REALM} for krbtgt");
        case.realm.log().matches(&request).count()
    };
    let name = case.guest.name.clone();
    for server in SERVERS {
        let before = ["other", &name].map(|principal| asked(&case, principal));
        // The guest's ticket.
        assert!(before[1] > 0, "{}", case.realm.log());
        for target in ["other", "other@ELSEWHERE.TEST", "other/admin"] {
            case.target = target;
            let (is_in, which) = server_alone(&mut case, server, PASSWORD, KDC_ALONE);
            assert!(!is_in, "{which}");
            assert!(
                which.contains("Failed password for invalid user"),
                "{which}"
            );
        }
        case.target = "";
        let denied = "KerberosAuthentication yes\nPasswordAuthentication yes\nDenyUsers *\n";
        let (is_in, which) = server_alone(&mut case, server, PASSWORD, denied);
        assert!(!is_in, "{which}");
        for (principal, before) in ["other", &name].into_iter().zip(before) {
            assert_eq!(asked(&case, principal), before, "{server:?} {principal}");
        }
        assert!(elsewhere.recv(&mut [0; 4096]).is_err(), "{server:?}");
        assert!(connections.accept().is_err(), "{server:?}");
    }
}

#[test]
fn a_ticket_after_a_password_leaves_its_tickets_to_the_session() {
    let Some(mut case) = Case::new() else { return };
    case.command = r#"echo "cache=$KRB5CCNAME""#;
    case.answer = Some(PASSWORD.to_owned());
    case.server_options = "KerberosAuthentication yes\nPasswordAuthentication yes\nAuthenticationMethods password,gssapi-with-mic gssapi-with-mic,password\n";
    for server in SERVERS {
        for methods in ["password,gssapi-with-mic", "gssapi-with-mic,password"] {
            let arguments = [
                "-oBatchMode=no",
                "-oNumberOfPasswordPrompts=1",
                &format!("-oPreferredAuthentications={methods}"),
            ];
            let ended = case.run(Kind::Fulmar, server, &arguments);
            assert!(ended.cache().is_some(), "{server:?} {methods}: {ended:?}");
        }
    }
}

/// Another realm of the same name has the user with the same password, but not this host's key.
#[test]
fn a_kdc_without_the_hosts_key_lets_nobody_in() {
    let Some(mut case) = case() else { return };
    let forged = Realm::start("").unwrap();
    forged.add_user(&case.guest.name).unwrap();
    let keytab = case.realm.keytab("keytab").display().to_string();
    let true_configuration = case.realm.configuration();
    for server in SERVERS {
        (case.configuration, case.keytab) = (Some(forged.configuration()), keytab.clone());
        let (is_in, which) = server_alone(&mut case, server, PASSWORD, KDC_ALONE);
        assert!(!is_in, "{which}");
        // The same KDC and its own key.
        case.keytab = forged.keytab("keytab").display().to_string();
        let (is_in, which) = server_alone(&mut case, server, PASSWORD, KDC_ALONE);
        assert!(is_in, "{which}");
        case.configuration = Some(true_configuration.clone());
        let (is_in, which) = server_alone(&mut case, server, PASSWORD, KDC_ALONE);
        assert!(!is_in, "{which}");
        (case.configuration, case.keytab) = (None, String::new());
    }
    // Without a key nothing proves the KDC. OpenSSH lets the user in all the same.
    case.keytab = "nothing".to_owned();
    for (server, expected) in [(Kind::OpenSsh, true), (Kind::Fulmar, false)] {
        let (is_in, which) = server_alone(&mut case, server, PASSWORD, KDC_ALONE);
        assert_eq!(is_in, expected, "{which}");
        assert!(
            expected || which.contains("KerberosAuthentication: keytab"),
            "{which}"
        );
    }
}

#[test]
fn the_audit_trail_has_what_the_kdc_confirmed_and_pam_records_the_rest() {
    let trail = AuditTrail::listen();
    let Some(mut case) = case() else { return };
    let trail = match trail {
        Ok(trail) if fs::exists("/etc/pam.d/sshd").unwrap() => trail,
        Ok(_) => return skipped("the audit trail of KDC passwords", &"no /etc/pam.d/sshd"),
        Err(why) => return skipped("the audit trail of KDC passwords", &why),
    };
    case.guest.set_password(LOCAL).unwrap();
    let lines =
        "PAMServiceName sshd\nUsePAM yes\nKerberosAuthentication yes\nPasswordAuthentication yes\n";
    let subject = format!("acct=\"{}\"", case.guest.name);
    // Our record of the proof, and one of pam_unix.
    for (password, is_in, has_own, has_pams) in [
        (PASSWORD, true, true, false),
        (LOCAL, true, false, true),
        (WRONG, false, false, true),
    ] {
        let ended = log_in(&mut case, (Kind::OpenSsh, Kind::Fulmar), password, lines);
        assert_eq!(ended.logged_in, is_in, "{ended:?}");
        let last = if is_in {
            "op=PAM:session_close"
        } else {
            "op=login"
        };
        let found = trail.take(&[&subject], last);
        let has = |words: &str| {
            let mut of_proofs = found.iter().filter(|record| record.starts_with("1100 "));
            of_proofs.any(|record| record.contains(words))
        };
        assert_eq!(has("op=password_auth "), has_own, "{password} {found:?}");
        assert_eq!(
            has("op=PAM:authentication "),
            has_pams,
            "{password} {found:?}"
        );
    }
}
