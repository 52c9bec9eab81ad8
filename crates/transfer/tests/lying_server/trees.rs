//! Directory trees (`walk`).

use super::*;

/// An entry for a directory or a file.
pub(super) fn told(path: &[u8], content: Option<&[u8]>, attributes: Attributes) -> Vec<u8> {
    let mut fields = Vec::new();
    vendor::WalkEntry {
        code: Code::OK,
        path,
        attributes,
        allocated: 0,
        text: b"",
        content,
    }
    .write(&mut fields);
    fields
}

fn directory(path: &str) -> Vec<u8> {
    let attributes = Attributes::with_permissions(mode::DIRECTORY | 0o755);
    told(path.as_bytes(), None, attributes)
}

fn file(path: &[u8], content: &[u8]) -> Vec<u8> {
    let attributes = Attributes::with_permissions(mode::REGULAR | 0o644);
    told(path, Some(content), attributes)
}

pub(super) fn get_tree(
    tree: Vec<Vec<u8>>,
    ends: Option<Code>,
    to: &Path,
) -> (Heard, usize, Engine<Adversary>) {
    let adversary = Adversary::new(Nature {
        tree: Some(tree),
        tree_ends: ends,
        ..Nature::default()
    });
    let mut heard = Heard::default();
    let mut engine = Engine::new(adversary);
    let item = GetItem {
        from: b"/dir".to_vec(),
        to: to.to_path_buf(),
        attributes: None,
    };
    let mut work = Get::new(recursive(), vec![item], 1, &mut heard);
    engine.run(&mut work).unwrap();
    let failures = work.failures();
    (heard, failures, engine)
}

#[test]
fn a_tree_leads_nowhere_but_into_the_target() {
    let place = Place::new("tree-names");
    let bad: [&[u8]; 14] = [
        b"../out",
        b"/tmp/fulmar-out",
        b"..",
        b".",
        b"/",
        b"d/../../out",
        b"d/..",
        b"d/",
        b"d//x",
        b"nul\0x",
        b"not-told/x",
        b"good/x",
        b"d/left/x",
        b"./good",
    ];
    let mut answers = vec![
        directory(""),
        file(b"good", b"hello"),
        directory("d"),
        directory("d/left"),
        file(b"d/in", b"hello"),
    ];
    answers.extend(bad.iter().map(|path| file(path, b"evil")));
    answers.extend(["..", "d/..", "/tmp/fulmar-out", "x/../../y"].map(directory));
    answers.push(file(b"d/\x1b[2J", b"hello"));
    let (heard, failures, _) = get_tree(answers, Some(Code::OK), &place.join("x"));
    assert_eq!((heard.good, failures), (3, 18), "{:?}", heard.errors);
    for error in &heard.errors {
        assert!(
            error.contains("suspect path") && !error.contains('\x1b'),
            "{error}"
        );
    }
    let names = |path: &Path| fs::read_dir(path).unwrap().count();
    assert_eq!(names(place.parent().unwrap()), 1);
    assert_eq!(
        (
            names(&place),
            names(&place.join("x")),
            names(&place.join("x/d"))
        ),
        (1, 2, 3)
    );
    assert!(!Path::new("/tmp/fulmar-out").exists());
}

#[test]
fn a_tree_with_a_link_in_its_way_does_not_follow_one_that_came_with_it() {
    let place = Place::new("tree-links");
    // A link sent by the server is never created.
    let link = told(
        b"l",
        None,
        Attributes::with_permissions(mode::SYMLINK | 0o777),
    );
    let answers = vec![link, file(b"l/x", b"evil"), file(b"l", b"content")];
    let (heard, failures, _) = get_tree(answers, Some(Code::OK), &place.join("x"));
    assert_eq!((heard.good, failures), (1, 1), "{:?}", heard.errors);
    assert!(fs::symlink_metadata(place.join("x/l")).unwrap().is_file());
}

