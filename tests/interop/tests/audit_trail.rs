//! What a server tells the kernel's audit subsystem, beside Debian's sshd, which is built for it. Whole runs only, as
//! root.

use interop::account::{Guest, uid_of};
use interop::audit_trail::AuditTrail;
use interop::fixture;
use interop::peers::ours::Kind;
use interop::process::{Input, Outcome};
use interop::report::skipped;
use interop::scratch::Scratch;
use interop::site::{HOST, Site, askpass, finish};

const PASSWORD: &str = "Corr3ct horse, battery";
const WRONG: &str = "wr0ng one";

fn log_in(site: &Site, methods: &str, user: &str, password: &str) -> Outcome {
    let scratch = Scratch::new();
    let program = askpass(&scratch, &[password]);
    let lines = format!(
        "PreferredAuthentications {methods}\nBatchMode no\nNumberOfPasswordPrompts 1\nUser {user}\n"
    );
    let mut command = site.ssh(&lines);
    command
        .args([HOST, "true"])
        .env("SSH_ASKPASS", &program)
        .env("SSH_ASKPASS_REQUIRE", "force");
    finish(&mut command, Input::Nothing)
}

/// The records' words without those that name the program.
fn without_program(records: &[String]) -> Vec<String> {
    let is_kept = |word: &&str| !word.starts_with("exe=");
    let kept = |record: &String| -> String {
        let words: Vec<&str> = record.split(' ').filter(is_kept).collect();
        words.join(" ")
    };
    records.iter().map(kept).collect()
}

#[test]
fn each_attempt_and_session_has_its_records() {
    let made = Guest::new().and_then(|mut guest| {
        guest.set_password(PASSWORD)?;
        Ok((guest, AuditTrail::listen()?))
    });
    let (guest, trail) = match made {
        Ok(made) => made,
        Err(why) => return skipped("the audit trail", &why),
    };
    let keys = ".ssh/authorized_keys";
    guest.write(keys, fixture::text("user_ed25519.pub"), 0o600);
    let uid = uid_of(&guest.name).expect("its number");
    let (name, number) = (format!("acct=\"{}\"", guest.name), format!("id={uid} "));
    let rest = "hostname=? addr=127.0.0.1";
    let failed = format!("1112 op=login {name} {rest} terminal=sshd res=failed");
    for kind in [Kind::OpenSsh, Kind::Fulmar] {
        let lines = format!("AuthorizedKeysFile {keys}\nUsePAM no\nPasswordAuthentication yes\n");
        let site = Site::new(Kind::OpenSsh, kind, &lines);
        let is_ours = kind == Kind::Fulmar;
        let texts = [name.as_str(), number.as_str(), "acct=28696E"];
        let of = |last: &str| without_program(&trail.take(&texts, last));

        let outcome = log_in(&site, "password", &guest.name, WRONG);
        assert_eq!(outcome.status, 255, "{}", outcome.summary());
        let found = of("op=login");
        assert!(found.contains(&failed), "{kind:?} {found:?}");
        let by_password =
            |result: &str| format!("1100 op=password_auth {name} {rest} terminal=ssh res={result}");
        assert_eq!(
            found.contains(&by_password("failed")),
            is_ours,
            "{kind:?} {found:?}"
        );

        // A name that does not exist may be a password that was typed in the wrong place.
        let outcome = log_in(
            &site,
            "password",
            WRONG.split(' ').next().expect("a word"),
            PASSWORD,
        );
        assert_eq!(outcome.status, 255, "{}", outcome.summary());
        let found = of("op=login");
        let invalid = format!(
            "1112 op=login acct=28696E76616C6964207573657229 {rest} terminal=sshd res=failed"
        );
        assert!(found.contains(&invalid), "{kind:?} {found:?}");

        if !is_ours {
            continue;
        }
        let host = "hostname=127.0.0.1 addr=127.0.0.1";
        let session =
            |number: u32| format!("{number} op=login id={uid} {host} terminal=ssh res=success");
        let outcome = log_in(&site, "password", &guest.name, PASSWORD);
        assert_eq!(outcome.status, 0, "{}", outcome.summary());
        let wanted = [by_password("success"), session(1112), session(1113)];
        assert_eq!(of("1113 op=login"), wanted, "{kind:?}");

        let outcome = log_in(&site, "publickey", &guest.name, "");
        assert_eq!(outcome.status, 0, "{}", outcome.summary());
        let found = of("1113 op=login");
        let key = &found[0];
        assert!(
            key.starts_with("2404 op=negotiate kind=auth-key fp=SHA256:"),
            "{found:?}"
        );
        let by_key =
            format!("1100 op=pubkey_auth grantors=auth-key {name} {rest} terminal=ssh res=success");
        assert_eq!(found[1..], [by_key, session(1112), session(1113)]);
    }
}
