//! Libraries that fail in every way, each in a process of its own: the output stays correct, the
//! reason is reported, and this process survives. The test executes its own binary as the role.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use accelerator::{Accelerator, LibraryRequest};
use bed::{PAYLOAD_BYTES, encode_bulk, stream, zlib};
use compress::provider::{Flush, Provider, Run, RunError, RunOutput};
use fakes::Fakes;
use sys::process::PidFd;
use sys::signals::Signal;

mod bed;
#[path = "../../compress/tests/fakes/mod.rs"]
mod fakes;

fn main() {
    let arguments = bed::arguments();
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
    let tests: &[(&str, Test)] = &[
        ("an_ordinary_zlib_is_used", an_ordinary_zlib_is_used),
        (
            "faults_at_the_start_are_reasons",
            faults_at_the_start_are_reasons,
        ),
        ("faults_later_cost_one_run", faults_later_cost_one_run),
        ("a_stream_goes_on_in_software", a_stream_goes_on_in_software),
        ("the_cage_holds", the_cage_holds),
        (
            "without_a_cage_nothing_is_loaded",
            without_a_cage_nothing_is_loaded,
        ),
        ("threads_share_the_lanes", threads_share_the_lanes),
        ("the_next_library_is_tried", the_next_library_is_tried),
        (
            "libraries_that_hang_do_so_side_by_side",
            libraries_that_hang_do_so_side_by_side,
        ),
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
    let fakes = Fakes::new("faults");
    for (name, test) in tests {
        if bed::is_asked_for(name, &arguments) {
            test(&fakes);
            println!("test {name} ... ok");
        }
    }
}

type Test = fn(&Fakes);

/// First argument of a process that only opens the library that follows.
const TRY: &str = "try";
/// First argument of a process that opens it and is then killed.
const HOLD: &str = "hold";

/// The machine may be busy: the limits apply only to libraries that hang, at the start or later.
fn request(library: &Path) -> LibraryRequest {
    let name = library.to_string_lossy();
    let limit = |hangs, seconds| Duration::from_secs(if hangs { seconds } else { 60 });
    LibraryRequest {
        start_limit: limit(name.contains("-HANG-0"), 2),
        run_limit: limit(name.contains("-HANG-"), 3),
        ..bed::request(&[library], 1)
    }
}

fn open(library: &Path) -> Result<Accelerator, String> {
    bed::open(&request(library))
}

fn data(len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| b"packets of words, "[at * at / 7 % 18])
        .collect()
}

fn an_ordinary_zlib_is_used(_: &Fakes) {
    let accelerator = open(&zlib()).unwrap();
    let line = accelerator.describe();
    assert!(
        line.contains("libz.so.1") && line.contains("(zlibVersion 1."),
        "{line}"
    );
    assert!(line.contains("no device open, self-test ok"), "{line}");
    let mut encoder = accelerator.encoder().unwrap();
    let bytes = encode_bulk(&mut *encoder, &data(300_000)).unwrap();
    assert!(bytes < 100_000, "{bytes}");
}

fn faults_at_the_start_are_reasons(fakes: &Fakes) {
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
        ("DEFLATE", "LESS", "two different lengths"),
        ("DEFLATE", "MORE", "space has grown"),
        ("DEFLATE", "REST", "not taken all input"),
        ("DEFLATE", "WRONG", "inflates to different bytes"),
        ("DEFLATE", "FINAL", "ends the stream"),
        ("DEFLATE", "EMPTY", "does not end with a flush"),
        ("DEFLATE", "OPEN", "does not end between blocks"),
    ] {
        let begun = Instant::now();
        let path = fakes.faulty_zlib(at, how, 0);
        let why = open(&path).unwrap_err();
        assert!(why.contains(says), "{at} {how}: {why}");
        assert!(why.starts_with(&path.display().to_string()), "{why}");
        assert!(begun.elapsed() < Duration::from_secs(60), "{at} {how}");
    }
    let why = open(Path::new("libz.so.1")).unwrap_err();
    assert_eq!(why, "libz.so.1: not an absolute path");
    let why = open(Path::new("/nonexistent/libz.so.1")).unwrap_err();
    assert!(why.contains("cannot open shared object file"), "{why}");
    let mut of_root = request(&fakes.faulty_zlib("DEFLATE", "WRONG", 0));
    of_root.root_owned = true;
    let why = bed::open(&of_root).unwrap_err();
    assert!(why.contains("writ") || why.contains("own"), "{why}");
    let why = bed::open(&bed::request(&[], 1)).unwrap_err();
    assert!(why.contains("HwCompressionLibrary"), "{why}");
}

