//! Libraries that go wrong in every way, each in a process of its own: bytes stay right, the reason
//! is told, and this process lives. The test's own binary is executed as the role.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use accelerator::{Accelerator, Request};
use compress::provider::{Flush, Provider, Run, RunEncoder, RunError, Verifier};
use sys::process::SelfExe;

fn main() {
    let mut arguments: Vec<_> = std::env::args_os().skip(1).collect();
    if arguments
        .first()
        .is_some_and(|first| first == accelerator::ROLE)
    {
        arguments.remove(0);
        std::process::exit(accelerator::main(arguments));
    }
    if arguments.first().is_some_and(|first| first == TRY) {
        match open(Path::new(&arguments[1])) {
            Ok(accelerator) => println!("{}", accelerator.describe()),
            Err(why) => println!("{why}"),
        }
        return;
    }
    if arguments.first().is_some_and(|first| first == HOLD) {
        hold(Path::new(&arguments[1]));
    }
    let filter = arguments
        .iter()
        .find_map(|it| it.to_str().filter(|it| !it.starts_with('-')));
    let tests: &[(&str, fn())] = &[
        ("an_ordinary_zlib_is_used", an_ordinary_zlib_is_used),
        (
            "faults_at_the_start_are_reasons",
            faults_at_the_start_are_reasons,
        ),
        ("faults_later_cost_one_run", faults_later_cost_one_run),
        ("the_cage_holds", the_cage_holds),
        (
            "without_a_cage_nothing_is_loaded",
            without_a_cage_nothing_is_loaded,
        ),
        ("threads_share_the_lanes", threads_share_the_lanes),
        ("the_next_library_is_tried", the_next_library_is_tried),
        (
            "the_process_ends_with_its_owner",
            the_process_ends_with_its_owner,
        ),
        (
            "it_outlives_nobody_who_is_killed",
            it_outlives_nobody_who_is_killed,
        ),
        ("memory_of_bulk_is_given_back", memory_of_bulk_is_given_back),
        ("what_verification_costs", what_verification_costs),
    ];
    let chosen = tests
        .iter()
        .filter(|(name, _)| filter.is_none_or(|it| name.contains(it)));
    let _folder = Folder;
    for (name, test) in chosen {
        test();
        println!("test {name} ... ok");
    }
}

/// First argument of a process that only opens the library that follows.
const TRY: &str = "try";
/// First argument of a process that opens it and is killed then.
const HOLD: &str = "hold";

/// The folder of what is built here; gone with the process, also when a test fails.
struct Folder;

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(folder());
    }
}

fn folder() -> PathBuf {
    std::env::temp_dir().join(format!("fulmar-accelerator-{}", std::process::id()))
}

fn fake(name: &str, flags: &[&str]) -> PathBuf {
    std::fs::create_dir_all(folder()).unwrap();
    let path = folder().join(format!("lib{name}.so"));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../compress/tests/fake_zlib.c");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-w", "-o"])
        .arg(&path)
        .arg(source)
        .args(flags)
        .status();
    assert!(built.expect("a C compiler").success());
    path
}

fn faulty(at: &str, how: &str, after: u32) -> PathBuf {
    fake(
        &format!("{at}-{how}-{after}"),
        &[
            &format!("-DAT={at}"),
            &format!("-DHOW={how}"),
            &format!("-DAFTER={after}"),
        ],
    )
}

fn zlib() -> PathBuf {
    let paths = [
        "/usr/lib/x86_64-linux-gnu/libz.so.1",
        "/usr/lib/aarch64-linux-gnu/libz.so.1",
    ];
    let found = paths.iter().map(PathBuf::from).find(|path| path.exists());
    found.expect("install zlib1g")
}

fn request(library: &Path) -> Request {
    Request {
        libraries: vec![library.to_owned()],
        lanes: 1,
        ..Request::new(&[], true, 6)
    }
}

fn open(library: &Path) -> Result<Accelerator, String> {
    Accelerator::open(&request(library), &SelfExe::open().unwrap())
}

fn data(len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| b"packets of words, "[at * at / 7 % 18])
        .collect()
}

