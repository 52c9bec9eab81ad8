//! Key exchanges by GSS-API (GSSAPIKeyExchange) and the method gssapi-keyex, with the client and server of Debian,
//! which have the distributions' patch, on the other side.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use interop::account::uid_of;
use interop::peers::ours::{Kind, couples};
use interop::realm::{HOST, PASSWORD, REALM};
use interop::scratch::until;

use super::{Case, Ended};

const GSS_KEX: [&str; 4] = [
    "gss-curve25519-sha256-",
    "gss-nistp256-sha256-",
    "gss-group14-sha256-",
    "gss-group16-sha512-",
];
const KERBEROS_KEX_SUFFIX: &str = "toWM5Slw5Ew8Mqkay+al2g==";
const LIMIT: Duration = Duration::from_secs(120);
/// A client that knows no host key and accepts none logs in by the key exchange alone.
const CLIENT: &[&str] = &[
    "-oGSSAPIKeyExchange=yes",
    "-oStrictHostKeyChecking=yes",
    "-oPreferredAuthentications=gssapi-keyex",
];
const SERVER: &str = "GSSAPIKeyExchange yes\n";

fn case() -> Option<Case> {
    let mut case = Case::new()?;
    case.server_options = SERVER;
    Some(case)
}

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    // The first value of an option counts.
    more.iter().chain(CLIENT).copied().collect()
}

/// The methods of the connection's key exchanges, in order, as the client's log has them.
fn exchanges(ended: &Ended) -> Vec<&str> {
    let lines = ended.said.lines();
    lines
        .filter_map(|line| line.split_once("kex: algorithm: "))
        .map(|(_, name)| name.trim_end())
        .collect()
}

fn by_gss(ended: &Ended) -> bool {
    let names = exchanges(ended);
    !names.is_empty() && names.iter().all(|name| name.starts_with("gss-"))
}

/// Bytes that the client says it has received.
fn received(ended: &Ended) -> u64 {
    let line = ended.said.lines().find(|line| line.contains("received "));
    let words = line.and_then(|line| line.split_once("received "));
    let number = words.and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
    number.unwrap_or_default()
}

#[test]
fn each_exchange_proves_the_server_and_the_user_whoever_made_each_side() {
    let Some(case) = case() else { return };
    for (client, server) in couples() {
        for family in GSS_KEX {
            let chosen = format!("-oGSSAPIKexAlgorithms={family}");
            let ended = case.run(client, server, &with(&[&chosen]));
            let which = format!("{client:?} {server:?} {family}: {ended:?}");
            assert!(ended.logged_in, "{which}");
            assert_eq!(
                exchanges(&ended),
                [format!("{family}{KERBEROS_KEX_SUFFIX}")],
                "{which}"
            );
            assert_eq!(ended.cache(), None, "{which}");
            let lines = case.lines(&ended);
            for expected in [
                format!("Authorized to GUEST, krb5 principal GUEST@{REALM} (krb5_kuserok)"),
                format!(
                    "Accepted gssapi-keyex for GUEST from 127.0.0.1 port N ssh2: GUEST@{REALM}"
                ),
            ] {
                let has = lines.iter().any(|line| line.ends_with(&expected));
                assert!(has, "{expected}: {which}");
            }
            if client == Kind::Fulmar {
                let told =
                    format!("authenticated by GSSAPI as host@{HOST}; known_hosts is not consulted");
                assert!(ended.said.contains(&told), "{which}");
            }
        }
    }
}

#[test]
fn a_server_needs_no_host_key() {
    let Some(mut case) = case() else { return };
    case.host_key = "/nonexistent/key".to_owned();
    // Without a host key Debian 12's server does not announce strict key exchange, and resets its sequence
    // numbers all the same; AES-GCM does not depend on them.
    let cipher = "-oCiphers=aes128-gcm@openssh.com";
    for (client, server) in couples() {
        let ended = case.run(client, server, &with(&[cipher]));
        let which = format!("{client:?} {server:?}: {ended:?}");
        assert!(ended.logged_in && by_gss(&ended), "{which}");
        // Without tickets nothing is in common.
        let ended = case.run(client, server, &["-oGSSAPIKeyExchange=no"]);
        assert!(!ended.logged_in, "{which}");
    }
}

