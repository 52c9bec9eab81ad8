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

/// Runs a receiver on `stream`; returns its result, its answers and its reports.
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
    for name in ["../x", "/tmp/x", "..", ".", "", "a/b", "a\0b"] {
        let stream = format!("C0644 1 {name}\nx\0");
        let (result, ..) = receive(&inner, Terms::default(), stream.as_bytes());
        assert!(matches!(result, Err(OldError::Protocol(_))), "{name:?}");
    }
    let terms = Terms {
        patterns: Some(Patterns::of(b"dir/a*", true)),
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
    // Names that the shell there expands otherwise than as a pattern.
    for path in ["'a b'", "a b", "$x", "`x`", "~", "d/\"$x\"", "."] {
        let terms = Terms {
            patterns: Some(Patterns::of(path.as_bytes(), true)),
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
    // The sender reports that the sent content is not the file's.
    let (result, _, heard) = receive(
        &place,
        Terms::default(),
        b"C0644 5 b\n\0\0\0\0\0\x01scp: b: gone\n",
    );
    result.unwrap();
    assert_eq!(fs::read(place.join("b")).unwrap(), b"");
    assert_eq!(heard.0, ["b: gone"]);
}

#[test]
fn a_file_that_its_sender_gives_up_is_answered_and_keeps_what_came() {
    let place = Scratch::new();
    let stream = b"C0644 8 a\none\0\0\0\0\0\x01scp: a: gone\nC0644 1 b\nx\0";
    let (result, output, heard) = receive(&place, Terms::default(), stream);
    result.unwrap();
    // One answer at the beginning, and two per file: without the second for `a` its sender would
    // wait forever.
    assert_eq!(output, b"\0\0\0\0\0");
    assert_eq!(heard.0, ["a: gone"]);
    assert_eq!(fs::read(place.join("a")).unwrap(), b"one");
    assert_eq!(fs::read(place.join("b")).unwrap(), b"x");
    // The existing file may be the sender's own: it is not truncated.
    fs::write(place.join("c"), b"longer than what comes").unwrap();
    let stream = b"C0644 8 c\nLONGER t\x01scp: c: gone\n";
    receive(&place, Terms::default(), stream).0.unwrap();
    let there = fs::read(place.join("c")).unwrap();
    assert_eq!(there, b"LONGER than what comes");
    // Nor if the connection ends.
    let (result, ..) = receive(&place, Terms::default(), b"C0644 8 c\nlo");
    assert!(matches!(result, Err(OldError::Lost)));
    let there = fs::read(place.join("c")).unwrap();
    assert_eq!(there, b"loNGER than what comes");
    // A complete file truncates a longer one.
    receive(&place, Terms::default(), b"C0644 2 c\nab\0")
        .0
        .unwrap();
    assert_eq!(fs::read(place.join("c")).unwrap(), b"ab");
}

/// Copies with both roles in this process; returns the reports of each. Only the sender gets the
/// rate limit of `terms`.
fn copy(from: &Path, to: &Path, terms: &Terms, heard: &mut dyn Report) -> [Vec<String>; 2] {
    let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
    let their_terms = Terms {
        limit_bytes: 0,
        ..terms.clone()
    };
    let their_target = to.to_path_buf();
    let thread = std::thread::spawn(move || {
        let mut heard = Heard::default();
        let mut input = std::io::BufReader::new(far.try_clone().unwrap());
        let mut output = far;
        Conversation::new(&mut input, &mut output, their_terms, &mut heard)
            .receive(&their_target)
            .unwrap();
        heard.0
    });
    let mut ours = Both(Heard::default(), heard);
    {
        let mut input = std::io::BufReader::new(near.try_clone().unwrap());
        let mut output = near;
        let mut sender = Conversation::new(&mut input, &mut output, terms.clone(), &mut ours);
        assert!(sender.begin_sending().unwrap());
        sender.send(&[from]).unwrap();
    }
    [ours.0.0, thread.join().unwrap()]
}

/// Records the reports, and passes on the progress of a file.
struct Both<'r>(Heard, &'r mut dyn Report);

impl Report for Both<'_> {
    fn moved(&mut self, file: usize, bytes: u64) {
        self.1.moved(file, bytes);
    }
    fn ends(&mut self, result: &FileResult) {
        self.0.ends(result);
    }
    fn fails(&mut self, line: &str) {
        self.0.fails(line);
    }
    fn says(&mut self, line: &str) {
        self.0.says(line);
    }
}

