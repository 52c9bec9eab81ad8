//! Copies between two servers through this machine.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use interop::scratch::Scratch;
use interop::site::{scp, sftp_sites, there};

fn modified(path: &Path) -> SystemTime {
    fs::metadata(path).unwrap().modified().unwrap()
}

#[test]
fn directories_keep_their_times_and_modes() {
    use std::os::unix::fs::PermissionsExt;
    for (name, site) in sftp_sites() {
        let scratch = Scratch::new();
        let (from, to) = (scratch.join("from"), scratch.join("to"));
        fs::create_dir_all(from.join("in/deeper")).unwrap();
        fs::write(from.join("in/deeper/file"), "content").unwrap();
        let below = ["in/deeper", "in", "."];
        for (at, path) in (1..).zip(below) {
            let folder = from.join(path);
            let mode = fs::Permissions::from_mode(0o750 + at);
            fs::set_permissions(&folder, mode).unwrap();
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(5 + u64::from(at));
            fs::File::open(&folder).unwrap().set_modified(time).unwrap();
        }
        let outcome = scp(&site, &["-3", "-rp", &there(&from), &there(&to)]);
        assert_eq!(outcome.status, 0, "{name}: {}", outcome.summary());
        assert_eq!(fs::read(to.join("in/deeper/file")).unwrap(), b"content");
        for path in below {
            let (from, to) = (from.join(path), to.join(path));
            assert_eq!(modified(&to), modified(&from), "{name}: {path}");
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
            assert_eq!(mode(&to), mode(&from), "{name}: {path}");
        }
    }
}

#[test]
fn what_is_not_done_between_servers_is_refused_by_name() {
    let (_, site) = sftp_sites().remove(0);
    let scratch = Scratch::new();
    let (from, to) = (scratch.write("from", "content"), scratch.join("to"));
    for flag in ["--atomic", "-Z", "--sparse", "--verify"] {
        let outcome = scp(&site, &["-3", flag, &there(&from), &there(&to)]);
        assert_eq!(outcome.status, 1, "{}", outcome.summary());
        assert!(
            outcome.stderr.text().contains(flag),
            "{}",
            outcome.summary()
        );
        assert!(!to.exists());
    }
}

#[test]
fn a_source_that_is_not_there_ends_nothing_for_the_others() {
    for (name, site) in sftp_sites() {
        let scratch = Scratch::new();
        let [one, two] = ["one", "two"].map(|name| scratch.write(name, name));
        let to = scratch.join("to");
        fs::create_dir(&to).unwrap();
        let missing = scratch.join("missing").display().to_string();
        let [one, two] = [one, two].map(|path| path.display().to_string());
        let outcome = scp(&site, &[&one, &missing, &two, &there(&to)]);
        assert_eq!(outcome.status, 255, "{name}: {}", outcome.summary());
        assert!(outcome.stderr.text().contains("missing"), "{name}");
        for path in ["one", "two"] {
            assert_eq!(fs::read(to.join(path)).unwrap(), path.as_bytes(), "{name}");
        }
    }
}
