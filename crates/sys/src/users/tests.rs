use super::*;
use crate::process;

#[test]
fn root_is_found_by_name_and_by_id() {
    let root = by_name("root").unwrap().unwrap();
    assert_eq!(root.uid, 0);
    assert_eq!(by_uid(0).unwrap().unwrap().uid, 0);
    assert_eq!(nss::user_by_name("root").unwrap().unwrap(), root);
    assert_eq!(nss::user_by_uid(0).unwrap().unwrap().uid, 0);
    assert_eq!(groups_of(&root).unwrap()[0], root.gid);
    let group = group_by_gid(root.gid).unwrap().unwrap();
    assert_eq!(group_by_name(&group.name).unwrap().unwrap(), group);
    assert_eq!(nss::group_by_name(&group.name).unwrap().unwrap(), group);
    assert!(group_names_of(&root).unwrap().contains(&group.name));
}

#[test]
fn both_ways_agree_about_groups() {
    for name in ["root", "daemon", "nobody", "www-data"] {
        let Some(user) = by_name(name).unwrap() else {
            continue;
        };
        let mut ours = groups_of(&user).unwrap();
        let mut theirs = nss::groups_of(&user.name, user.gid).unwrap();
        ours.sort_unstable();
        theirs.sort_unstable();
        assert_eq!(ours, theirs, "{name}");
    }
}

#[test]
fn names_that_cannot_be_are_not_looked_up() {
    let long = "a".repeat(MAX_NAME_LEN + 1);
    for name in ["", "../x", "a:b", "a\nroot", "no\0pe", "a,b", &long] {
        assert_eq!(by_name(name).unwrap(), None);
        assert_eq!(group_by_name(name).unwrap(), None);
    }
    assert_eq!(by_name("no-such-user-here").unwrap(), None);
    assert_eq!(nss::user_by_name("no-such-user-here").unwrap(), None);
    assert_eq!(by_uid(4_000_000_001).unwrap(), None);
}

#[test]
fn passwd_lines_that_are_no_accounts_are_skipped() {
    let user = files::parse_user(b"ann:x:1000:100:Ann,,,:/home/ann:").unwrap();
    assert_eq!(user.shell, PathBuf::from("/bin/sh"));
    assert_eq!(user.gid, 100);
    for line in [
        &b""[..],
        b"+",
        b"+::::::",
        b"-ann:x:1:1::/:/bin/sh",
        b"ann:x:1000:100:Ann:/home/ann",
        b"ann:x:-1:100::/:/bin/sh",
        b"ann:x:+5:100::/:/bin/sh",
        b"ann:x:4294967295:100::/:/bin/sh",
        b"ann:x:4294967296:100::/:/bin/sh",
        b"ann:x::100::/:/bin/sh",
        b"\xff\xfe:x:1:1::/:/bin/sh",
        b"a:x:1:1::/:/bin/sh:extra",
    ] {
        assert_eq!(files::parse_user(line), None, "{line:?}");
    }
}

#[test]
fn groups_come_from_the_member_lists() {
    let path = std::env::temp_dir().join(format!("fulmar-sys-group-{}", std::process::id()));
    let long = "x".repeat((1 << 20) + 5);
    let text = format!(
        "one:x:1:bob\nbad line\ntwo:x:2:ann,bob\n{long}:x:9:ann\nthree:x:3:\nfour:x:4:ann\ntwo-again:x:2:ann\nlast:x:5:ann"
    );
    std::fs::write(&path, text).unwrap();
    let user = files::parse_user(b"ann:x:1000:100::/home/ann:/bin/sh").unwrap();
    let groups = files::groups_of(&path, &user).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(groups, [100, 2, 4, 5]);
}

#[test]
fn nsswitch_decides_whether_files_are_enough() {
    let text = "# comment\npasswd:  files systemd # x\ngroup: files\nshadow: files [NOTFOUND=return] nis\n\
                hosts: nis files\nbroken\nnetgroup:\n";
    let of = |database| files::Sources::parse(text, database);
    let both = |first, decide| {
        Some(files::Sources {
            files_first: first,
            files_decide: decide,
        })
    };
    assert_eq!(of("passwd"), both(true, false));
    assert_eq!(of("group"), both(true, true));
    assert_eq!(of("shadow"), both(false, false));
    assert_eq!(of("hosts"), both(false, false));
    assert_eq!(of("netgroup"), both(false, false));
    assert_eq!(of("broken"), None);
}