#[test]
fn rekeys_are_by_gss_too_while_data_moves() {
    let Some(mut case) = case() else { return };
    case.command = "head -c 30000000 /dev/zero | tr '\\0' x";
    for (client, server) in couples() {
        let ended = case.run(
            client,
            server,
            &with(&["-oRekeyLimit=4M", "-oCompression=no"]),
        );
        let which = format!("{client:?} {server:?}: {}", ended.said);
        assert!(ended.logged_in, "{which}");
        assert!(received(&ended) >= 30_000_000, "{which}");
        assert!(by_gss(&ended) && exchanges(&ended).len() >= 6, "{which}");
    }
    // The server's limit.
    case.server_options = "GSSAPIKeyExchange yes\nRekeyLimit 4M\n";
    for (client, server) in couples() {
        let ended = case.run(client, server, &with(&["-oCompression=no"]));
        let which = format!("{client:?} {server:?}: {}", ended.said);
        assert!(ended.logged_in && by_gss(&ended), "{which}");
        assert!(exchanges(&ended).len() >= 6, "{which}");
    }
}

#[test]
fn credentials_are_delegated_in_the_exchange_and_renewed_by_rekeys_if_the_server_says_so() {
    let Some(mut case) = case() else { return };
    let uid = uid_of(&case.guest.name).unwrap();
    let principal = format!("Default principal: {}@{REALM}", case.guest.name);
    for (client, server) in couples() {
        let ended = case.run(client, server, &with(&["-K"]));
        let which = format!("{client:?} {server:?}: {ended:?}");
        assert!(
            by_gss(&ended) && ended.output.contains(&principal),
            "{which}"
        );
        let path = ended.cache().expect(&which);
        assert!(path.starts_with(&format!("/tmp/krb5cc_{uid}_")), "{which}");
        assert!(until(LIMIT, || !fs::exists(path).unwrap()), "{which}");
        let ended = case.run(client, server, &with(&["-K", "-k"]));
        assert!(ended.logged_in && ended.cache().is_none(), "{ended:?}");
    }
    case.server_options = "GSSAPIKeyExchange yes\nGSSAPIStoreCredentialsOnRekey yes\n";
    case.command = r#"echo "cache=$KRB5CCNAME"; head -c 20000000 /dev/zero; klist >~/after"#;
    // OpenSSH's client delegates in each exchange, ours only what is new.
    for (client, renews) in [(Kind::OpenSsh, true), (Kind::Fulmar, false)] {
        let ended = case.run(client, Kind::Fulmar, &with(&["-K", "-oRekeyLimit=4M"]));
        let log = &ended.log;
        assert!(
            ended.logged_in && exchanges(&ended).len() > 2,
            "{client:?}: {log}"
        );
        let after = fs::read_to_string(case.guest.home().join("after")).unwrap();
        assert!(after.contains(&principal), "{client:?}: {after} {log}");
        assert_eq!(
            log.contains("the rekey has renewed the credentials"),
            renews,
            "{log}"
        );
        let path = ended.cache().unwrap();
        assert!(until(LIMIT, || !fs::exists(path).unwrap()), "{log}");
    }
    let ours = format!("krb5cc_{uid}_");
    let left = || {
        let entries = fs::read_dir("/tmp").unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names
            .filter(|name| name.starts_with(&ours))
            .collect::<Vec<_>>()
    };
    // A session that ends during a rekey removes what that has stored a moment later.
    assert!(until(LIMIT, || left().is_empty()), "{:?}", left());
}

/// The session renews the tickets of its client, and waits for its own to be replaced.
const RENEW: &str = "sh ~/renew";

fn renewing(case: &Case, seconds: u32) {
    let (name, configuration) = (&case.guest.name, case.realm.configuration());
    let script = format!(
        "export KRB5_CONFIG={}\nbefore=$(klist)\n\
         echo {PASSWORD} | kinit -f -l 50m -c {} {name} >&2 || exit 9\n\
         for second in $(seq {seconds}); do\n  echo -n .\n  sleep 1\n  \
         [ \"$(klist)\" = \"$before\" ] || {{ echo; echo replaced; klist; exit; }}\ndone\n",
        configuration.display(),
        case.cache
    );
    case.guest.write("renew", script, 0o644);
}

#[test]
fn renewed_credentials_replace_those_of_the_session_if_the_client_says_so() {
    let Some(mut case) = case() else { return };
    case.server_options = "GSSAPIKeyExchange yes\nGSSAPIStoreCredentialsOnRekey yes\n";
    case.command = RENEW;
    let principal = format!("Default principal: {}@{REALM}", case.guest.name);
    let name = case.guest.name.clone();
    let follows = "-oGSSAPIRenewalForcesRekey=yes";
    for (client, server) in couples() {
        case.cache = case
            .realm
            .ticket(&case.guest, &name, &["-f", "-l", "10m"])
            .unwrap();
        renewing(&case, 60);
        let ended = case.run(client, server, &with(&["-K", follows]));
        let which = format!("{client:?} {server:?}: {ended:?}");
        assert!(ended.logged_in && by_gss(&ended), "{which}");
        assert_eq!(exchanges(&ended).len(), 2, "{which}");
        assert!(
            ended.said.contains("credentials updated - forcing rekey"),
            "{which}"
        );
        let replaced = ended.output.split_once("\nreplaced\n").map(|(_, now)| now);
        assert!(replaced.expect(&which).contains(&principal), "{which}");
    }
    // Nothing to delegate, or nobody asks for it.
    for options in [&["-K"][..], &[follows]] {
        case.cache = case
            .realm
            .ticket(&case.guest, &name, &["-f", "-l", "10m"])
            .unwrap();
        renewing(&case, 15);
        let ended = case.run(Kind::Fulmar, Kind::Fulmar, &with(options));
        assert!(ended.logged_in && by_gss(&ended), "{ended:?}");
        assert_eq!(exchanges(&ended).len(), 1, "{ended:?}");
    }
}

