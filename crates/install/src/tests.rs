use super::*;

fn words(list: &[&str]) -> Vec<OsString> {
    list.iter().map(OsString::from).collect()
}

fn staged(name: &str) -> PathBuf {
    let random: [u8; 8] = crypto::random::bytes();
    let root = std::env::temp_dir().join(format!(
        "fulmar-install-{name}-{:016x}",
        u64::from_le_bytes(random)
    ));
    fs::create_dir_all(&root).unwrap();
    root
}

fn files_below(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if fs::symlink_metadata(&path).unwrap().is_dir() {
                open.push(path);
            } else {
                found.push(path.strip_prefix(root).unwrap().to_path_buf());
            }
        }
    }
    found.sort();
    found
}

#[test]
fn what_was_installed_is_taken_away_and_nothing_else() {
    let root = staged("round");
    fs::create_dir_all(root.join("etc/pam.d")).unwrap();
    fs::write(root.join("etc/pam.d/common-auth"), "").unwrap();
    let arguments = |extra: &[&str]| {
        let mut list = words(&["--root"]);
        list.push(root.clone().into_os_string());
        list.extend(words(extra));
        list
    };
    assert_eq!(run(arguments(&[])), 0);
    let files = files_below(&root);
    for expected in [
        "usr/local/bin/fulmar",
        "usr/local/lib/fulmar/bin/ssh",
        "etc/fulmar/sshd_config",
        "etc/fulmar/ssh_host_ed25519_key",
        "etc/pam.d/fulmar",
        "etc/systemd/system/fulmar-sshd.service",
        "usr/local/share/man/man1/fulmar.1",
        "usr/local/share/man/man8/fulmar-sshd.8",
        "usr/local/share/bash-completion/completions/fulmar",
        "usr/local/share/zsh/site-functions/_fulmar",
        "usr/local/share/fish/vendor_completions.d/fulmar.fish",
    ] {
        assert!(
            files.contains(&PathBuf::from(expected)),
            "{expected} is missing in {files:?}"
        );
    }
    let key = root.join("etc/fulmar/ssh_host_ed25519_key");
    assert_eq!(
        fs::metadata(&key).unwrap().permissions().mode() & 0o777,
        0o600
    );
    // A second installation keeps the host key; a changed configuration is kept on removal.
    let before = fs::read(&key).unwrap();
    assert_eq!(run(arguments(&[])), 0);
    assert_eq!(fs::read(&key).unwrap(), before);
    fs::write(root.join("etc/fulmar/sshd_config"), "Port 1\n").unwrap();
    assert_eq!(run(arguments(&["--remove"])), 0);
    let left = files_below(&root);
    assert!(left.contains(&PathBuf::from("etc/fulmar/sshd_config")));
    assert!(left.contains(&PathBuf::from("etc/pam.d/common-auth")));
    assert!(!left.iter().any(|path| path.starts_with("usr")), "{left:?}");
    // Files of the first installation are removed, too, and directories that were made, except one
    // that is in use.
    assert!(!key.exists() && !root.join("usr").exists());
    assert!(root.join("etc/fulmar").exists() && !root.join("etc/systemd").exists());
    fs::remove_dir_all(&root).unwrap();
}

#[cfg(feature = "bench")]
#[test]
fn every_page_and_completion_of_the_workspace_is_installed_as_it_is() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = 0;
    for folder in ["man", "completion"] {
        for entry in fs::read_dir(workspace.join(folder)).unwrap() {
            let text = fs::read_to_string(entry.unwrap().path()).unwrap();
            let times = files::SHARED.iter().filter(|(_, known)| *known == text);
            assert_eq!(times.count(), 1);
            found += 1;
        }
    }
    assert_eq!(files::SHARED.len(), found);
}

#[cfg(not(feature = "bench"))]
#[test]
fn pages_and_completions_leave_out_the_programs_that_the_build_lacks() {
    for (path, text) in files::SHARED {
        // Whole words: "speeds" is one of the language.
        let words = text.split(|character: char| !character.is_ascii_alphabetic());
        let commands = words.filter(|word| ["bench", "demo", "speed"].contains(word));
        assert_eq!(commands.count(), 0, "{path}");
    }
    let pages = files::SHARED.iter().map(|(path, _)| *path);
    let pages: Vec<&str> = pages.filter(|path| path.contains("/man/")).collect();
    assert!(
        pages.contains(&"share/man/man1/fulmar-tools.1"),
        "{pages:?}"
    );
    assert!(
        !pages.contains(&"share/man/man1/fulmar-bench.1"),
        "{pages:?}"
    );
}