fn encode(encoder: &mut dyn RunEncoder, data: &[u8]) -> Result<usize, RunError> {
    let history_bytes = 32_768;
    let ends: Vec<usize> = (1..=8).map(|n| history_bytes + n * 32_768).collect();
    let run = Run {
        window: &data[..ends[7]],
        history_bytes,
        ends: &ends,
        level: 6,
        flush: Flush::Sync,
    };
    let (mut out, mut made) = (b"before".to_vec(), Vec::new());
    encoder.encode_run(&run, &mut out, &mut made)?;
    let made: Vec<usize> = made.iter().map(|end| end - 6).collect();
    Verifier::new().verify(&run, &out[6..], &made).unwrap();
    Ok(out.len() - 6)
}

fn an_ordinary_zlib_is_used() {
    let accelerator = open(&zlib()).unwrap();
    let line = accelerator.describe();
    assert!(
        line.contains("libz.so.1") && line.contains("(zlibVersion 1."),
        "{line}"
    );
    assert!(line.contains("no device open, self-test ok"), "{line}");
    let mut encoder = accelerator.encoder().unwrap();
    let bytes = encode(&mut *encoder, &data(300_000)).unwrap();
    assert!(bytes < 100_000, "{bytes}");
}

fn faults_at_the_start_are_reasons() {
    for (at, how, says) in [
        ("LOAD", "FAIL", "exited with 3"),
        ("LOAD", "CRASH", "killed by"),
        ("LOAD", "HANG", "no answer within"),
        ("INIT", "FAIL", "deflateInit2_ failed with -2"),
        ("INIT", "CRASH", "killed by"),
        ("RESET", "FAIL", "deflateReset failed"),
        ("DICTIONARY", "FAIL", "deflateSetDictionary failed"),
        ("DICTIONARY", "HANG", "no answer within"),
        ("DEFLATE", "WILD", "killed by"),
        ("DEFLATE", "GROW", "longer than deflate allows"),
        ("DEFLATE", "LESS", "two lengths"),
        ("DEFLATE", "MORE", "space has grown"),
        ("DEFLATE", "REST", "not taken all input"),
        ("DEFLATE", "WRONG", "inflates to other bytes"),
        ("DEFLATE", "FINAL", "ends the stream"),
        ("DEFLATE", "EMPTY", "does not end with a flush"),
    ] {
        let begun = Instant::now();
        let path = faulty(at, how, 0);
        let why = open(&path).unwrap_err();
        assert!(why.contains(says), "{at} {how}: {why}");
        assert!(why.starts_with(&path.display().to_string()), "{why}");
        assert!(begun.elapsed() < Duration::from_secs(60), "{at} {how}");
    }
    let why = open(Path::new("libz.so.1")).unwrap_err();
    assert_eq!(why, "libz.so.1: not an absolute path");
    let why = open(Path::new("/nonexistent/libz.so.1")).unwrap_err();
    assert!(why.contains("cannot open shared object file"), "{why}");
    let mut of_root = request(&faulty("DEFLATE", "WRONG", 0));
    of_root.root_owned = true;
    let why = Accelerator::open(&of_root, &SelfExe::open().unwrap()).unwrap_err();
    assert!(why.contains("writ") || why.contains("own"), "{why}");
    let mut none = request(Path::new("/"));
    none.libraries.clear();
    let why = Accelerator::open(&none, &SelfExe::open().unwrap()).unwrap_err();
    assert!(why.contains("HwCompressionLibrary"), "{why}");
}

