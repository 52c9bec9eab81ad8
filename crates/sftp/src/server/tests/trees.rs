//! Directory trees (`walk`).

use super::*;

#[test]
fn a_tree_is_told_with_directories_before_what_is_in_them() {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.join("a/b/c")).unwrap();
    for index in 0..500 {
        fs::write(scratch.join(format!("a/b/file-{index}")), "x").unwrap();
    }
    symlink("../..", scratch.join("a/b/up")).unwrap();
    let mut client = Client::at(&scratch);
    let mut walk = |flags| {
        client.send(&Request::Extended(Extended::Walk(extension::Walk {
            path: b".",
            flags,
            max_len: 0,
            window: u64::MAX,
        })));
        let mut told = Vec::new();
        for (_, answer) in client.answers() {
            match answer {
                Answer::Extended(fields) => {
                    for entry in vendor::entries(&fields) {
                        let entry = entry.unwrap();
                        let path = String::from_utf8(entry.path.to_vec()).unwrap();
                        told.push((path, entry.code, entry.text.to_vec()));
                    }
                }
                other => assert_eq!(other, ok()),
            }
        }
        told
    };
    let told = walk(0);
    assert_eq!(told.len(), 1 + 3 + 500 + 1);
    assert_eq!(told[0].0, "");
    let at = |path: &str| told.iter().position(|(each, ..)| each == path).unwrap();
    assert!(at("a") < at("a/b") && at("a/b") < at("a/b/c") && at("a/b") < at("a/b/file-7"));
    assert_eq!(told[at("a/b/up")].2, b"../..");
    // A link to a parent directory is sent as a link and not entered.
    let followed = walk(vendor::walk_flag::FOLLOW);
    let up = followed
        .iter()
        .rfind(|(path, ..)| path == "a/b/up")
        .unwrap();
    assert_eq!(up.1, Code::FAILURE);
    assert!(followed.len() < 600);
}

#[test]
fn a_tree_comes_with_what_small_files_hold_and_no_faster_than_it_is_granted() {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.join("d/e")).unwrap();
    for index in 0..200 {
        fs::write(scratch.join(format!("d/{index}")), noise(index * 13)).unwrap();
    }
    fs::write(scratch.join("d/e/large"), noise(70_000)).unwrap();
    let mut client = Client::at(&scratch);
    let id = client.send(&Request::Extended(Extended::Walk(extension::Walk {
        path: b".",
        flags: vendor::walk_flag::CONTENT,
        max_len: 60_000,
        window: 1,
    })));
    let (mut told, mut rounds, mut ended) = (Vec::new(), 0, false);
    let (mut granted, mut came) = (1, 0);
    while !ended {
        let before = came;
        for (answered, answer) in client.answers() {
            match answer {
                Answer::Extended(fields) => {
                    assert_eq!(answered, id);
                    // Each begins while something is left.
                    assert!(came < granted, "{came} {granted}");
                    came += fields.len() as u64;
                    for entry in vendor::entries(&fields) {
                        let entry = entry.unwrap();
                        if entry.content.is_none() {
                            came += vendor::ENTRY_CHARGE_BYTES;
                        }
                        let path = String::from_utf8(entry.path.to_vec()).unwrap();
                        told.push((path, entry.content.map(<[u8]>::to_vec)));
                    }
                }
                other => {
                    assert_eq!(other, ok());
                    ended |= answered == id;
                }
            }
        }
        // The walk stops only when the window is used up, and the excess is deducted later.
        assert!(ended || came >= granted, "{came} {granted}");
        assert!(came - before < 100_000);
        rounds += 1;
        granted += 34_000;
        assert!(rounds < 100);
        client.send(&Request::Extended(Extended::WalkOn(extension::WalkOn {
            request: id,
            more: 34_000,
        })));
    }
    assert!(rounds > 5, "{rounds}");
    assert_eq!(told.len(), 1 + 2 + 200 + 1);
    for (path, content) in told {
        match path.as_str() {
            "" | "d" | "d/e" | "d/e/large" => assert!(content.is_none(), "{path}"),
            path => assert!(content.unwrap() == fs::read(scratch.join(path)).unwrap()),
        }
    }
    // A walk that waits forever can be cancelled, and delays nothing.
    client.send(&Request::Extended(Extended::Walk(extension::Walk {
        path: b".",
        flags: 0,
        max_len: 0,
        window: 0,
    })));
    assert_eq!(client.answers().pop().map(|(_, answer)| answer), Some(ok()));
    let stat = Request::Stat(request::Stat { path: b"d" });
    assert!(matches!(client.ask(&stat), Answer::Attrs(_)));
    let request = client.next_id - 1;
    client.send(&Request::Extended(Extended::Cancel(extension::Cancel {
        request,
    })));
    let answers = client.answers();
    assert_eq!(answers.len(), 2, "{answers:?}");
    assert!(matches!(&answers[0], (id, Answer::Status(Code::FAILURE, _)) if *id == request));
}