#[test]
fn directories_that_were_there_stay_and_what_stands_in_others_too() {
    let root = staged("directories");
    let pages = root.join("usr/local/share/man");
    fs::create_dir_all(&pages).unwrap();
    let arguments = words(&["--root", root.to_str().unwrap()]);
    assert_eq!(run(arguments.clone()), 0);
    let other = pages.join("man1/other.1");
    fs::write(&other, "").unwrap();
    let page = pages.join("man1/fulmar.1");
    fs::write(pages.join("man8/fulmar-sshd.8"), "edited").unwrap();
    assert!(page.exists());
    let remove = [arguments, words(&["--remove"])].concat();
    assert_eq!(run(remove), 0);
    assert!(other.exists() && !page.exists());
    assert!(pages.join("man8/fulmar-sshd.8").exists() && !pages.join("man5").exists());
    assert!(!root.join("usr/local/bin").exists() && !root.join("usr/local/lib").exists());
    fs::remove_dir_all(&root).unwrap();
}

#[test]
fn a_removal_where_nothing_was_installed_says_so() {
    let root = staged("empty");
    assert_eq!(
        run(words(&["--remove", "--root", root.to_str().unwrap()])),
        1
    );
    fs::remove_dir_all(&root).unwrap();
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    assert!(parse(words(&["--port", "0"])).is_err());
    assert!(parse(words(&["--prefix", "relative"])).is_err());
    assert!(parse(words(&["--prefix"])).is_err());
    assert!(parse(words(&["please"])).is_err());
}

#[test]
fn the_stack_is_the_one_that_is_told_or_there_and_a_second_time_changes_nothing() {
    let root = staged("stack");
    let arguments = |extra: &[&str]| {
        let mut list = words(&["--root"]);
        list.push(root.clone().into_os_string());
        list.extend(words(extra));
        list
    };
    let stack = || fs::read_to_string(root.join("etc/pam.d/fulmar")).unwrap();
    for (name, part) in [
        ("debian", "@include common-auth"),
        ("redhat", "auth substack password-auth"),
        ("arch", "auth include system-remote-login"),
    ] {
        assert_eq!(run(arguments(&["--pam", name])), 0);
        assert!(stack().contains(part), "{name}: {}", stack());
    }
    assert_eq!(run(arguments(&["--pam", "solaris"])), 2);
    // Without --pam, the stack that exists; an unchanged file is not written again.
    fs::write(root.join("etc/pam.d/password-auth"), "").unwrap();
    assert_eq!(run(arguments(&[])), 0);
    assert!(stack().contains("auth substack password-auth"));
    let written = || {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(root.join("etc/pam.d/fulmar")).unwrap().ino()
    };
    let before = written();
    assert_eq!(run(arguments(&[])), 0);
    assert_eq!(written(), before);
    // A changed file that is kept is still in the manifest.
    fs::write(root.join("etc/fulmar/sshd_config"), "# mine\n").unwrap();
    assert_eq!(run(arguments(&[])), 0);
    let manifest = fs::read_to_string(root.join("usr/local/lib/fulmar/manifest")).unwrap();
    assert!(
        manifest.contains("  /etc/fulmar/sshd_config\n"),
        "{manifest}"
    );
    fs::remove_dir_all(&root).unwrap();
}

#[test]
fn what_takes_it_away_is_named_with_its_places() {
    let settings = InstallSettings {
        prefix: "/opt/f".into(),
        root: "/tmp/r".into(),
        ..InstallSettings::default()
    };
    let plan = InstallPlan { files: Vec::new() };
    let advice = plan.advice(&settings);
    assert!(advice.ends_with("fulmar install --remove --prefix /opt/f --root /tmp/r"));
    assert!(!advice.contains("systemctl"), "{advice}");
    let advice = plan.advice(&InstallSettings::default());
    assert!(advice.contains("systemctl") && advice.ends_with("fulmar install --remove"));
}

