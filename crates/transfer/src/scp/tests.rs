use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use super::*;
use crate::scratch::Scratch;

#[derive(Default)]
struct Heard(Vec<String>);

impl Report for Heard {
    fn ends(&mut self, result: &FileResult) {
        if let Some(error) = &result.error {
            self.0.push(error.clone());
        }
    }
    fn fails(&mut self, line: &str) {
        self.0.push(line.to_owned());
    }
    fn says(&mut self, line: &str) {
        self.0.push(line.to_owned());
    }
}

/// What a receiver makes of `stream`: its result, what it answered, what it reported.
fn receive(target: &Path, terms: Terms, stream: &[u8]) -> (Result<(), OldError>, Vec<u8>, Heard) {
    let mut heard = Heard::default();
    let mut output = Vec::new();
    let mut input = stream;
    let result = Conversation::new(&mut input, &mut output, terms, &mut heard).receive(target);
    (result, output, heard)
}

#[test]
fn a_file_arrives_with_its_mode_and_time_and_without_setuid() {
    let place = Scratch::new();
    let terms = Terms {
        preserve: true,
        ..Terms::default()
    };
    let (result, output, _) = receive(
        &place,
        terms,
        b"T1000000000 0 1000000001 0\nC4755 5 a\nhello\0",
    );
    result.unwrap();
    assert_eq!(output, b"\0\0\0\0");
    let metadata = fs::metadata(place.join("a")).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o7777, 0o755);
    assert_eq!(metadata.mtime(), 1_000_000_000);
    assert_eq!(fs::read(place.join("a")).unwrap(), b"hello");
}

#[test]
fn names_that_lead_elsewhere_or_were_not_asked_for_write_nothing() {
    let place = Scratch::new();
    let inner = place.join("in");
    fs::create_dir(&inner).unwrap();
    for name in ["../x", "/tmp/x", "..", ".", "", "a/b", "a\x1b[2J"] {
        let stream = format!("C0644 1 {name}\nx\0");
        let (result, ..) = receive(&inner, Terms::default(), stream.as_bytes());
        assert!(matches!(result, Err(OldError::Protocol(_))), "{name:?}");
    }
    let terms = Terms {
        patterns: Some(Patterns::of(b"dir/a*")),
        ..Terms::default()
    };
    let (result, ..) = receive(&inner, terms.clone(), b"C0644 1 .bashrc\nx\0");
    assert!(result.is_err());
    let (result, ..) = receive(&inner, Terms::default(), b"D0755 0 d\nC0644 1 x\nx\0E\n");
    assert!(result.is_err(), "a directory without -r");
    assert_eq!(fs::read_dir(&inner).unwrap().count(), 0);
    assert_eq!(fs::read_dir(&place).unwrap().count(), 1);
    let (result, ..) = receive(&inner, terms, b"C0644 1 ab\nx\0");
    result.unwrap();
    fs::remove_file(inner.join("ab")).unwrap();
    // What the shell there reads otherwise than a pattern.
    for path in ["'a b'", "a b", "$x", "`x`", "~", "d/\"$x\"", "."] {
        let terms = Terms {
            patterns: Some(Patterns::of(path.as_bytes())),
            recursive: true,
            ..Terms::default()
        };
        let stream = b"D0700 0 .ssh\nC0600 1 authorized_keys\nx\0E\n";
        let (result, ..) = receive(&inner, terms, stream);
        assert!(matches!(result, Err(OldError::Protocol(_))), "{path}");
        assert_eq!(fs::read_dir(&inner).unwrap().count(), 0, "{path}");
    }
}

#[test]
fn a_stream_that_ends_early_leaves_a_prefix() {
    let place = Scratch::new();
    let (result, ..) = receive(&place, Terms::default(), b"C0644 10 a\nhello");
    assert!(matches!(result, Err(OldError::Lost)));
    assert_eq!(fs::read(place.join("a")).unwrap(), b"hello");
    // The sender says that what it sent is not the file.
    let (result, _, heard) = receive(
        &place,
        Terms::default(),
        b"C0644 5 b\n\0\0\0\0\0\x01scp: b: gone\n",
    );
    result.unwrap();
    assert_eq!(fs::read(place.join("b")).unwrap(), b"");
    assert_eq!(heard.0, ["scp: b: gone"]);
}

#[test]
fn what_is_no_record_ends_the_conversation() {
    let place = Scratch::new();
    for stream in [
        b"\n".as_slice(),
        b"C644 1 a\n",
        b"C0644 -1 a\n",
        b"C0644 99999999999999999999 a\n",
        b"T1 2 3\n",
        b"T1 9999999 3 0\n",
        b"E\n",
        b"hello\n",
        &[b'C'; 20_000],
    ] {
        let (result, ..) = receive(&place, Terms::default(), stream);
        assert!(result.is_err(), "{:?}", String::from_utf8_lossy(stream));
    }
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
}

#[test]
fn a_tree_goes_through_both_roles() {
    let place = Scratch::new();
    let from = place.join("from");
    fs::create_dir_all(from.join("d/e")).unwrap();
    fs::write(from.join("d/e/x"), vec![7; 300_000]).unwrap();
    fs::write(from.join("y"), "").unwrap();
    let to = place.join("to");
    let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
    let terms = Terms {
        recursive: true,
        preserve: true,
        ..Terms::default()
    };
    let their_terms = terms.clone();
    let their_target = to.clone();
    let thread = std::thread::spawn(move || {
        let mut heard = Heard::default();
        let mut input = std::io::BufReader::new(far.try_clone().unwrap());
        let mut output = far;
        Conversation::new(&mut input, &mut output, their_terms, &mut heard)
            .receive(&their_target)
            .unwrap();
        heard.0
    });
    let mut heard = Heard::default();
    {
        let mut input = std::io::BufReader::new(near.try_clone().unwrap());
        let mut output = near;
        let mut sender = Conversation::new(&mut input, &mut output, terms, &mut heard);
        assert!(sender.begin_sending().unwrap());
        sender.send(&[&from]).unwrap();
        assert_eq!(sender.failures(), 0);
    }
    assert!(thread.join().unwrap().is_empty() && heard.0.is_empty());
    assert_eq!(fs::read(to.join("d/e/x")).unwrap(), vec![7; 300_000]);
    assert_eq!(fs::read(to.join("y")).unwrap(), b"");
}
