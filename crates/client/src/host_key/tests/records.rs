//! What the records of a host say about a key that is not simply theirs: names without a port, keys of other
//! types, a command and its failure, addresses, files that are missing or too large.

use std::os::unix::fs::PermissionsExt;

use super::*;

/// The records of the name without its port count where the name with it has none, and nothing is written;
/// another key there is no change.
#[test]
fn another_port_falls_back_to_the_name_alone() {
    let scratch = Scratch::new("bare");
    let authority = key(9);
    let certified = certificate(&["h"], &authority, Vec::new());
    let new = ["Port=2222", "StrictHostKeyChecking=accept-new"];
    let alias = [&new[..], &["HostKeyAlias=a"]].concat();
    let (plain, other) = (line("h", &key(1)), line("h", &key(2)));
    let revoked = format!("@revoked {plain}");
    let of_authority = format!("@cert-authority {}", line("h*", &authority));
    for (text, more, verdict, is_written) in [
        (&plain, &new[..], Verdict::Accept, false),
        (&other, &new, Verdict::Accept, true),
        (&plain, &alias, Verdict::Accept, true),
        (&revoked, &new, Verdict::Refuse, false),
        (
            &format!("{plain}{}", line("[h]:2222", &key(2))),
            &new,
            Verdict::Refuse,
            false,
        ),
    ] {
        scratch.file("known_hosts", text);
        let mut checker = scratch.checker("h", more);
        let judged = judge(&mut checker, &key(1), &mut Script::default());
        assert_eq!(judged, verdict, "{text}");
        assert_eq!(scratch.read() != *text, is_written, "{text}");
    }
    scratch.file("known_hosts", &of_authority);
    let judged = judge_certificate(&mut scratch.checker("h", &new), &certified);
    assert_eq!((judged, scratch.read()), (Verdict::Accept, of_authority));
}

/// Whoever has no key of the known type could show one of another type.
#[test]
fn a_known_host_with_a_key_of_another_type_is_no_new_host() {
    let ecdsa = PrivateKey::generate(keys::KeySpec::Ecdsa(keys::EcCurve::P256)).unwrap();
    let scratch = Scratch::new("othertype");
    scratch.file("known_hosts", &line("h", &ecdsa));
    for (strict, verdict) in [
        ("accept-new", Verdict::Refuse),
        ("ask", Verdict::Refuse),
        ("no", Verdict::AcceptWithoutSecrets),
    ] {
        let more = format!("StrictHostKeyChecking={strict}");
        let mut person = Script {
            answers: vec!["yes"],
            ..Script::default()
        };
        let mut checker = scratch.checker("h", &[&more]);
        assert_eq!(
            judge(&mut checker, &key(1), &mut person),
            verdict,
            "{strict}"
        );
        assert!(person.told.contains("Offending ECDSA key in"));
        assert_eq!(scratch.read(), line("h", &ecdsa));
    }
    // No server can show a key of a type that is not supported.
    let dsa = "h ssh-dss AAAAB3NzaC1kc3MAAAABAQ==\n";
    scratch.file("known_hosts", dsa);
    let more = ["StrictHostKeyChecking=accept-new"];
    let judged = judge(
        &mut scratch.checker("h", &more),
        &key(1),
        &mut Script::default(),
    );
    assert_eq!(judged, Verdict::Accept);
}

/// CVE-2025-26465: a lookup that fails must end in a question or a refusal.
#[test]
fn a_known_hosts_command_that_fails_refuses_also_known_keys() {
    let scratch = Scratch::new("command");
    // What a command that fails would have said is not known, whatever else is.
    scratch.file("known_hosts", &line("h", &key(1)));
    let failed = &["StrictHostKeyChecking=no", "KnownHostsCommand=/bin/false"];
    let absent = &["KnownHostsCommand=/nonexistent"];
    for (more, verdict) in [(&failed[..], Verdict::Refuse), (absent, Verdict::Accept)] {
        let mut checker = scratch.checker("h", more);
        let judged = judge(&mut checker, &key(1), &mut Script::default());
        assert_eq!(judged, verdict, "{more:?}");
        assert_eq!(checker.has_command_failed(), verdict == Verdict::Refuse);
    }
}