fn faults_later_cost_one_run() {
    let data = data(300_000);
    // The self-test deflates eight payloads and begins four runs.
    for (at, how, after, says) in [
        ("DEFLATE", "FAIL", 20, "deflate failed with -2"),
        ("DEFLATE", "CRASH", 20, "killed by"),
        ("DEFLATE", "WILD", 20, "killed by"),
        ("DEFLATE", "HANG", 20, "no answer within"),
        ("DEFLATE", "WRONG", 20, "inflates to other bytes"),
        ("DEFLATE", "FINAL", 20, "ends the stream"),
        ("DEFLATE", "GROW", 20, "longer"),
        ("DEFLATE", "LESS", 20, "two lengths"),
        ("DEFLATE", "MORE", 20, "space has grown"),
        ("DEFLATE", "REST", 20, "not taken all"),
        ("DEFLATE", "EMPTY", 20, "does not end"),
        ("RESET", "FAIL", 5, "deflateReset failed"),
        ("RESET", "CRASH", 5, "killed by"),
        ("DICTIONARY", "HANG", 4, "no answer within"),
    ] {
        let accelerator = open(&faulty(at, how, after)).unwrap();
        let mut encoder = accelerator.encoder().unwrap();
        let failed = (0..20).find_map(|_| encode(&mut *encoder, &data).err());
        let RunError(why) = failed.unwrap_or_else(|| panic!("{at} {how}: no fault"));
        assert!(why.contains(says), "{at} {how}: {why}");
        // It is not asked again.
        assert!(encode(&mut *encoder, &data).is_err());
        assert!(accelerator.encoder().is_err(), "{at} {how}");
    }
}

fn the_cage_holds() {
    let why = open(&faulty("DEFLATE", "PRY", 0)).unwrap_err();
    // Each bit of the code beyond 1000 is something that it reached.
    assert!(why.contains("deflate failed with -1000"), "{why}");
    assert!(!Path::new("/tmp/fulmar-provider-was-here").exists());
}

fn threads_share_the_lanes() {
    let mut request = request(&zlib());
    request.lanes = 2;
    let accelerator = Accelerator::open(&request, &SelfExe::open().unwrap()).unwrap();
    let data = data(300_000);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10 {
                    let mut encoder = accelerator.encoder().unwrap();
                    encode(&mut *encoder, &data).unwrap();
                }
            });
        }
    });
}

fn the_next_library_is_tried() {
    let mut both = request(&faulty("LOAD", "CRASH", 0));
    both.libraries.push(zlib());
    let accelerator = Accelerator::open(&both, &SelfExe::open().unwrap()).unwrap();
    assert!(accelerator.path().ends_with("libz.so.1"), "{accelerator:?}");
    both.libraries[1] = PathBuf::from("/nonexistent.so");
    let why = Accelerator::open(&both, &SelfExe::open().unwrap()).unwrap_err();
    assert!(
        why.contains("killed by") && why.contains("; /nonexistent.so: "),
        "{why}"
    );
}

/// Runs this program as `role` on a kernel that lacks `what`.
fn without(what: &str, role: &str, library: &Path) -> String {
    let launcher = folder().join("without");
    if !launcher.exists() {
        std::fs::create_dir_all(folder()).unwrap();
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/without.c");
        let mut compiler = Command::new("cc");
        compiler.arg("-o").arg(&launcher).arg(source);
        assert!(compiler.status().expect("a C compiler").success());
    }
    let mut command = Command::new(launcher);
    command.arg(what).arg(std::env::current_exe().unwrap());
    let said = command.arg(role).arg(library).output().unwrap();
    String::from_utf8(said.stdout).unwrap()
}

fn without_a_cage_nothing_is_loaded() {
    // That would be told by its exit status.
    let library = faulty("LOAD", "FAIL", 0);
    let said = without("landlock", TRY, &library);
    assert!(
        said.contains("not loaded: this kernel has no Landlock"),
        "{said}"
    );
    let said = without("seccomp", TRY, &library);
    assert!(
        said.contains("sandbox: this kernel does not restrict system calls"),
        "{said}"
    );
}

/// Children of this process that have not ended: pid and state.
fn children() -> Vec<u32> {
    let path = format!("/proc/self/task/{}/children", std::process::id());
    let all = std::fs::read_to_string(path).unwrap();
    let all = all.split_whitespace().map(|pid| pid.parse().unwrap());
    all.filter(|pid| lives(*pid)).collect()
}

/// There is such a process, and it is no corpse.
fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().unwrap_or_default();
    !state.is_empty() && !state.starts_with('Z')
}