#[test]
fn a_tree_is_entered_as_deep_as_a_client_goes_and_no_deeper_than_it_may_open() {
    let scratch = Scratch::new();
    let mut path = scratch.to_path_buf();
    for _ in 0..vendor::WALK_DEPTH + 6 {
        path.push("d");
    }
    fs::create_dir_all(&path).unwrap();
    let deepest = |handles| {
        let place = PathRoot::everywhere(scratch.as_os_str().as_bytes()).unwrap();
        let mut client = Client::new(place, Permits::everything());
        client.serve.handles = handles::Handles::new(handles);
        client.send(&Request::Extended(Extended::Walk(extension::Walk {
            path: b".",
            flags: 0,
            max_len: 0,
            window: u64::MAX,
        })));
        let (mut deepest, mut failed) = (0, 0);
        for (_, answer) in client.answers() {
            let Answer::Extended(fields) = answer else {
                continue;
            };
            for entry in vendor::entries(&fields) {
                let entry = entry.unwrap();
                failed += usize::from(!entry.code.is_ok());
                deepest = deepest.max(entry.path.split(|byte| *byte == b'/').count());
            }
        }
        (deepest, failed)
    };
    assert_eq!(deepest(1000), (vendor::WALK_DEPTH, 0));
    assert_eq!(deepest(10), (10, 1));
}

#[test]
fn a_tree_tells_nothing_of_what_is_outside_a_confined_place() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.join("root")).unwrap();
    fs::write(scratch.join("secret"), "outside").unwrap();
    fs::write(scratch.join("root/in"), "inside!!").unwrap();
    symlink(scratch.join("secret"), scratch.join("root/absolute")).unwrap();
    symlink("../secret", scratch.join("root/relative")).unwrap();
    symlink("/in", scratch.join("root/inner")).unwrap();
    let root = scratch.join("root");
    let Ok(place) = PathRoot::confined(root.as_os_str().as_bytes(), b"/") else {
        return;
    };
    let mut client = Client::new(place, Permits::everything());
    client.send(&Request::Extended(Extended::Walk(extension::Walk {
        path: b".",
        flags: vendor::walk_flag::FOLLOW | vendor::walk_flag::CONTENT,
        max_len: 8,
        window: u64::MAX,
    })));
    let mut told = 0;
    for (_, answer) in client.answers() {
        let Answer::Extended(fields) = answer else {
            continue;
        };
        for entry in vendor::entries(&fields) {
            let entry = entry.unwrap();
            let is_link = entry.attributes.is(crate::attributes::mode::SYMLINK);
            match entry.path {
                b"absolute" | b"relative" => {
                    assert!(is_link && !entry.text.is_empty() && entry.content.is_none());
                }
                b"inner" => {
                    assert_eq!(entry.attributes.size, Some(8));
                    assert_eq!(entry.content, Some(b"inside!!".as_slice()));
                }
                _ => continue,
            }
            told += 1;
        }
    }
    assert_eq!(told, 3);
}