/// A command that writes its arguments down and runs `script`; the option that names it.
fn command(scratch: &Scratch, script: &str) -> String {
    let text = format!("#!/bin/sh\necho \"$@\" >> \"$0.log\"\n{script}\n");
    let path = scratch.file("hosts", &text);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    format!("KnownHostsCommand={} %H %I", path.display())
}

/// What the command was run for since the last call.
fn commands_run(scratch: &Scratch) -> String {
    let log = scratch.0.join("hosts.log");
    let text = fs::read_to_string(&log).unwrap_or_default();
    let _ = fs::remove_file(log);
    text
}

/// As OpenSSH, which does not ask for the name without the port and writes nothing that the command vouches for.
#[test]
fn a_command_is_asked_for_the_host_and_its_address_with_the_port() {
    let scratch = Scratch::new("commanded");
    let (own, other) = (key(1).public().to_line(), key(2).public().to_line());
    let more = [
        "Port=2222",
        "StrictHostKeyChecking=yes",
        "UpdateHostKeys=yes",
    ];
    let judged = |script: &str| {
        let option = command(&scratch, script);
        let mut checker = with_address(&scratch, &[&more[..], &[&option]].concat());
        let verdict = judge(&mut checker, &key(1), &mut Script::default());
        (verdict, checker.trust)
    };
    let asked = "[h]:2222 HOSTNAME\n[192.0.2.1]:2222 ADDRESS\n";
    for (script, verdict) in [
        (format!("echo \"$1 {own}\""), Verdict::Accept),
        (
            format!("[ $2 = ADDRESS ] || echo \"$1 {own}\""),
            Verdict::Accept,
        ),
        (
            format!("[ $2 = ADDRESS ] && echo \"$1 {other}\" || echo \"$1 {own}\""),
            Verdict::Refuse,
        ),
        (
            format!("[ $1 = h ] && echo \"h {own}\"; true"),
            Verdict::Refuse,
        ),
        (
            format!("echo \"$1 {own}\"; [ $2 != ADDRESS ]"),
            Verdict::Refuse,
        ),
    ] {
        // UpdateHostKeys copies no key that the user's own files do not have.
        assert_eq!(judged(&script), (verdict, Trust::None), "{script}");
        assert_eq!(commands_run(&scratch), asked, "{script}");
        assert_eq!(scratch.read(), "", "{script}");
    }
}

/// The messages begin as OpenSSH's.
#[test]
fn a_command_that_is_not_there_is_named_with_what_it_is_for() {
    let scratch = Scratch::new("nocommand");
    for (command, said) in [
        (
            "/nonexistent %H",
            "Could not stat KnownHostsCommand-HOSTNAME \"/nonexistent\": No such file or directory",
        ),
        (
            "relative %H",
            "KnownHostsCommand-HOSTNAME path is not absolute",
        ),
    ] {
        let option = format!("KnownHostsCommand={command}");
        let mut checker = scratch.checker("h", &[&option, "StrictHostKeyChecking=accept-new"]);
        let heard = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
        let reader = std::rc::Rc::clone(&heard);
        log::read_by(
            Box::new(move |text| reader.borrow_mut().push(text.to_owned())),
            || judge(&mut checker, &key(1), &mut Script::default()),
        );
        let heard = heard.borrow();
        assert!(heard.iter().any(|line| line == said), "{heard:?}");
    }
}