#[test]
fn a_file_copied_onto_itself_stays_and_is_no_failure() {
    let place = Scratch::new();
    let file = place.join("file");
    // More than both ends buffer.
    let content: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    fs::write(&file, &content).unwrap();
    let link = place.join("link");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let hard = place.join("hard");
    fs::hard_link(&file, &hard).unwrap();
    for preserve in [false, true] {
        let terms = Terms {
            preserve,
            ..Terms::default()
        };
        for to in [&file, &link, &hard, &place.to_path_buf()] {
            let said = copy(&file, to, &terms, &mut Heard::default());
            assert_eq!(said, [Vec::<String>::new(), Vec::new()], "{to:?}");
            assert!(fs::read(&file).unwrap() == content, "{to:?}");
        }
    }
}

/// Changes the length of a file once a part of it has moved.
struct Changes<'p> {
    path: &'p Path,
    len: Option<u64>,
}

impl Report for Changes<'_> {
    fn moved(&mut self, _file: usize, _bytes: u64) {
        if let Some(len) = self.len.take() {
            let file = fs::OpenOptions::new().write(true).open(self.path);
            file.unwrap().set_len(len).unwrap();
        }
    }
    fn ends(&mut self, _result: &FileResult) {}
    fn fails(&mut self, _line: &str) {}
    fn says(&mut self, _line: &str) {}
}

#[test]
fn a_source_that_shrinks_or_grows_is_reported_and_ends() {
    let place = Scratch::new();
    let (from, to) = (place.join("from"), place.join("to"));
    let content = vec![b'x'; 2_000_000];
    for (len, kept) in [(1_000_000, 1_000_000), (2_000_001, 2_000_000)] {
        fs::write(&from, &content).unwrap();
        let _ = fs::remove_file(&to);
        let mut changes = Changes {
            path: &from,
            len: Some(len),
        };
        let [ours, theirs] = copy(&from, &to, &Terms::default(), &mut changes);
        for said in [&ours, &theirs] {
            assert!(
                matches!(said.as_slice(), [line] if line.contains("file changed while")),
                "{said:?}"
            );
        }
        assert!(fs::read(&to).unwrap() == vec![b'x'; kept], "{len}");
    }
}

#[test]
fn a_file_without_a_length_is_sent_with_what_it_holds() {
    let place = Scratch::new();
    let to = place.join("to");
    let from = Path::new("/proc/version");
    let said = copy(from, &to, &Terms::default(), &mut Heard::default());
    assert_eq!(said, [Vec::<String>::new(), Vec::new()]);
    let there = fs::read(&to).unwrap();
    assert!(!there.is_empty() && there == fs::read(from).unwrap());
}

#[test]
fn content_that_is_there_is_compared_and_the_first_difference_written() {
    let place = Scratch::new();
    let file = place.join("file");
    for (there, comes) in [("aaaa", "aaab"), ("aaaa", "baaa"), ("abcd", "abcd")] {
        fs::write(&file, there).unwrap();
        let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        fs::File::options()
            .write(true)
            .open(&file)
            .unwrap()
            .set_modified(old)
            .unwrap();
        let stream = format!("C0644 4 file\n{comes}\0");
        receive(&place, Terms::default(), stream.as_bytes())
            .0
            .unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), comes);
        // The file gets a new time even if nothing differs.
        assert!(fs::metadata(&file).unwrap().mtime() > 1_000_000);
    }
    // A file that can be written but not read.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o200)).unwrap();
    receive(&place, Terms::default(), b"C0644 4 file\nwxyz\0")
        .0
        .unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"wxyz");
}

#[test]
fn modes_without_a_right_to_write_are_kept() {
    let place = Scratch::new();
    for preserve in [false, true] {
        for mode in [0o400, 0o444, 0o555, 0o600, 0o000] {
            let terms = Terms {
                preserve,
                ..Terms::default()
            };
            let name = format!("m{mode:o}{preserve}");
            let stream = format!("C{mode:04o} 1 {name}\nx\0");
            receive(&place, terms, stream.as_bytes()).0.unwrap();
            let there = fs::metadata(place.join(&name)).unwrap();
            let kept = there.permissions().mode() & 0o7777;
            match preserve {
                true => assert_eq!(kept, mode, "{mode:o}"),
                false => {
                    assert_eq!(kept & !mode, 0, "{mode:o} came as {kept:o}");
                    // The umask of the test's user leaves the owner's bits.
                    assert_eq!(kept & 0o700, mode & 0o700, "{mode:o}");
                }
            }
        }
    }
    // An existing file keeps its mode without -p.
    fs::set_permissions(place.join("m600false"), fs::Permissions::from_mode(0o640)).unwrap();
    receive(&place, Terms::default(), b"C0400 1 m600false\nx\0")
        .0
        .unwrap();
    let there = fs::metadata(place.join("m600false")).unwrap();
    assert_eq!(there.permissions().mode() & 0o7777, 0o640);
}

