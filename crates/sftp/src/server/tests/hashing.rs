//! Hashes of ranges, by one thread and by several.

use crate::vendor::Hashes;

use super::*;

#[test]
fn ranges_are_hashed_as_a_whole_and_by_blocks() {
    let scratch = Scratch::new();
    let bytes = noise(5 << 18);
    fs::write(scratch.join("file"), &bytes).unwrap();
    let mut client = Client::at(&scratch);
    let handle = client.open(b"file", open_flag::READ);
    let mut hash = |offset, len, block_len| {
        let request = extension::HashRange {
            handle: &handle,
            offset,
            len,
            block_len,
        };
        client.extended(Extended::HashRange(request))
    };
    let hash_of = |bytes: &[u8]| blake3::hash(bytes).as_bytes().to_vec();
    for (offset, len, block, expected_len, expected) in [
        (0, u64::MAX, 0, bytes.len(), hash_of(&bytes)),
        (100, 1000, 0, 1000, hash_of(&bytes[100..1100])),
        (1 << 30, 10, 0, 0, hash_of(b"")),
        (
            0,
            u64::MAX,
            1 << 20,
            bytes.len(),
            [hash_of(&bytes[..1 << 20]), hash_of(&bytes[1 << 20..])].concat(),
        ),
    ] {
        let Answer::Extended(fields) = hash(offset, len, block) else {
            panic!("no EXTENDED_REPLY");
        };
        let hashes = Hashes::decode(&fields).unwrap();
        assert_eq!(hashes.len, expected_len as u64);
        assert_eq!(hashes.hashes, expected);
    }
    assert!(matches!(hash(0, 1, 1), Answer::Status(Code::FAILURE, _)));
}

/// Helpers are counted for the whole process: run one test at a time.
static HELPERS: Mutex<()> = Mutex::new(());

#[test]
fn helpers_come_to_the_same_hashes_as_one_thread() {
    let _alone = HELPERS.lock();
    let scratch = Scratch::new();
    // Long enough for helpers; the last block is short.
    let bytes = noise((34 << 20) + 5);
    fs::write(scratch.join("file"), &bytes).unwrap();
    fs::write(scratch.join("unreadable"), &bytes).unwrap();
    let blocks = |len: usize, block_len: usize| -> Vec<u8> {
        let chunks = bytes[..len].chunks(block_len);
        chunks.flat_map(|b| *blake3::hash(b).as_bytes()).collect()
    };
    for threads in [1, 2, 4, 8] {
        let mut client = Client::at(&scratch);
        client.serve.hash_threads = Some(threads);
        let handle = client.open(b"file", open_flag::READ);
        let request = |block_len: usize| {
            Extended::HashRange(extension::HashRange {
                handle: &handle,
                offset: 0,
                len: u64::MAX,
                block_len: block_len as u64,
            })
        };
        for block_len in [1 << 16, 4 << 20, 40 << 20] {
            let Answer::Extended(fields) = client.extended(request(block_len)) else {
                panic!("no EXTENDED_REPLY");
            };
            let hashes = Hashes::decode(&fields).unwrap();
            assert_eq!(hashes.len, bytes.len() as u64);
            assert!(hashes.hashes == blocks(bytes.len(), block_len), "{threads}");
        }
        // A file truncated during hashing ends where it was truncated, or at its former end.
        let file = fs::File::options().write(true).open(scratch.join("file"));
        let file = file.unwrap();
        let cut = (5 << 20) + 100;
        client.send(&Request::Extended(request(1 << 16)));
        client.work_once();
        file.set_len(cut as u64).unwrap();
        let (_, answer) = client.answers().remove(0);
        let Answer::Extended(fields) = answer else {
            panic!("no EXTENDED_REPLY");
        };
        let hashes = Hashes::decode(&fields).unwrap();
        let len = usize::try_from(hashes.len).unwrap();
        assert!(len >= cut, "{len}");
        assert_eq!(
            hashes.hashes.len(),
            len.div_ceil(1 << 16) * vendor::HASH_BYTES
        );
        let whole = blocks(5 << 20, 1 << 16);
        assert!(hashes.hashes.starts_with(&whole), "{threads}: {len}");
        fs::write(scratch.join("file"), &bytes).unwrap();

        let write_only = client.open(b"unreadable", open_flag::WRITE);
        let request = Extended::HashRange(extension::HashRange {
            handle: &write_only,
            offset: 0,
            len: u64::MAX,
            block_len: 1 << 16,
        });
        // EBADF, in OpenSSH's codes.
        let answer = client.extended(request);
        assert!(
            matches!(answer, Answer::Status(Code::NO_SUCH_FILE, _)),
            "{answer:?}"
        );
    }
}

#[test]
fn helpers_end_with_their_range() {
    let _alone = HELPERS.lock();
    let scratch = Scratch::new();
    let file = fs::File::create(scratch.join("file")).unwrap();
    // A file of holes: hashing it takes minutes.
    file.set_len(1 << 40).unwrap();
    let mut client = Client::at(&scratch);
    client.serve.hash_threads = Some(4);
    let handle = client.open(b"file", open_flag::READ);
    let path = fs::canonicalize(scratch.join("file")).unwrap();
    let holders = || {
        let fds = fs::read_dir("/proc/self/fd").unwrap();
        let links = fds.filter_map(|fd| fs::read_link(fd.unwrap().path()).ok());
        links.filter(|link| *link == path).count()
    };
    let helpers = || {
        let tasks = fs::read_dir("/proc/self/task").unwrap();
        let names = tasks.filter_map(|task| fs::read(task.unwrap().path().join("comm")).ok());
        names.filter(|name| name == b"hash\n").count()
    };
    let wait = |holds: &dyn Fn() -> bool| {
        let begun = std::time::Instant::now();
        while !holds() {
            assert!(begun.elapsed() < std::time::Duration::from_secs(60));
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    };
    // Helpers of another test.
    wait(&|| helpers() == 0);
    drop(file);
    client.send(&Request::Extended(Extended::HashRange(
        extension::HashRange {
            handle: &handle,
            offset: 0,
            len: u64::MAX,
            block_len: 1 << 28,
        },
    )));
    client.work_once();
    // A thread names itself.
    wait(&|| helpers() == 3);
    assert_eq!(holders(), 1);
    drop(client);
    // The file is closed when the last helper has ended.
    wait(&|| helpers() == 0 && holders() == 0);
}