fn faults_later_cost_one_run(fakes: &Fakes) {
    let data = data(300_000);
    // The self-test deflates eight payloads and begins four runs.
    for (at, how, after, says) in [
        ("DEFLATE", "FAIL", 20, "deflate failed with -2"),
        ("DEFLATE", "CRASH", 20, "killed by"),
        ("DEFLATE", "WILD", 20, "killed by"),
        ("DEFLATE", "HANG", 20, "no answer within"),
        ("DEFLATE", "WRONG", 20, "inflates to different bytes"),
        ("DEFLATE", "FINAL", 20, "ends the stream"),
        ("DEFLATE", "GROW", 20, "longer"),
        ("DEFLATE", "LESS", 20, "two different lengths"),
        ("DEFLATE", "MORE", 20, "space has grown"),
        ("DEFLATE", "REST", 20, "not taken all"),
        ("DEFLATE", "EMPTY", 20, "does not end"),
        ("RESET", "FAIL", 5, "deflateReset failed"),
        ("RESET", "CRASH", 5, "killed by"),
        ("DICTIONARY", "HANG", 4, "no answer within"),
    ] {
        let accelerator = open(&fakes.faulty_zlib(at, how, after)).unwrap();
        let mut encoder = accelerator.encoder().unwrap();
        let failed = (0..20).find_map(|_| encode_bulk(&mut *encoder, &data).err());
        let RunError(why) = failed.unwrap_or_else(|| panic!("{at} {how}: no fault"));
        assert!(why.contains(says), "{at} {how}: {why}");
        // The library is not used again.
        assert!(encode_bulk(&mut *encoder, &data).is_err());
        assert!(accelerator.encoder().is_err(), "{at} {how}");
    }
}

/// Each fault in the middle of a stream: the output inflates to the input, the library has encoded
/// the beginning, and the reason for its failure is reported once.
fn a_stream_goes_on_in_software(fakes: &Fakes) {
    let data = bed::data();
    for (at, how, after, says) in [
        // The self-test begins four runs and deflates eight payloads.
        ("RESET", "FAIL", 4, "deflateReset failed with -2"),
        ("PARAMS", "FAIL", 0, "deflateParams failed with -2"),
        ("PARAMS", "HANG", 0, "no answer within"),
        ("DICTIONARY", "CRASH", 2, "killed by"),
        ("DEFLATE", "FAIL", 20, "deflate failed with -2"),
        ("DEFLATE", "HANG", 20, "no answer within"),
        ("DEFLATE", "CRASH", 20, "killed by"),
        ("DEFLATE", "WILD", 20, "killed by"),
        ("DEFLATE", "GROW", 20, "longer than deflate allows"),
        ("DEFLATE", "LESS", 20, "two different lengths"),
        ("DEFLATE", "MORE", 20, "space has grown"),
        ("DEFLATE", "REST", 20, "not taken all input"),
        ("DEFLATE", "WRONG", 20, "inflates to different bytes"),
        ("DEFLATE", "FINAL", 20, "ends the stream"),
        // Detected in the next payload.
        ("DEFLATE", "OPEN", 20, "inflates to different bytes"),
    ] {
        let library = fakes.faulty_zlib(at, how, after);
        let accelerator = Arc::new(open(&library).unwrap());
        let name = format!("{at} {how}");
        let sent = stream(&name, &accelerator, 3, &data);
        let RunError(why) = sent.failure.unwrap_or_else(|| panic!("{name}: no fault"));
        assert!(why.contains(says), "{name}: {why}");
        // Only a change of the level calls it, before the first run.
        let runs = if at == "PARAMS" { 0 } else { 1 };
        assert_eq!(sent.report.hardware, runs * 8, "{name}");
        // Keystrokes between the payloads.
        assert!(sent.report.internal > 0, "{name}");
    }
}

fn the_cage_holds(fakes: &Fakes) {
    let why = open(&fakes.faulty_zlib("DEFLATE", "PRY", 0)).unwrap_err();
    // Each bit of the code beyond 1000 is something that it reached.
    assert!(why.contains("deflate failed with -1000"), "{why}");
    assert!(!Path::new("/tmp/fulmar-provider-was-here").exists());
}

fn threads_share_the_lanes(_: &Fakes) {
    let accelerator = bed::open(&bed::request(&[&zlib()], 2)).unwrap();
    let data = data(300_000);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10 {
                    let mut encoder = accelerator.encoder().unwrap();
                    encode_bulk(&mut *encoder, &data).unwrap();
                }
            });
        }
    });
}

fn the_next_library_is_tried(fakes: &Fakes) {
    let crashing = fakes.faulty_zlib("LOAD", "CRASH", 0);
    let accelerator = bed::open(&bed::request(&[&crashing, &zlib()], 1)).unwrap();
    assert!(accelerator.path().ends_with("libz.so.1"), "{accelerator:?}");
    let absent = Path::new("/nonexistent.so");
    let why = bed::open(&bed::request(&[&crashing, absent], 1)).unwrap_err();
    assert!(
        why.contains("killed by") && why.contains("; /nonexistent.so: "),
        "{why}"
    );
}

