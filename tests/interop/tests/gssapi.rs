//! Logins with Kerberos tickets (gssapi-with-mic), with passwords of the realm and key exchanges by GSS-API between our programs and OpenSSH's, in a
//! realm of MIT's programs. Each case runs in namespaces of its own, where this machine is called gss.test. Needs
//! root.

#[path = "gssapi/exchange.rs"]
mod exchange;
#[path = "gssapi/password.rs"]
mod password;
#[path = "gssapi/silent.rs"]
mod silent;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use interop::account::{Guest, uid_of};
use interop::fixture;
use interop::peers::ours::{Kind, couples};
use interop::process::{Input, command_line, installed};
use interop::realm::{HOST, REALM, Realm};
use interop::report::skipped;
use interop::scratch::{SHELL_FUNCTIONS, Scratch, free_port, until};
use interop::site::finish;

/// Limit on what happens soon.
const LIMIT: Duration = Duration::from_secs(120);

/// Starts the server, runs the client as the guest, and stops the server.
const SCRIPT: &str = r#"
mount --make-rprivate / || exit 90
mount --bind "$FILES/hosts" /etc/hosts || exit 91
hostname "$NAME" || exit 92
start_server "$FILES/log" $SSHD -D -e -f "$FILES/sshd_config" -p "$PORT"
if [ -n "$AGENT" ]; then
    as_guest ssh-agent -d -a "$AGENT" >"$FILES/agent" 2>&1 &
    agent=$!
    until [ -S "$AGENT" ]; do sleep 0.1; done
fi
as_guest env -u KRB5_KTNAME $SSH -F "$FILES/client" -p "$PORT" "$@" \
    "$TARGET@gss.test" "echo logged in; $COMMAND; true"
status=$?
[ -z "$AGENT" ] || kill $agent
end_with $status
"#;

/// Shows the session's credentials, and what the login proved.
const SHOW: &str = r#"echo "cache=$KRB5CCNAME"; klist -s && klist | grep "Default principal"; cat "$SSH_USER_AUTH""#;

/// A realm, a guest with a ticket in it, and the options of a server.
struct Case {
    realm: Realm,
    guest: Guest,
    files: Scratch,
    server_options: &'static str,
    /// Name of this machine.
    name: &'static str,
    /// KRB5CCNAME of the client.
    cache: String,
    /// KRB5_KTNAME of the server; empty for that of krb5.conf.
    keytab: String,
    /// The user to log in as; empty for the guest.
    target: &'static str,
    /// What runs in the session.
    command: &'static str,
    /// The server's host key; a path of no file for none.
    host_key: String,
    /// Socket of an agent of the guest; empty for none.
    agent: String,
    /// What the client answers to questions, if it does.
    answer: Option<String>,
    /// KRB5_CONFIG instead of that of the realm.
    configuration: Option<PathBuf>,
}

/// How a login ended.
#[derive(Debug)]
struct Ended {
    logged_in: bool,
    said: String,
    /// The standard output of the session.
    output: String,
    log: String,
    port: u16,
}

impl Ended {
    /// The cache that the session had.
    fn cache(&self) -> Option<&str> {
        let line = self
            .output
            .lines()
            .find_map(|line| line.strip_prefix("cache="));
        line.and_then(|value| value.strip_prefix("FILE:"))
    }

    /// The server's lines about the method, without names and ports that differ in each run.
    fn lines(&self, guest: &str) -> Vec<String> {
        let about = [
            "Accepted gssapi",
            "Failed gssapi",
            "Authorized to",
            "Postponed gssapi",
        ];
        let is_port = |word: &&str| word.parse::<u16>().is_ok();
        self.log
            .lines()
            .filter(|line| about.iter().any(|text| line.contains(text)))
            .map(|line| {
                let words = line.trim_end().replace(guest, "GUEST");
                let words: Vec<&str> = words
                    .split(' ')
                    .map(|word| if is_port(&word) { "N" } else { word })
                    .collect();
                words.join(" ")
            })
            .collect()
    }
}

impl Case {
    fn new() -> Option<Self> {
        Self::with("")
    }