#[test]
fn a_name_is_its_own_line_and_no_longer_ones() {
    let path = std::env::temp_dir().join(format!("fulmar-sys-names-{}", std::process::id()));
    let text = "annette:x:1:1::/a:/bin/sh\nann\nann:x:-1:1::/b:/bin/sh\n+ann:x:4:4::/c:/bin/sh\n\
                ann:x:2:2::/d:/bin/sh\nann:x:3:3::/e:/bin/sh\n";
    std::fs::write(&path, text).unwrap();
    let uid = |name| Some(files::find_user_named(&path, name).unwrap()?.uid);
    let found = ["ann", "annette", "an", "", "+ann"].map(uid);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(found, [Some(2), Some(1), None, None, None]);
}

fn shadow(line: &str) -> Shadow {
    shadow::parse(line.as_bytes()).unwrap().1
}

#[test]
fn shadow_dates_are_judged() {
    let plain = shadow("ann:$6$x$y:20000:0:99999:7:::");
    assert_eq!(plain.state(20_100), PasswordState::Valid);
    let aging = shadow("ann:h:20000:0:30:7:10::");
    assert_eq!(aging.state(20_010), PasswordState::Valid);
    assert_eq!(
        aging.state(20_025),
        PasswordState::ExpiresIn {
            days: 5,
            account: false
        }
    );
    assert_eq!(aging.state(20_031), PasswordState::MustChange);
    assert_eq!(aging.state(20_041), PasswordState::PasswordInactive);
    assert_eq!(
        shadow("ann:h:0:0:99999:7:::").state(20_000),
        PasswordState::MustChange
    );
    let expiring = shadow("ann:h:20000:0:99999:7::20050:");
    assert_eq!(expiring.state(20_000), PasswordState::Valid);
    assert_eq!(
        expiring.state(20_049),
        PasswordState::ExpiresIn {
            days: 1,
            account: true
        }
    );
    assert_eq!(expiring.state(20_050), PasswordState::AccountExpired);
    let absurd = shadow("ann:h:9223372036854775807:0:9223372036854775807:7:5:9223372036854775807:");
    assert_eq!(absurd.state(20_000), PasswordState::Valid);
    assert_eq!(absurd.state(i64::MAX), PasswordState::AccountExpired);
}

#[test]
fn malformed_shadow_lines_are_skipped_and_debug_hides_the_hash() {
    assert!(shadow::parse(b"ann:h:1:2:3").is_none());
    assert!(shadow::parse(b":h:1:2:3:4:5:6:").is_none());
    let text = format!("{:?}", shadow("ann:topsecret:1:2:3:4:5:6:"));
    assert!(!text.contains("topsecret"));
    if process::is_root() {
        assert!(shadow::by_name("root").unwrap().is_some());
        assert!(shadow::by_name("no-such-user-here").unwrap().is_none());
    } else {
        eprintln!("skipped: reading /etc/shadow needs root");
    }
}

#[test]
fn password_hashes_match_the_right_password_only() {
    if let Err(error) = crypt::preload() {
        eprintln!("skipped: {error}");
        return;
    }
    // The published SHA-512 example of crypt(5).
    let stored = "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1";
    assert!(crypt::verify(b"Hello world!", stored).unwrap());
    assert!(!crypt::verify(b"Hello world", stored).unwrap());
    assert!(!crypt::verify(b"Hello world!\0", stored).unwrap());
    assert!(!crypt::verify(&[b'a'; crypt::MAX_PASSWORD_LEN + 1], stored).unwrap());
    for locked in ["", "!", "*", "!!", "*0", "x", "$", "$6$", "$99$unknown$x"] {
        assert!(!crypt::verify(b"", locked).unwrap(), "{locked}");
        assert!(
            !crypt::verify(locked.as_bytes(), locked).unwrap(),
            "{locked}"
        );
    }
}

#[test]
fn decoys_keep_the_method_and_match_nothing() {
    let like = "$y$j9T$salt$hash";
    assert_eq!(crypt::decoy_setting(Some(like)), "$y$j9T$salt$");
    for like in [None, Some(""), Some("!"), Some("*"), Some("abJnggxhB/yWI")] {
        let decoy = crypt::decoy_setting(like);
        assert!(decoy.starts_with("$6$"));
        if crypt::preload().is_ok() {
            assert!(crypt::hash(b"any", &decoy).is_ok());
            assert!(!crypt::verify(b"any", &decoy).unwrap());
        }
    }
}
