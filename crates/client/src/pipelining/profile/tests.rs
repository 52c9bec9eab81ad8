use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::{ServerProfile, file};

fn profile(version: &str) -> ServerProfile {
    ServerProfile {
        version: version.into(),
        offer: "SHA256:abc".into(),
        kex: Some("curve25519-sha256".into()),
        host_key: Some("ssh-ed25519".into()),
        signature_algorithms: Some(vec!["ssh-ed25519".into(), "rsa-sha2-512".into()]),
        key: Some("SHA256:key".into()),
        suite: Some("aes128-ctr+hmac-sha2-256".into()),
        short_kexinit: true,
        careful: false,
    }
}

fn find(text: &str, name: &str) -> Option<ServerProfile> {
    file::find(text, |field| file::is_about(field, name))
}

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("fulmar-logins-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join(file::NAME)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_was_stored_is_found_by_its_name_alone() {
    let scratch = Scratch::new("found");
    for hash in [false, true] {
        let (one, two) = (profile("SSH-2.0-One 1 (a b)"), profile("SSH-2.0-Two"));
        file::store(&scratch.file(), "ann@[one]:22022", &one, hash).unwrap();
        file::store(&scratch.file(), "ann@two", &two, hash).unwrap();
        let text = file::read(&scratch.file()).unwrap();
        assert_eq!(text.contains("ann@"), !hash, "{text}");
        assert_eq!(find(&text, "ann@[one]:22022"), Some(one));
        assert_eq!(find(&text, "ann@two"), Some(two));
        assert_eq!(find(&text, "bob@two"), None);
        assert_eq!(find(&text, "ann@one"), None);
        fs::remove_file(scratch.file()).unwrap();
    }
}

#[test]
fn a_newer_entry_takes_the_place_of_the_older_and_the_file_is_private() {
    let scratch = Scratch::new("newer");
    for version in ["SSH-2.0-old", "SSH-2.0-new"] {
        file::store(&scratch.file(), "a@h", &profile(version), true).unwrap();
    }
    let text = file::read(&scratch.file()).unwrap();
    assert_eq!(text.lines().count(), 2, "{text}");
    assert_eq!(find(&text, "a@h").unwrap().version, "SSH-2.0-new");
    let mode = fs::metadata(scratch.file()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn the_oldest_are_forgotten() {
    let mut text = String::new();
    for number in 0..300 {
        let name = format!("a@h{number}");
        let line = file::line(&name, &profile("v"), false).unwrap();
        text = file::with(&text, &name, &line);
    }
    assert_eq!(text.lines().count(), 257);
    assert_eq!(find(&text, "a@h43"), None);
    assert!(find(&text, "a@h44").is_some());
    assert!(find(&text, "a@h299").is_some());
}

#[test]
fn damage_is_passed_over_and_goes_with_the_next_change() {
    let good = file::line("a@h", &profile("SSH-2.0-x"), false).unwrap();
    let long = "a@h ".to_owned() + &"x".repeat(5000);
    for damage in [
        "a@h",
        "a@h ",
        "a@h a b c",
        "a@h a b c d e f g h i",
        "a@h  - - - - - - - v",
        "\u{0}\u{0}\u{0} ",
        long.as_str(),
    ] {
        assert_eq!(find(damage, "a@h"), None, "{damage}");
        let text = format!("{damage}\n{good}{damage}");
        let after = file::with(&text, "b@h", "b@h new\n");
        assert!(after.contains(&good), "{damage}");
        assert!(
            !after.lines().any(|line| line == damage),
            "{damage}: {after}"
        );
    }
}

#[test]
fn what_others_may_write_is_not_read() {
    let scratch = Scratch::new("others");
    file::store(&scratch.file(), "a@h", &profile("v"), false).unwrap();
    for mode in [0o620, 0o602, 0o666] {
        fs::set_permissions(scratch.file(), fs::Permissions::from_mode(mode)).unwrap();
        assert!(file::read(&scratch.file()).is_err(), "{mode:o}");
    }
    fs::remove_file(scratch.file()).unwrap();
    let elsewhere = scratch.0.join("elsewhere");
    fs::write(&elsewhere, "").unwrap();
    std::os::unix::fs::symlink(&elsewhere, scratch.file()).unwrap();
    assert!(file::read(&scratch.file()).is_err());
    fs::remove_file(scratch.file()).unwrap();
    fs::create_dir(scratch.file()).unwrap();
    assert!(file::read(&scratch.file()).is_err());
}

#[test]
fn words_that_would_break_the_line_are_not_stored() {
    let mut bad = profile("SSH-2.0-x\ny");
    assert_eq!(file::line("a@h", &bad, false), None);
    bad = profile("SSH-2.0-x");
    bad.kex = Some("two words".into());
    assert_eq!(file::line("a@h", &bad, false), None);
    bad.kex = None;
    bad.signature_algorithms = Some(vec!["x".repeat(3000)]);
    assert_eq!(file::line("a@h", &bad, false), None);
}

#[test]
fn what_does_not_fit_is_an_error_and_leaves_the_file_alone() {
    let scratch = Scratch::new("fit");
    let mut long = profile("SSH-2.0-x");
    long.signature_algorithms = Some(vec!["x".repeat(3000)]);
    let refused = file::store(&scratch.file(), "a@h", &long, false).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::InvalidData);
    assert!(refused.to_string().contains("does not fit"), "{refused}");
    assert!(!scratch.file().exists());
    // The flag that forbids pipelining always fits.
    long.careful = true;
    file::store(&scratch.file(), "a@h", &long, false).unwrap();
    let kept = find(&file::read(&scratch.file()).unwrap(), "a@h").unwrap();
    assert!(kept.careful);
    assert_eq!(kept.version, "SSH-2.0-x");
    assert_eq!((kept.signature_algorithms, kept.key), (None, None));
    assert!(!kept.short_kexinit);
}