fn libraries_that_hang_do_so_side_by_side(fakes: &Fakes) {
    let before = children();
    let hanging = fakes.faulty_zlib("LOAD", "HANG", 0);
    let zlib = zlib();
    let mut request = bed::request(&[&hanging, &hanging, &hanging, &zlib], 1);
    // The processes do not end by themselves while this test runs.
    request.start_limit = Duration::from_secs(600);
    let all_at_once = || {
        let begun = Instant::now();
        loop {
            // In the order in which they were started.
            let new: Vec<u32> = children()
                .into_iter()
                .filter(|pid| !before.contains(pid))
                .collect();
            if let [first, second, third, _] = new[..] {
                [first, second, third].into_iter().for_each(kill);
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{new:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let accelerator = std::thread::scope(|scope| {
        scope.spawn(all_at_once);
        bed::open(&request).unwrap()
    });
    assert!(accelerator.path().ends_with("libz.so.1"), "{accelerator:?}");
}

fn kill(pid: u32) {
    let process = PidFd::open(i32::try_from(pid).unwrap()).unwrap();
    process.signal(Signal::KILL).unwrap();
}

/// Runs this program as `role` on a kernel that lacks `what`.
fn without(fakes: &Fakes, what: &str, role: &str, library: &Path) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/without.c");
    let mut command = Command::new(fakes.program(&source));
    command.arg(what).arg(std::env::current_exe().unwrap());
    let said = command.arg(role).arg(library).output().unwrap();
    String::from_utf8(said.stdout).unwrap()
}

fn without_a_cage_nothing_is_loaded(fakes: &Fakes) {
    // Its exit status would show that.
    let library = fakes.faulty_zlib("LOAD", "FAIL", 0);
    let said = without(fakes, "landlock", TRY, &library);
    assert!(
        said.contains("not loaded: this kernel has no Landlock"),
        "{said}"
    );
    let said = without(fakes, "seccomp", TRY, &library);
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

/// True if the process exists and is not a zombie.
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

fn the_process_ends_with_its_owner(_: &Fakes) {
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

/// The role [`HOLD`]: prints the pid of the process that has loaded the library, and does not end.
fn hold(library: &Path) -> ! {
    // The library's process learns of this process's end in two ways, tested one after the other.
    let mut request = bed::request(&[library], 1);
    let told = std::env::var_os("BY_SOCKET").is_some();
    request.ends_with_starter = !told;
    // The child exists even while its library hangs during loading.
    std::thread::spawn(|| {
        loop {
            if let [child] = children()[..] {
                println!("{child}");
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let _accelerator = bed::open(&request);
    loop {
        std::thread::park();
    }
}

fn it_outlives_nobody_who_is_killed(fakes: &Fakes) {
    for library in [
        zlib(),
        fakes.faulty_zlib("LOAD", "HANG", 0),
        fakes.faulty_zlib("DEFLATE", "HANG", 0),
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

fn memory_of_bulk_is_given_back(_: &Fakes) {
    let accelerator = open(&zlib()).unwrap();
    accelerator.shed();
    assert_eq!(lane_blocks(), 0);
    let data = data(300_000);
    for _ in 0..3 {
        let mut encoder = accelerator.encoder().unwrap();
        encode_bulk(&mut *encoder, &data).unwrap();
        drop(encoder);
        assert!(accelerator.has_spare());
        // The window alone.
        assert!(lane_blocks() >= 8 * 32_768 / 512, "{}", lane_blocks());
        accelerator.shed();
        assert_eq!(lane_blocks(), 0);
        assert!(!accelerator.has_spare());
    }
}

/// Not a check: prints the figures for the documentation.
fn what_verification_costs(_: &Fakes) {
    let data = data(300_000);
    for verify in [true, false] {
        let mut request = bed::request(&[&zlib()], 1);
        request.verify = verify;
        let accelerator = bed::open(&request).unwrap();
        let mut encoder = accelerator.encoder().unwrap();
        let ends = bed::ends(PAYLOAD_BYTES, PAYLOAD_BYTES);
        let run = Run {
            window: &data[..ends[7]],
            history_bytes: PAYLOAD_BYTES,
            ends: &ends,
            level: 1,
            flush: Flush::Sync,
        };
        let begun = Instant::now();
        let mut bytes = 0.0;
        for _ in 0..40 {
            encoder.encode_run(&run, &mut RunOutput::default()).unwrap();
            bytes += 262_144.0;
        }
        let speed = bytes / begun.elapsed().as_secs_f64() / 1e6;
        println!("verify {verify}: {speed:.0} MB/s");
        assert!(speed > 0.0);
    }
}
