//! Revocation lists.

use super::*;

#[test]
fn a_revoked_key_or_authority_is_out_and_an_unreadable_list_refuses_all() {
    let home = Home::new();
    home.authorized(&format!(
        "{}\ncert-authority {}\n",
        line(&key(1)),
        line(&key(9))
    ));
    let list = home.write("revoked", &line(&key(1)));
    let config = format!("RevokedKeys {list}");
    assert!(home.ask_key("", &key(1)).is_some());
    assert!(home.ask_key(&config, &key(1)).is_none());
    let ada = certificate(&fields(&["ada"]));
    assert!(home.ask_certificate("", &ada).is_some());
    assert!(home.ask_certificate(&config, &ada).is_none());
    home.write("revoked", &line(&key(9)));
    assert!(home.ask_key(&config, &key(1)).is_some());
    assert!(home.ask_certificate(&config, &ada).is_none());
    assert!(
        home.ask_key("RevokedKeys /nonexistent/list", &key(1))
            .is_none()
    );
    // /dev/null is an empty list and has no effect on the lists after it.
    assert!(home.ask_key("RevokedKeys /dev/null", &key(1)).is_some());
    home.write("revoked", &line(&key(1)));
    let link = home.directory.path().join("none");
    std::os::unix::fs::symlink("/dev/null", &link).unwrap();
    let config = format!("RevokedKeys {}", link.display());
    assert!(home.ask_key(&config, &key(1)).is_some());
    let config = format!("RevokedKeys {list}");
    assert!(home.ask_key(&config, &key(1)).is_none());
    let config = format!("RevokedKeys /dev/null {list}");
    assert!(home.ask_key(&config, &key(1)).is_none());
}

#[test]
fn a_revocation_list_is_parsed_once_and_again_when_its_file_changes() {
    let home = Home::new();
    home.authorized(&line(&key(1)));
    let lists = [home.write("one", "# none\n"), home.write("two", "# none\n")];
    let config = format!("RevokedKeys {} {}", lists[0], lists[1]);
    let times_read = |path: &str| {
        let text = format!("reading revocation list {path}");
        let lines = home.log.lines();
        lines.iter().filter(|line| line.ends_with(&text)).count()
    };
    for _ in 0..5 {
        assert!(home.ask_key(&config, &key(1)).is_some());
    }
    assert_eq!((times_read(&lists[0]), times_read(&lists[1])), (1, 1));
    // The second file is as effective as the first.
    home.write("two", &line(&key(1)));
    assert!(home.ask_key(&config, &key(1)).is_none());
    assert_eq!((times_read(&lists[0]), times_read(&lists[1])), (1, 2));
    // Replaced by one of the same length and time.
    let time = std::fs::metadata(&lists[1]).unwrap().modified().unwrap();
    let other = home.write("other", &line(&key(2)));
    let file = std::fs::File::options().write(true).open(&other).unwrap();
    file.set_modified(time).unwrap();
    std::fs::rename(&other, &lists[1]).unwrap();
    assert!(home.ask_key(&config, &key(1)).is_some());
    // Both files must be readable.
    std::fs::remove_file(&lists[0]).unwrap();
    assert!(home.ask_key(&config, &key(1)).is_none());
}

#[test]
fn a_revocation_list_that_cannot_be_used_refuses_all_and_says_why() {
    let home = Home::new();
    home.authorized(&line(&key(1)));
    let list = home.write("revoked", "");
    let file = std::fs::File::options().write(true).open(&list).unwrap();
    // Sparse files: one larger than a former limit, one larger than the limit now.
    for (size, reason) in [
        (17 << 20, "line 1"),
        (keys::krl::MAX_FILE_BYTES + 1, "larger than 256 MiB"),
    ] {
        file.set_len(size).unwrap();
        let config = format!("RevokedKeys {list}");
        assert!(home.ask_key(&config, &key(1)).is_none());
        let lines = home.log.lines();
        let said = lines.iter().rfind(|line| line.contains("RevokedKeys"));
        assert!(said.unwrap().contains(reason), "{said:?}");
    }
}