#[test]
fn what_is_sent_of_modes_and_names_is_what_openssh_sends() {
    let place = Scratch::new();
    let sent = |name: &[u8]| {
        use std::os::unix::ffi::OsStrExt;
        let path = place.join(std::ffi::OsStr::from_bytes(name));
        fs::write(&path, b"").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o7755)).unwrap();
        let mut heard = Heard::default();
        let mut output = Vec::new();
        let mut input = b"\0\0\0".as_slice();
        let mut sender = Conversation::new(&mut input, &mut output, Terms::default(), &mut heard);
        sender.begin_sending().unwrap();
        sender.send(&[&path]).unwrap();
        assert_eq!(heard.0, Vec::<String>::new());
        output
    };
    for (name, comes) in [
        ("tab\there", b"tab\there".as_slice()),
        ("a\\b", b"a\\b"),
        ("a\nb", b"a\\^Jb"),
        // As scp -O of OpenSSH 9.2 sends it.
        ("e\u{e9}\n\\z", b"e\\M-C\\M-)\\^J\\\\z"),
        ("\u{a0}\u{7f}\n", b"\\M-B\\240\\^?\\^J"),
    ] {
        let mut expected = b"C6755 0 ".to_vec();
        expected.extend_from_slice(comes);
        expected.extend_from_slice(b"\n\0");
        let output = sent(name.as_bytes());
        assert_eq!(output, expected, "{}", String::from_utf8_lossy(&output));
    }
}

#[test]
fn a_tree_may_be_as_deep_as_a_path_is_long() {
    let place = Scratch::new();
    let from = place.join("from");
    let deep = from.join(vec!["d"; 400].join("/"));
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("f"), b"deep").unwrap();
    let terms = Terms {
        recursive: true,
        ..Terms::default()
    };
    let to = place.join("to");
    let said = copy(&from, &to, &terms, &mut Heard::default());
    assert_eq!(said, [Vec::<String>::new(), Vec::new()]);
    let deep = to.join(vec!["d"; 400].join("/"));
    assert_eq!(fs::read(deep.join("f")).unwrap(), b"deep");
    // Endless directories: the limit on paths ends them.
    let stream = "D0755 0 d\n".repeat(5000);
    let (result, _, heard) = receive(&place, terms, stream.as_bytes());
    assert!(result.is_err());
    assert!(
        heard.0.iter().any(|line| line.contains("too long")),
        "{:?}",
        heard.0
    );
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
    let terms = Terms {
        recursive: true,
        preserve: true,
        ..Terms::default()
    };
    let said = copy(&from, &to, &terms, &mut Heard::default());
    assert_eq!(said, [Vec::<String>::new(), Vec::new()]);
    assert_eq!(fs::read(to.join("d/e/x")).unwrap(), vec![7; 300_000]);
    assert_eq!(fs::read(to.join("y")).unwrap(), b"");
}

#[test]
fn a_receiver_that_another_program_overtook_fails_and_leaves_its_file() {
    let place = Scratch::new();
    let path = place.join("file");
    let described = |size| target::Described {
        mode: 0o644,
        size,
        times: None,
    };
    for there in [None, Some(&b"what was there is longer"[..])] {
        let _ = fs::remove_file(&path);
        if let Some(there) = there {
            fs::write(&path, there).unwrap();
        }
        let mut stalled = target::Target::open(&path, &described(9)).unwrap();
        stalled.write(0, b"one").unwrap();
        // Kernels before 6.13 update times by ticks.
        let begun = fs::metadata(&path).unwrap().modified().unwrap();
        while {
            fs::write(place.join("tick"), b"").unwrap();
            fs::metadata(place.join("tick"))
                .unwrap()
                .modified()
                .unwrap()
                <= begun
        } {
            std::thread::yield_now();
        }
        let (result, ..) = receive(&path, Terms::default(), b"C0644 5 file\nother\0");
        result.unwrap();
        let error = stalled.write(3, b"and").unwrap_err().to_string();
        assert!(error.contains("another program wrote this file"), "{error}");
        let error = stalled.finish(&described(9), false).unwrap_err();
        assert_eq!(error.0, "write");
        assert_eq!(fs::read(&path).unwrap(), b"other");
        // Nor does a file that its sender gives up.
        let _ = fs::remove_file(&path);
        let mut stalled = target::Target::open(&path, &described(9)).unwrap();
        stalled.write(0, b"one").unwrap();
        receive(&path, Terms::default(), b"C0644 5 file\nother\0")
            .0
            .unwrap();
        stalled.drop_filler();
        assert_eq!(fs::read(&path).unwrap(), b"other");
    }
}