fn ends(pid: u32) -> bool {
    let begun = Instant::now();
    while lives(pid) {
        if begun.elapsed() > Duration::from_secs(60) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

fn the_process_ends_with_its_owner() {
    let before = children();
    let accelerator = open(&zlib()).unwrap();
    let new: Vec<u32> = children()
        .into_iter()
        .filter(|pid| !before.contains(pid))
        .collect();
    assert_eq!(new.len(), 1, "{before:?} {new:?}");
    drop(accelerator);
    assert!(ends(new[0]));
}

/// The role [`HOLD`]: says who has loaded the library, and does not end.
fn hold(library: &Path) -> ! {
    // Both ways of hearing of our end, one after the other.
    let mut request = request(library);
    let told = std::env::var_os("BY_SOCKET").is_some();
    request.ends_with_starter = !told;
    // What hangs while it is loaded is there all the same.
    std::thread::spawn(|| {
        loop {
            if let [child] = children()[..] {
                println!("{child}");
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let _accelerator = Accelerator::open(&request, &SelfExe::open().unwrap());
    loop {
        std::thread::park();
    }
}

fn it_outlives_nobody_who_is_killed() {
    for library in [
        zlib(),
        faulty("LOAD", "HANG", 0),
        faulty("DEFLATE", "HANG", 0),
    ] {
        for by_socket in [false, true] {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.arg(HOLD).arg(&library).stdout(Stdio::piped());
            if by_socket {
                command.env("BY_SOCKET", "1");
            }
            let mut owner = command.spawn().unwrap();
            let mut line = String::new();
            BufReader::new(owner.stdout.take().unwrap())
                .read_line(&mut line)
                .unwrap();
            owner.kill().unwrap();
            owner.wait().unwrap();
            let pid = line.trim().parse().unwrap();
            assert!(ends(pid), "{} lives on", library.display());
        }
    }
}

/// Memory that lanes share with the process, in blocks of 512 bytes.
fn lane_blocks() -> u64 {
    let mut blocks = 0;
    for entry in std::fs::read_dir("/proc/self/fd").unwrap().flatten() {
        let named = std::fs::read_link(entry.path()).unwrap_or_default();
        if named.to_string_lossy().contains("memfd:compress-lane") {
            blocks += std::fs::metadata(entry.path()).unwrap().blocks();
        }
    }
    blocks
}

fn memory_of_bulk_is_given_back() {
    let accelerator = open(&zlib()).unwrap();
    accelerator.shed();
    assert_eq!(lane_blocks(), 0);
    let data = data(300_000);
    for _ in 0..3 {
        let mut encoder = accelerator.encoder().unwrap();
        encode(&mut *encoder, &data).unwrap();
        drop(encoder);
        assert!(accelerator.has_spare());
        // The window alone.
        assert!(lane_blocks() >= 8 * 32_768 / 512, "{}", lane_blocks());
        accelerator.shed();
        assert_eq!(lane_blocks(), 0);
        assert!(!accelerator.has_spare());
    }
}

/// Not a judgement: the figures for the documentation.
fn what_verification_costs() {
    let data = data(300_000);
    for verify in [true, false] {
        let mut request = request(&zlib());
        request.verify = verify;
        let accelerator = Accelerator::open(&request, &SelfExe::open().unwrap()).unwrap();
        let mut encoder = accelerator.encoder().unwrap();
        let begun = Instant::now();
        let mut bytes = 0;
        for _ in 0..40 {
            let history_bytes = 32_768;
            let ends: Vec<usize> = (1..=8).map(|n| history_bytes + n * 32_768).collect();
            let run = Run {
                window: &data[..ends[7]],
                history_bytes,
                ends: &ends,
                level: 1,
                flush: Flush::Sync,
            };
            let (mut out, mut made) = (Vec::new(), Vec::new());
            encoder.encode_run(&run, &mut out, &mut made).unwrap();
            bytes += 8 * 32_768;
        }
        let speed = f64::from(bytes) / begun.elapsed().as_secs_f64() / 1e6;
        println!("verify {verify}: {speed:.0} MB/s");
        assert!(speed > 0.0);
    }
}