    /// The same with a line for the section libdefaults of krb5.conf.
    fn with(defaults: &str) -> Option<Self> {
        let needs = ["unshare", "setpriv", "klist"];
        let missing = needs.iter().find(|name| installed(name).is_none());
        let made = match missing {
            Some(missing) => Err((*missing).to_owned()),
            None => Guest::new().and_then(|guest| Ok((guest, Realm::start(defaults)?))),
        };
        let (guest, realm) = match made {
            Ok(made) => made,
            Err(why) => {
                skipped("gssapi", &why);
                return None;
            }
        };
        for name in [guest.name.as_str(), "other"] {
            realm.add_user(name).unwrap();
        }
        let cache = realm.ticket(&guest, &guest.name, &["-f"]).unwrap();
        let files = Scratch::new();
        fs::set_permissions(files.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let hosts = files.write("hosts", format!("127.0.0.1 localhost {HOST}\n"));
        fs::set_permissions(hosts, fs::Permissions::from_mode(0o644)).unwrap();
        Some(Self {
            realm,
            guest,
            files,
            server_options: "",
            name: HOST,
            cache,
            keytab: String::new(),
            target: "",
            command: SHOW,
            host_key: fixture::file("host_ed25519").display().to_string(),
            agent: String::new(),
            answer: None,
            configuration: None,
        })
    }

    /// Logs in; the client's `arguments` follow `GSSAPIAuthentication yes` and no other method.
    fn run(&self, client: Kind, server: Kind, arguments: &[&str]) -> Ended {
        let key = &self.host_key;
        let options = self.server_options;
        let (before, after) = options.split_at(options.find("Match").unwrap_or(options.len()));
        let options = format!(
            "{before}GSSAPIAuthentication yes\nPasswordAuthentication no\nListenAddress 127.0.0.1\n\
             KbdInteractiveAuthentication no\nPubkeyAuthentication no\nLogLevel DEBUG1\nUsePAM no\n\
             HostKey {key}\nPidFile none\n{after}"
        );
        self.files.write("sshd_config", options);
        self.files.write(
            "client",
            "GSSAPIAuthentication yes\nStrictHostKeyChecking no\nBatchMode yes\n\
             PreferredAuthentications gssapi-with-mic\nUserKnownHostsFile /dev/null\n\
             GlobalKnownHostsFile /dev/null\nLogLevel DEBUG1\n",
        );
        self.files.write("log", "");
        let readable = fs::Permissions::from_mode(0o644);
        fs::set_permissions(self.files.join("client"), readable).unwrap();
        let port = free_port();
        let own = || self.realm.configuration();
        let configuration = self.configuration.clone().unwrap_or_else(own);
        let mut command = Command::new("unshare");
        let script = format!("{SHELL_FUNCTIONS}{SCRIPT}");
        command
            .args(["-m", "-u", "sh", "-c", &script, "sh"])
            .args(arguments)
            .env("FILES", self.files.path())
            .env("NAME", self.name)
            .env("PORT", port.to_string())
            .env("SSH", command_line(&client.ssh().unwrap()))
            .env("SSHD", command_line(&server.sshd().unwrap()))
            .env("GUEST", &self.guest.name)
            .env("GUEST_HOME", self.guest.home())
            .env("TARGET", self.target())
            .env("COMMAND", self.command)
            .env("AGENT", &self.agent)
            .env("KRB5CCNAME", &self.cache)
            .env("KRB5_CONFIG", configuration);
        if let Some(answer) = &self.answer {
            let script = format!("#!/bin/sh\nprintf '%s\\n' '{answer}'\n");
            let program = self.guest.write("answer", script, 0o700);
            command
                .env("SSH_ASKPASS", program)
                .env("SSH_ASKPASS_REQUIRE", "force");
        }
        if !self.keytab.is_empty() {
            command.env("KRB5_KTNAME", self.realm.keytab(&self.keytab));
        }
        let outcome = finish(&mut command, Input::Nothing);
        assert!(
            !(90..100).contains(&outcome.status),
            "{}",
            outcome.summary()
        );
        Ended {
            logged_in: outcome.stdout.text().starts_with("logged in"),
            said: outcome.stderr.text(),
            output: outcome.stdout.text(),
            log: fs::read_to_string(self.files.join("log")).unwrap(),
            port,
        }
    }

    fn target(&self) -> &str {
        match self.target {
            "" => &self.guest.name,
            target => target,
        }
    }

    fn lines(&self, ended: &Ended) -> Vec<String> {
        assert!(ended.port > 0);
        ended.lines(&self.guest.name)
    }
}

#[test]
fn a_ticket_lets_its_principal_in_whoever_made_each_side() {
    let Some(case) = Case::new() else { return };
    for (client, server) in couples() {
        let ended = case.run(client, server, &[]);
        let which = format!("{client:?} {server:?}: {ended:?}");
        assert!(ended.logged_in, "{which}");
        assert_eq!(ended.cache(), None, "{which}");
        let lines = case.lines(&ended);
        for expected in [
            format!("Authorized to GUEST, krb5 principal GUEST@{REALM} (krb5_kuserok)"),
            format!("Accepted gssapi-with-mic for GUEST from 127.0.0.1 port N ssh2: GUEST@{REALM}"),
        ] {
            assert!(
                lines.iter().any(|line| line.ends_with(&expected)),
                "{which}"
            );
        }
    }
}

#[test]
fn credentials_are_delegated_only_where_both_sides_say_so_and_removed_at_the_end() {
    let Some(mut case) = Case::new() else { return };
    let uid = uid_of(&case.guest.name).unwrap();
    for (client, server) in couples() {
        case.server_options = "";
        let ended = case.run(client, server, &["-K"]);
        let which = format!("{client:?} {server:?}: {ended:?}");
        let path = ended.cache().expect(&which);
        assert!(path.starts_with(&format!("/tmp/krb5cc_{uid}_")), "{which}");
        let principal = format!("Default principal: {}@{REALM}", case.guest.name);
        assert!(ended.output.contains(&principal), "{which}");
        // The session's monitor removes it after the client has its answer.
        assert!(until(LIMIT, || !fs::exists(path).unwrap()), "{which}");
        for refusing in [&["-K", "-k"][..], &["-oGSSAPIDelegateCredentials=no"]] {
            let ended = case.run(client, server, refusing);
            assert!(ended.logged_in && ended.cache().is_none(), "{ended:?}");
        }
    }
    case.server_options = "GSSAPICleanupCredentials no\n";
    let ended = case.run(Kind::OpenSsh, Kind::Fulmar, &["-K"]);
    let path = ended.cache().expect("a cache");
    let metadata = fs::metadata(path).unwrap();
    fs::remove_file(path).unwrap();
    use std::os::unix::fs::MetadataExt;
    assert_eq!((metadata.uid(), metadata.mode() & 0o777), (uid, 0o600));
    // PAM's modules get the variable, and the session gets theirs.
    if Path::new("/etc/pam.d/sshd").exists() {
        case.server_options = "UsePAM yes\nPAMServiceName sshd\n";
        let ended = case.run(Kind::OpenSsh, Kind::Fulmar, &["-K"]);
        let path = ended.cache().expect("a cache");
        assert!(until(LIMIT, || !fs::exists(path).unwrap()), "{ended:?}");
    }
    case.server_options = "GSSAPIDelegateCredentials no\n";
    let ended = case.run(Kind::OpenSsh, Kind::Fulmar, &["-K"]);
    assert!(ended.logged_in && ended.cache().is_none(), "{ended:?}");
}

#[test]
fn only_a_fresh_ticket_for_this_host_of_a_permitted_principal_lets_in() {
    let Some(mut case) = Case::new() else { return };
    let fine = case.cache.clone();
    let other = case.realm.ticket(&case.guest, "other", &[]).unwrap();
    case.realm.add_host("elsewhere.test", "elsewhere").unwrap();
    for (client, server) in couples() {
        let which = format!("{client:?} {server:?}");
        let refused = |case: &Case, why: &str| {
            let ended = case.run(client, server, &[]);
            assert!(!ended.logged_in, "{which} {why}: {ended:?}");
            assert!(!ended.log.contains("Accepted"), "{which} {why}: {ended:?}");
            ended
        };
        // Another principal, until the user lists it.
        case.cache.clone_from(&other);
        refused(&case, "another principal");
        let listed = format!("other@{REALM}\n");
        case.guest.write(".k5login", listed, 0o644);
        let ended = case.run(client, server, &[]);
        assert!(ended.logged_in, "{which}: {ended:?}");
        // The list replaces the rule that the user's own principal may log in.
        case.cache.clone_from(&fine);
        refused(&case, "not in .k5login");
        fs::remove_file(case.guest.home().join(".k5login")).unwrap();
        // No ticket.
        case.cache = "FILE:/nonexistent/cache".to_owned();
        let ended = refused(&case, "no ticket");
        assert!(!ended.log.contains("Postponed gssapi"), "{ended:?}");
        case.cache.clone_from(&fine);
        // The key of another host only.
        case.keytab = "elsewhere".to_owned();
        refused(&case, "another host's key");
        // Another name of this machine, for which a strict acceptor has no key.
        case.keytab = String::new();
        case.name = "renamed.test";
        refused(&case, "strict acceptor");
        case.server_options = "GSSAPIStrictAcceptorCheck no\n";
        let ended = case.run(client, server, &[]);
        assert!(ended.logged_in, "{which}: {ended:?}");
        (case.name, case.server_options) = (HOST, "");
        // Not configured for this user.
        case.server_options = "Match User root\nGSSAPIAuthentication no\n";
        let ended = case.run(client, server, &[]);
        assert!(ended.logged_in, "{which}: {ended:?}");
        case.server_options = "GSSAPIAuthentication no\nAuthenticationMethods any\n";
        let ended = refused(&case, "GSSAPIAuthentication no");
        assert!(!ended.log.contains("gssapi-with-mic for"), "{ended:?}");
        case.server_options = "";
    }
}

#[test]
fn a_list_that_the_user_may_not_see_is_not_passed_over() {
    let lists = Scratch::new();
    let defaults = format!("k5login_directory = {}", lists.path().display());
    let Some(mut case) = Case::with(&defaults) else {
        return;
    };
    let fine = case.cache.clone();
    let other = case.realm.ticket(&case.guest, "other", &[]).unwrap();
    let list = lists.write(&case.guest.name, format!("other@{REALM}\n"));
    fs::set_permissions(list, fs::Permissions::from_mode(0o644)).unwrap();
    for (mode, others_enter) in [(0o700, false), (0o755, true)] {
        fs::set_permissions(lists.path(), fs::Permissions::from_mode(mode)).unwrap();
        // The list has another principal than the user's own.
        case.cache.clone_from(&fine);
        let ended = case.run(Kind::OpenSsh, Kind::Fulmar, &[]);
        assert!(!ended.logged_in, "{mode:o}: {ended:?}");
        case.cache.clone_from(&other);
        let ended = case.run(Kind::OpenSsh, Kind::Fulmar, &[]);
        assert_eq!(ended.logged_in, others_enter, "{mode:o}: {ended:?}");
    }
}

#[test]
fn an_expired_ticket_lets_nobody_in() {
    // Expired is what has ended for longer than the clocks may differ.
    let Some(mut case) = Case::with("clockskew = 2") else {
        return;
    };
    case.realm.add_user("brief").unwrap();
    case.cache = case
        .realm
        .ticket(&case.guest, "brief", &["-l", "1s"])
        .unwrap();
    let listed = format!("brief@{REALM}\n");
    case.guest.write(".k5login", listed, 0o644);
    for (client, server) in couples() {
        let mut said = String::new();
        let refused = until(LIMIT, || {
            let ended = case.run(client, server, &[]);
            said = ended.said;
            !ended.logged_in
        });
        assert!(
            refused && said.contains("expired"),
            "{client:?} {server:?}: {said}"
        );
    }
}

#[test]
fn who_does_not_exist_takes_the_same_steps_and_is_refused() {
    let Some(mut case) = Case::new() else { return };
    let count = |ended: &Ended, text: &str| {
        ended
            .said
            .lines()
            .filter(|line| line.contains(text))
            .count()
    };
    case.cache = case.realm.ticket(&case.guest, "other", &[]).unwrap();
    let known = case.run(Kind::OpenSsh, Kind::Fulmar, &[]);
    case.target = "nosuchuser";
    let unknown = case.run(Kind::OpenSsh, Kind::Fulmar, &[]);
    assert!(!known.logged_in && !unknown.logged_in);
    for text in [
        "Authentications that can continue",
        "Delegating credentials",
        "Permission denied",
    ] {
        assert_eq!(
            count(&known, text),
            count(&unknown, text),
            "{known:?} {unknown:?}"
        );
    }
    let lines = case.lines(&unknown);
    let expected = format!(
        "Failed gssapi-with-mic for invalid user nosuchuser from 127.0.0.1 port N ssh2: other@{REALM}"
    );
    assert!(
        lines.iter().any(|line| line.contains(&expected)),
        "{lines:?}"
    );
}

#[test]
fn a_chain_of_methods_counts_the_ticket_as_one() {
    let Some(mut case) = Case::new() else { return };
    case.server_options = "AuthenticationMethods gssapi-with-mic,publickey gssapi-with-mic\nPubkeyAuthentication yes\nExposeAuthInfo yes\n";
    for (client, server) in couples() {
        let ended = case.run(client, server, &[]);
        assert!(ended.logged_in, "{client:?} {server:?}: {ended:?}");
        let proved = format!("\ngssapi-with-mic {}@{REALM}\n", case.guest.name);
        assert!(
            ended.output.contains(&proved),
            "{client:?} {server:?}: {ended:?}"
        );
    }
    case.server_options =
        "AuthenticationMethods gssapi-with-mic,publickey\nPubkeyAuthentication yes\n";
    for (client, server) in couples() {
        let ended = case.run(client, server, &[]);
        assert!(!ended.logged_in, "{client:?} {server:?}: {ended:?}");
        assert!(
            ended.log.contains("Partial gssapi-with-mic for"),
            "{ended:?}"
        );
    }
}