/// A host that is known without its port: its address must not be listed with another key, with the port or
/// without it, and nothing is written.
#[test]
fn the_address_of_a_host_known_without_its_port_is_compared() {
    let scratch = Scratch::new("bareaddress");
    let host = line("h", &key(1));
    for (address, matches) in [
        ("192.0.2.1", true),
        ("[192.0.2.1]:2222", true),
        ("192.0.2.1", false),
        ("[192.0.2.1]:2222", false),
    ] {
        let text = host.clone() + &line(address, &key(if matches { 1 } else { 2 }));
        scratch.file("known_hosts", &text);
        for (strict, answers, accepts) in [
            ("yes", vec![], matches),
            ("accept-new", vec![], matches),
            ("ask", vec!["no"], matches),
            ("ask", vec!["what", "yes"], true),
            ("no", vec![], true),
        ] {
            let more = ["Port=2222", &format!("StrictHostKeyChecking={strict}")];
            let mut person = Script {
                answers,
                ..Script::default()
            };
            let judged = judge(&mut with_address(&scratch, &more), &key(1), &mut person);
            let case = format!("{address} {matches} {strict}");
            assert_eq!(judged == Verdict::Accept, accepts, "{case}");
            let said = format!("differs from the key for the IP address '{address}'\n");
            assert_eq!(person.told.contains(&said), !matches, "{case}");
            let again = "Please type 'yes' or 'no': ";
            assert!(person.asked.iter().skip(1).all(|asked| asked == again));
        }
        assert_eq!(scratch.read(), text);
    }
    scratch.file("known_hosts", &host);
    let mut checker = with_address(&scratch, &["Port=2222"]);
    let judged = judge(&mut checker, &key(1), &mut Script::default());
    assert_eq!((judged, scratch.read()), (Verdict::Accept, host));
}

/// UpdateHostKeys follows the announcements of hosts that the user's own files list, as OpenSSH does.
#[test]
fn keys_are_updated_of_hosts_in_the_users_files_alone() {
    let scratch = Scratch::new("updated");
    let (host, address) = (line("h", &key(1)), line("192.0.2.1", &key(1)));
    let both = format!("{host}{address}");
    for (own, global, trust) in [
        (&*both, "", Trust::Plain),
        ("", &*both, Trust::None),
        (&host, &address, Trust::None),
        (&both, &both, Trust::Plain),
    ] {
        scratch.file("known_hosts", own);
        let global = scratch.file("global", global);
        let mut options = scratch.options("h", &["CheckHostIP=yes"]);
        options.host_keys.global_known_hosts_files = vec![global.display().to_string()];
        let mut checker = HostKeyChecker::new(&options);
        checker.set_address(Some(([192, 0, 2, 1], 22).into()));
        let judged = judge(&mut checker, &key(1), &mut Script::default());
        assert_eq!((judged, checker.trust), (Verdict::Accept, trust), "{own}");
    }
}

/// As in OpenSSH: a new host has to be written to a file, be it /dev/null.
#[test]
fn without_a_file_of_the_user_no_new_host_passes() {
    let scratch = Scratch::new("nofile");
    for strict in ["no", "accept-new", "ask", "yes"] {
        let mut options = scratch.options("h", &[&format!("StrictHostKeyChecking={strict}")]);
        for (file, accepts) in [("none", false), ("/dev/null", strict != "yes")] {
            options.host_keys.user_known_hosts_files = vec![file.to_owned()];
            let mut person = Script {
                answers: vec!["yes"],
                ..Script::default()
            };
            let judged = judge(&mut HostKeyChecker::new(&options), &key(1), &mut person);
            assert_eq!(judged == Verdict::Accept, accepts, "{strict} {file}");
        }
    }
}

#[test]
fn a_file_too_large_to_be_read_refuses_every_key() {
    let scratch = Scratch::new("toolarge");
    let path = scratch.file("known_hosts", &line("h", &key(1)));
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(known_hosts::MAX_FILE_BYTES + 1).unwrap();
    for host in ["h", "other"] {
        let mut checker = scratch.checker(host, &["StrictHostKeyChecking=no"]);
        let judged = judge(&mut checker, &key(1), &mut Script::default());
        assert_eq!(judged, Verdict::Refuse, "{host}");
    }
}