#[test]
fn without_the_option_on_both_sides_the_host_key_is_checked() {
    let Some(mut case) = case() else { return };
    for (client, server) in couples() {
        for (options, more) in [("", &[][..]), (SERVER, &["-oGSSAPIKeyExchange=no"])] {
            case.server_options = options;
            let ended = case.run(client, server, &with(more));
            let which = format!("{client:?} {server:?} {options:?}: {ended:?}");
            assert!(!ended.logged_in, "{which}");
            assert!(
                ended.said.contains("Host key verification failed."),
                "{which}"
            );
            // The ticket still lets its principal in where any key is accepted, but not by gssapi-keyex.
            let lax = [
                more,
                &["-oGSSAPIKeyExchange=yes", "-oStrictHostKeyChecking=no"],
            ]
            .concat();
            let ended = case.run(client, server, &lax);
            assert!(ended.logged_in && !by_gss(&ended), "{which}");
            assert!(ended.log.contains("Accepted gssapi-with-mic"), "{which}");
            let ended = case.run(
                client,
                server,
                &[&lax[..], &["-oPreferredAuthentications=gssapi-keyex"]].concat(),
            );
            assert!(!ended.logged_in, "{which}");
        }
        case.server_options = SERVER;
        // Without a ticket the client does not offer what it cannot do.
        let cache = std::mem::replace(&mut case.cache, "FILE:/nonexistent/cache".to_owned());
        let ended = case.run(client, server, &["-oGSSAPIKeyExchange=yes"]);
        case.cache = cache;
        assert!(!ended.logged_in && !by_gss(&ended), "{ended:?}");
        assert!(!exchanges(&ended).is_empty(), "{ended:?}");
    }
}

#[test]
fn a_ticket_for_another_service_ends_the_exchange_and_a_missing_key_is_not_offered() {
    let Some(mut case) = case() else { return };
    case.realm.add_host("elsewhere.test", "elsewhere").unwrap();
    for (client, server) in couples() {
        let which = format!("{client:?} {server:?}");
        // The server offers the exchange, and has no key for the ticket.
        case.keytab = "elsewhere".to_owned();
        case.server_options = "GSSAPIKeyExchange yes\nGSSAPIStrictAcceptorCheck no\n";
        let ended = case.run(client, server, &with(&[]));
        assert!(!ended.logged_in, "{which}: {ended:?}");
        assert!(!ended.log.contains("Accepted"), "{which}: {ended:?}");
        if (client, server) == (Kind::Fulmar, Kind::Fulmar) {
            assert!(
                ended.said.contains("GSS-API key exchange failed"),
                "{which}: {ended:?}"
            );
        }
        // A strict acceptor has no key of its own: another exchange is agreed on.
        for keytab in ["elsewhere", "nothing"] {
            case.keytab = keytab.to_owned();
            case.server_options = SERVER;
            let ended = case.run(client, server, &["-oGSSAPIKeyExchange=yes"]);
            assert!(!ended.logged_in && !by_gss(&ended), "{which}: {ended:?}");
            assert!(!exchanges(&ended).is_empty(), "{which}: {ended:?}");
        }
        case.keytab = String::new();
        // The client asks for a ticket of the name in GSSAPIServerIdentity.
        let named = ["-oHostName=127.0.0.1", "-oGSSAPIServerIdentity=gss.test"];
        let ended = case.run(client, server, &with(&named));
        assert!(ended.logged_in && by_gss(&ended), "{which}: {ended:?}");
        let ended = case.run(
            client,
            server,
            &with(&["-oGSSAPIServerIdentity=elsewhere.test"]),
        );
        assert!(!ended.logged_in, "{which}: {ended:?}");
        let mine = format!("-oGSSAPIClientIdentity={}@{REALM}", case.guest.name);
        let ended = case.run(client, server, &with(&[&mine]));
        assert!(ended.logged_in && by_gss(&ended), "{which}: {ended:?}");
        let other = format!("-oGSSAPIClientIdentity=other@{REALM}");
        let ended = case.run(client, server, &with(&[&other]));
        assert!(!ended.logged_in && !by_gss(&ended), "{which}: {ended:?}");
    }
}

