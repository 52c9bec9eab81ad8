//! A keystroke needs one read and one write in each process on its path.

use proto::{Stream, TransportConfig};

use crate::joined::{End, joined, settle};

/// This thread's read and write system calls, counted by the kernel.
fn calls() -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/thread-self/io").expect("accounting");
    let count = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
            .expect("a count")
    };
    (count("syscr:"), count("syscw:"))
}

/// Calls of one step of `end`, without those of the counting.
fn cost(end: &mut End) -> (u64, u64) {
    let counting = {
        let first = calls();
        calls().0 - first.0
    };
    let before = calls();
    assert!(end.step().is_empty());
    let after = calls();
    (after.0 - before.0 - counting, after.1 - before.1)
}

#[test]
fn one_read_and_one_write_on_each_side() {
    if !std::path::Path::new("/proc/thread-self/io").exists() {
        eprintln!("skipped: this kernel does not count system calls");
        return;
    }
    let (mut client, mut server, ids) = joined(&TransportConfig::default(), 1);
    let (keys, typed) = sys::io::pipe().unwrap();
    let (shown, screen) = sys::io::pipe().unwrap();
    client
        .driver
        .attach_source(ids[0], Stream::Data, keys)
        .unwrap();
    server
        .driver
        .attach_sink(ids[0], Stream::Data, screen)
        .unwrap();
    settle(&mut client, &mut server);
    for key in b"ls -l\n" {
        sys::io::write(&typed, &[*key]).unwrap();
        assert_eq!(cost(&mut client), (1, 1), "from the keyboard");
        assert_eq!(cost(&mut server), (1, 1), "to the program");
        let mut room = [0; 8];
        assert_eq!(sys::io::read(&shown, &mut room).unwrap(), 1);
        assert_eq!(room[0], *key);
    }
    assert_eq!(cost(&mut client), (0, 0));
}