#[test]
fn the_files_of_a_package_have_no_key_and_lead_nowhere_else() {
    let root = staged("package");
    let package = words(&[
        "--package",
        "--prefix",
        "/usr",
        "--root",
        root.to_str().unwrap(),
    ]);
    assert_eq!(run(package), 0);
    let files = files_below(&root);
    for expected in [
        "etc/fulmar/sshd_config",
        "usr/lib/systemd/system/fulmar-sshd.service",
        "usr/lib/systemd/system/fulmar-sshd.socket",
        "usr/lib/systemd/system/fulmar-sshd@.service",
        "usr/lib/systemd/user/fulmar-agent.socket",
        "usr/lib/sysusers.d/fulmar.conf",
        "usr/lib/tmpfiles.d/fulmar.conf",
    ] {
        assert!(
            files.contains(&PathBuf::from(expected)),
            "{expected}: {files:?}"
        );
    }
    let stays_out =
        |path: &&PathBuf| path.ends_with("manifest") || path.to_string_lossy().contains("_key");
    assert_eq!(files.iter().filter(stays_out).count(), 0, "{files:?}");
    let link = fs::canonicalize(root.join("usr/lib/fulmar/bin/ssh")).unwrap();
    assert_eq!(link, fs::canonicalize(root.join("usr/bin/fulmar")).unwrap());
    fs::remove_dir_all(&root).unwrap();
    assert_eq!(run(words(&["--package"])), 1);
}

#[test]
fn keysign_is_renewed_with_the_rest_and_keeps_its_mode() {
    let root = staged("keysign");
    let arguments = |extra: &[&str]| {
        let mut list = words(&["--root"]);
        list.push(root.clone().into_os_string());
        list.extend(words(extra));
        list
    };
    let keysign = root.join("usr/local/lib/fulmar/ssh-keysign");
    assert_eq!(run(arguments(&[])), 0);
    assert!(!keysign.exists());
    assert_eq!(run(arguments(&["--keysign"])), 0);
    let mode = || fs::metadata(&keysign).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(), 0o4755);
    // An earlier version, whose mode the administrator has changed.
    fs::write(&keysign, "old").unwrap();
    fs::set_permissions(&keysign, fs::Permissions::from_mode(0o4750)).unwrap();
    assert_eq!(run(arguments(&[])), 0);
    assert_eq!(mode(), 0o4750);
    let binary = fs::read(root.join("usr/local/bin/fulmar")).unwrap();
    assert!(fs::read(&keysign).unwrap() == binary);
    assert_eq!(run(arguments(&["--remove"])), 0);
    assert!(!keysign.exists());
    fs::remove_dir_all(&root).unwrap();
}

#[test]
fn units_that_exclude_each_other_have_an_order() {
    for replace_sshd in [false, true] {
        let settings = InstallSettings {
            replace_sshd,
            ..InstallSettings::default()
        };
        let mut excluded = 0;
        for (path, text) in files::units(&settings, Path::new("/usr/bin/fulmar")) {
            let of = |key: &str| {
                let lines = text.lines().filter_map(|line| line.strip_prefix(key));
                lines.flat_map(|line| line.split(' ')).collect::<Vec<_>>()
            };
            let ordered = [of("Before="), of("After=")].concat();
            for other in of("Conflicts=") {
                assert!(ordered.contains(&other), "{}: {other}", path.display());
                excluded += 1;
            }
        }
        // The socket excludes the service; in OpenSSH's place both exclude its two units by two names.
        assert_eq!(excluded, if replace_sshd { 9 } else { 1 });
    }
}

#[test]
fn units_of_openssh_are_named_if_the_next_start_of_the_machine_would_start_them() {
    let root = staged("enabled");
    let settings = InstallSettings {
        root: root.clone(),
        ..InstallSettings::default()
    };
    assert!(files::enabled_openssh_units(&settings).is_empty());
    for (target, unit) in [("multi-user", "ssh.service"), ("sockets", "sshd.socket")] {
        let folder = root.join(format!("etc/systemd/system/{target}.target.wants"));
        fs::create_dir_all(&folder).unwrap();
        std::os::unix::fs::symlink("/nonexistent", folder.join(unit)).unwrap();
    }
    assert_eq!(
        files::enabled_openssh_units(&settings),
        ["ssh.service", "sshd.socket"]
    );
    fs::remove_dir_all(&root).unwrap();
}

#[test]
fn a_service_in_openssh_s_place_is_known_at_the_removal() {
    let root = staged("place");
    let settings = InstallSettings {
        root: root.clone(),
        ..InstallSettings::default()
    };
    for (flags, expected) in [(&["--replace-sshd"][..], true), (&[], false)] {
        let mut list = words(&["--root"]);
        list.push(root.clone().into_os_string());
        list.extend(words(flags));
        assert_eq!(run(list), 0);
        let manifest = Manifest::load(&settings.manifest_path()).unwrap();
        assert_eq!(excludes_openssh(&manifest, &settings), expected);
    }
    fs::remove_dir_all(&root).unwrap();
}