#[test]
fn the_name_of_an_address_counts_only_where_the_dns_is_trusted() {
    let Some(case) = case() else { return };
    // The first name of the loopback address is the host's.
    let hosts = case
        .files
        .write("hosts", format!("127.0.0.1 {HOST} localhost\n"));
    fs::set_permissions(hosts, fs::Permissions::from_mode(0o644)).unwrap();
    for (client, server) in couples() {
        for (trusts, is_in) in [("yes", true), ("no", false)] {
            let trust = format!("-oGSSAPITrustDns={trusts}");
            let ended = case.run(client, server, &with(&["-oHostName=127.0.0.1", &trust]));
            let which = format!("{client:?} {server:?} {trust}: {ended:?}");
            assert_eq!(ended.logged_in, is_in, "{which}");
            assert_eq!(by_gss(&ended), is_in, "{which}");
        }
    }
}

#[test]
fn who_is_not_permitted_exchanges_keys_and_stays_out() {
    let Some(mut case) = case() else { return };
    let fine = case.cache.clone();
    let other = case.realm.ticket(&case.guest, "other", &[]).unwrap();
    for (client, server) in couples() {
        let which = format!("{client:?} {server:?}");
        case.cache.clone_from(&other);
        let ended = case.run(client, server, &with(&[]));
        assert!(!ended.logged_in && by_gss(&ended), "{which}: {ended:?}");
        assert!(!ended.log.contains("Accepted"), "{which}: {ended:?}");
        case.target = "nosuchuser";
        let ended = case.run(client, server, &with(&[]));
        assert!(!ended.logged_in && by_gss(&ended), "{which}: {ended:?}");
        (case.target, case.cache) = ("", fine.clone());
        // Permitted as an exchange, but not as a login.
        case.server_options = "GSSAPIKeyExchange yes\nMatch User *\nGSSAPIAuthentication no\n";
        let ended = case.run(client, server, &with(&[]));
        assert!(!ended.logged_in && by_gss(&ended), "{which}: {ended:?}");
        case.server_options = SERVER;
    }
}

#[test]
fn chains_name_the_method_and_it_needs_the_exchange() {
    let Some(mut case) = case() else { return };
    for (client, server) in couples() {
        let which = format!("{client:?} {server:?}");
        case.server_options =
            "GSSAPIKeyExchange yes\nAuthenticationMethods gssapi-keyex\nExposeAuthInfo yes\n";
        let ended = case.run(client, server, &with(&[]));
        assert!(ended.logged_in, "{which}: {ended:?}");
        let proved = format!("\ngssapi-keyex {}@{REALM}\n", case.guest.name);
        assert!(
            server == Kind::OpenSsh || ended.output.contains(&proved),
            "{which}: {ended:?}"
        );
        let none = ["-oGSSAPIKeyExchange=no", "-oStrictHostKeyChecking=no"];
        let ended = case.run(client, server, &none);
        assert!(!ended.logged_in, "{which}: {ended:?}");
        case.server_options = "GSSAPIKeyExchange yes\nAuthenticationMethods gssapi-keyex,publickey\nPubkeyAuthentication yes\n";
        let ended = case.run(client, server, &with(&[]));
        assert!(!ended.logged_in, "{which}: {ended:?}");
        assert!(
            ended.log.contains("Partial gssapi-keyex for"),
            "{which}: {ended:?}"
        );
    }
}

#[test]
fn an_agent_is_forwarded_without_a_host_key() {
    let Some(mut case) = case() else { return };
    case.agent = case.guest.home().join("agent").display().to_string();
    case.command = "ssh-add -l; ssh-add -s /usr/lib/none.so </dev/null";
    let agent = format!("-oIdentityAgent={}", case.agent);
    for (client, server) in couples() {
        let ended = case.run(client, server, &with(&["-A", &agent]));
        let which = format!("{client:?} {server:?}: {ended:?}");
        assert!(ended.logged_in && by_gss(&ended), "{which}");
        assert!(
            ended.output.contains("The agent has no identities."),
            "{which}"
        );
        // OpenSSH's client does not bind the connection, which OpenSSH's agent then takes for a local one.
        if client == Kind::Fulmar {
            let said = fs::read_to_string(case.files.join("agent")).unwrap();
            let refused = "remote addition of providers is disabled";
            assert!(said.contains(refused), "{which} {said}");
        }
        let _ = fs::remove_file(&case.agent);
    }
}
