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
    assert!(parse(&words(&["--port", "0"])).is_err());
    assert!(parse(&words(&["--prefix", "relative"])).is_err());
    assert!(parse(&words(&["--prefix"])).is_err());
    assert!(parse(&words(&["please"])).is_err());
}