#[test]
fn a_tree_without_a_bottom_is_left() {
    let place = Place::new("tree-deep");
    let mut path = String::new();
    let mut answers = Vec::new();
    for _ in 0..2000 {
        path.push_str(if path.is_empty() { "d" } else { "/d" });
        answers.push(directory(&path));
        answers.push(file(format!("{path}/f").as_bytes(), b"x"));
    }
    let (heard, failures, _) = get_tree(answers, Some(Code::OK), &place.join("x"));
    assert_eq!(heard.good, 63);
    assert!(failures > 1 && heard.errors[0].contains("Maximum directory depth"));
}

#[test]
fn the_same_thing_told_again_is_what_was_told_last() {
    let place = Place::new("tree-again");
    let answers = vec![
        directory("d"),
        file(b"d/f", b"first"),
        directory("d"),
        file(b"d/f", b"second"),
        // A file in place of a directory, and vice versa.
        file(b"d", b"no"),
        directory("d/f"),
        file(b"d/f/x", b"no"),
        directory("e"),
    ];
    let (heard, failures, _) = get_tree(answers, Some(Code::OK), &place.join("x"));
    assert_eq!(fs::read(place.join("x/d/f")).unwrap(), b"second");
    assert!(place.join("x/e").is_dir());
    assert_eq!(heard.good, 2);
    assert!(failures >= 2, "{:?}", heard.errors);
}

#[test]
fn a_tree_that_ends_anywhere_is_a_failure_and_what_arrived_is_whole() {
    let entries = [
        directory(""),
        directory("d"),
        file(b"d/a", b"content of a"),
        file(b"d/b", b"content of b"),
    ];
    let whole = entries.concat();
    let mut between = Vec::new();
    for entry in &entries {
        between.push(between.last().unwrap_or(&0) + entry.len());
    }
    let place = Place::new("tree-cut");
    // Each entry is valid; only the stream never ends.
    for cut in (1..whole.len()).filter(|cut| !between.contains(cut)) {
        let to = place.join("x");
        let tree = vec![whole[..cut].to_vec()];
        let (heard, failures, mut engine) = get_tree(tree, None, &to);
        let broken = heard
            .errors
            .iter()
            .any(|line| line.contains("malformed answer"));
        assert!(broken && failures > 0, "{cut}: {:?}", heard.errors);
        assert!(
            engine
                .transport()
                .log
                .iter()
                .any(|line| line.starts_with("CANCEL"))
        );
        for name in ["a", "b"] {
            if let Ok(there) = fs::read(to.join("d").join(name)) {
                assert_eq!(there, format!("content of {name}").as_bytes(), "{cut}");
            }
        }
        fs::remove_dir_all(&to).unwrap();
    }
    // If refused at once, the tree is read directory by directory; if refused after the first
    // answer, it has failed.
    let (heard, failures, engine) =
        get_tree(Vec::new(), Some(Code::PERMISSION_DENIED), &place.join("x"));
    assert_eq!((heard.good, failures), (0, 0), "{:?}", heard.errors);
    drop(engine);
    let (heard, failures, _) = get_tree(vec![directory("")], Some(Code::FAILURE), &place.join("y"));
    assert_eq!(failures, 1, "{:?}", heard.errors);
    assert!(heard.errors[0].contains("readdir(\"/dir\")"));
}

#[test]
fn sizes_that_a_tree_tells_are_not_believed() {
    let place = Place::new("tree-sizes");
    let huge = Attributes {
        size: Some(u64::MAX),
        ..Attributes::with_permissions(mode::REGULAR | 0o4777)
    };
    let answers = vec![told(b"a", Some(b"five!"), huge), told(b"b", None, huge)];
    let (heard, failures, _) = get_tree(answers, Some(Code::OK), &place.join("x"));
    assert_eq!((heard.good, failures), (1, 1), "{:?}", heard.errors);
    let there = fs::metadata(place.join("x/a")).unwrap();
    assert_eq!((there.len(), there.permissions().mode() & 0o7000), (5, 0));
    assert!(!place.join("x/b").exists());
}
